"""Compares the project's schemas with those that Kafka's own jars carry."""
