"""`mockbroker certify`: cases that a Kafka client is judged by, played against drivers of clients (docs/certify.md)."""
