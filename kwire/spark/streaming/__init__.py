"""Structured streaming over a folder of rotated captures."""
