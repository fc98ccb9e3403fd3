"""Partition logs: batches, producers, segments, cleaning, fetch sessions."""
