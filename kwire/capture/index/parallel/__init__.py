"""Phase 1 by several: ranges of a file, shards of flows, and the same index in the end."""
