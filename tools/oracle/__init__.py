"""A real Apache Kafka to ask: its jars from Maven, and brokers that run from them."""
