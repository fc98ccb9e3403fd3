"""`mockbroker replay`: sends the requests of a capture to a broker, and compares the responses."""
