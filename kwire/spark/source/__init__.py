"""The data source `kafka_capture`: options, pruning, plan and partition reader."""
