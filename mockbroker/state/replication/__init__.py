"""Replication of one partition: followers as their leader knows them, ISR changes, truncation by leader epochs."""
