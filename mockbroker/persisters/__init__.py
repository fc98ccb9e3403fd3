"""Where the state of share-partitions is kept: by the share coordinator, in the partitions' own logs, or nowhere."""
