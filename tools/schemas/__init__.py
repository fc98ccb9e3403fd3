"""Compares the project's schemas with those in Kafka's official jars."""
