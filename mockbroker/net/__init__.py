"""The network shell: the only rooms that wait. Sockets and one timer outside, the synchronous core inside."""
