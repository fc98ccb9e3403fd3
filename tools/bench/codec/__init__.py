"""Benchmark of the message codec beside kio, kafka-python and aiokafka: `python -m tools.bench.codec`."""
