"""The group coordinator's topic: its records, log and replay."""
