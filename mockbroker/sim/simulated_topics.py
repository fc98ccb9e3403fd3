"""Names of the simulated topics and groups."""

from __future__ import annotations

#: Topics of the start, with their numbers of partitions.
TOPICS = {"a": 2, "b": 1}
#: The compacted topic is created at the start; the other one is deleted and created again during a run.
COMPACTED_TOPIC, DELETED_TOPIC = "c", "b"
TOPIC_NAMES = (*TOPICS, COMPACTED_TOPIC)
GROUP_IDS = ("g", "h")
#: The dead-letter queue of each group, which no group reads. That of the second gets copies, in small batches.
QUEUE_NAMES = {"g": "dlq.g", "h": "dlq.h"}
COPYING_GROUP, SMALL_BATCH_BYTES = "h", "700"
QUEUE_PARTITIONS = {"g": 1, "h": 2}
#: Topics of clients whose promises are checked with a data directory, and which no group reads.
PROMISED_TOPICS = {"sequences": 2, "transactions": 2}
