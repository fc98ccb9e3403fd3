"""Handlers of configurations and client quotas."""
