"""Java's collections where Kafka's answers depend on their order."""
