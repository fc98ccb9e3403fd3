"""Shared helpers of group tests: topics that a test creates and extends."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    created_version: int = 0
    rack: str | None = None

    def add(self, name: str, topic_id: bytes, count: int) -> None:
        self.version += 1
        if name not in self.by_name:
            self.created_version = self.version
        self.by_name[name] = Topic(name, topic_id, list(range(count)))

    def topics(self) -> list[Topic]:
        return list(self.by_name.values())

    def topic(self, name: str) -> Topic | None:
        return self.by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return next((topic for topic in self.by_name.values() if topic.topic_id == topic_id), None)
