"""Handlers of streams groups."""
