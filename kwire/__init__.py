"""The Kafka wire protocol in Python: messages, record batches, captures."""
