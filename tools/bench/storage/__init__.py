"""Data directories: starts, throughput and memory, beside kfake and Apache Kafka: `python -m tools.bench.storage`."""
