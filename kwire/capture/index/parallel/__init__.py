"""Index one large capture with several processes: ranges of the file, then shards of flows; the index is the same."""
