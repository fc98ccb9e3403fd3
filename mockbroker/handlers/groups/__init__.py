"""Handlers of classic and consumer groups."""
