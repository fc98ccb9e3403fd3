"""Topics of messages with their partition numbers."""

from __future__ import annotations

from kwire import registry
from kwire.capture.kafka.message_fields import message_topics, topic_numbers
from kwire.codec import decode
from kwire.uuids import ZERO
from tests.support.messages.golden_vectors import vectors_by_message


def test_topic_numbers_are_those_of_the_topics_of_every_message() -> None:
    seen = 0
    for (name, version), vectors in vectors_by_message(registry.DEFAULT_EDITION).items():
        if not name.endswith(("Request", "Response")):
            continue
        for vector in vectors:
            message = decode(name, version, vector.raw)
            topics = [
                (each.name or None, each.topic_id, [one.number for one in each.partitions])
                for each in message_topics(message)
            ]
            numbers = [
                (topic or None, None if topic_id == ZERO else topic_id or None, found)
                for topic, topic_id, found in topic_numbers(message)
            ]
            seen += len(topics)

            assert numbers == topics, (name, version)
    assert seen > 500
