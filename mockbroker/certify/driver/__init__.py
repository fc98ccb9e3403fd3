"""The driver of a client: the protocol, its process, and typed handles of the clients that it opens."""
