"""Differential fuzzer: random sequences of requests to a real Kafka and to mockbroker, and their responses compared."""
