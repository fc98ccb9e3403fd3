"""The network layer, the only package that waits: sockets and one timer around the synchronous core."""
