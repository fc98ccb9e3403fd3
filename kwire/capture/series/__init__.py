"""Captures that continue each other: checkpoints between files, file names, topic names found late."""
