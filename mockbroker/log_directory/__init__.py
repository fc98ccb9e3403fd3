"""Logs on disk in Kafka's own layout: `formats` reads and writes the contents of each kind of file."""
