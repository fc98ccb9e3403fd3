"""The rows of every level, and their columns."""
