"""Scripts of requests: how they are run with a broker of any kind, and how its responses are compared."""
