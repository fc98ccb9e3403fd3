"""Comparison of two commits by what kwire and mockbroker take themselves, without peers."""
