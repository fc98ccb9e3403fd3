"""Apache Kafka as the reference: its jars from Maven, and brokers that run from them."""
