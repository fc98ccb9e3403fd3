"""A socket-level Kafka cluster in one process, to test clients against."""
