"""The batches of a log: the interface of their storage, and the storage in memory."""
