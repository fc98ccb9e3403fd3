"""Capture indexes built on the driver or by the executors of a cluster."""
