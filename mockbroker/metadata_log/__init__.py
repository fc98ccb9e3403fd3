"""The state of a cluster as records of Kafka's metadata log, and back. Nothing here reads or writes files."""
