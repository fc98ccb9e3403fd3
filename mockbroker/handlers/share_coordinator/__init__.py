"""Handlers of the share coordinator's state RPCs."""
