"""Capture files and live interfaces: bytes to packets."""
