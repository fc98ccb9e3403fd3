"""Flows reconstructed with column operations: stream order, frames, pairs of requests and responses."""
