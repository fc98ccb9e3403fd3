"""Replicas that fetch from their leaders (`mockbroker.replication=real`): their logs, fetchers, and ISR changes."""
