"""The share coordinator's topic: its records, log and replay."""
