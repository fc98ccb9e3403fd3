"""One broker of the cluster, its storage and controller, and the calls between brokers."""
