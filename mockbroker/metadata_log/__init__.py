"""The metadata of a cluster as Kafka's metadata log: its state as records, the log and its snapshots in files."""
