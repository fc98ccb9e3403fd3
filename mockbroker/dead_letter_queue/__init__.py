"""The dead-letter queues of share groups (KIP-1191): how share-partition leaders write rejected records to a topic."""
