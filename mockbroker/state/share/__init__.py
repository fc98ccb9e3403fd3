"""Share groups and share partitions."""
