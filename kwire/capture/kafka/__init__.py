"""Kafka in TCP streams: detection, frames, exchanges, sessions and topic names."""
