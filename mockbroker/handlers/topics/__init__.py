"""Handlers of topics, partitions and their leaders."""
