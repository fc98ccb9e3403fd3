"""Handlers of committed offsets."""
