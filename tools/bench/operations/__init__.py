"""Benchmark of calls that wait for the broker, beside kfake and Apache Kafka: `python -m tools.bench.operations`."""
