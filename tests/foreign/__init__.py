"""Tests that other projects publish: Apache Kafka's request and tool tests, and those of franz-go's client."""
