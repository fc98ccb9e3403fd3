"""What the tests of groups share: topics that a test makes and grows, and the check of a refusal."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

T = b"t" * 16
U = b"u" * 16


@dataclass
class Topic:
    name: str
    topic_id: bytes
    partitions: list[int]


@dataclass
class Topics:
    by_name: dict[str, Topic] = field(default_factory=dict)
    version: int = 0
    rack: str | None = None

    def add(self, name: str, topic_id: bytes, count: int) -> None:
        self.version += 1
        self.by_name[name] = Topic(name, topic_id, list(range(count)))

    def topics(self) -> list[Topic]:
        return list(self.by_name.values())

    def topic(self, name: str) -> Topic | None:
        return self.by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return next((topic for topic in self.by_name.values() if topic.topic_id == topic_id), None)


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code is code)
