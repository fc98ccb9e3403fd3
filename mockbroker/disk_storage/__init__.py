"""The logs of a cluster in files: a data directory with a log directory for each node, in Kafka's layout."""
