"""Handlers that append and read records."""
