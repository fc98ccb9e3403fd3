"""Attacks on a cluster of this project: hostile clients, damaged folders, extreme requests, each for a bounded time."""
