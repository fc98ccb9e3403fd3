"""Bodies of topics, their partitions and records."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mockbroker.control.models.common import (
    Base64,
    Count,
    Int32,
    Int64,
    Offset,
    PartitionIndex,
    RequestModel,
    ResponseModel,
)

#: The maximum number of records in one response, and in one request.
RECORDS_MAX = 10_000
#: For the description; Kafka's own check refuses other names.
_TOPIC_NAME = {"minLength": 1, "maxLength": 249, "pattern": "^[a-zA-Z0-9._-]+$"}


class Partition(ResponseModel, frozen=True):
    """A partition. leader: -1 for none. endOffset: behind the last record that consumers read (high watermark)."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    start_offset: int
    end_offset: int


class Topic(ResponseModel, frozen=True):
    """A topic. configs: those that are set for the topic."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: list[Partition]
    configs: dict[str, str]


class Topics(ResponseModel, frozen=True):
    """All topics by their names, internal ones included."""

    topics: list[Topic]


class NewTopic(RequestModel, frozen=True):
    """A topic to create. configs: by Kafka's names."""

    name: Annotated[str, msgspec.Meta(extra_json_schema=_TOPIC_NAME)]
    partitions: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    replication_factor: Annotated[int, msgspec.Meta(ge=1, le=(1 << 15) - 1)] | None = None
    configs: dict[str, str | int | float | bool] | None = None


class TopicPath(RequestModel, frozen=True):
    """topic: the name of a topic."""

    topic: str


class PartitionPath(RequestModel, frozen=True):
    """A partition of a topic."""

    topic: str
    partition: PartitionIndex


class LeaderMove(RequestModel, frozen=True):
    """to: the node that leads from now on; null for the next replica that is in sync."""

    to: Int32 | None = None


class Header(RequestModel, frozen=True, omit_defaults=True):
    """A header of a record: its value as text, or as base64; neither: null."""

    name: str
    value: str | None = None
    value_base64: Base64 | None = None


class NewRecord(RequestModel, frozen=True):
    """A record to append. key, value: as text (UTF-8), or as base64; neither: null.

    partition: by default the one to which Kafka's clients send the key. timestampMs: by default the cluster's time.
    """

    key: str | None = None
    key_base64: Base64 | None = None
    value: str | None = None
    value_base64: Base64 | None = None
    headers: tuple[Header, ...] = ()
    partition: PartitionIndex | None = None
    timestamp_ms: Int64 | None = None


class NewRecords(RequestModel, frozen=True):
    """Records to append, in this order: all, or none if one is refused."""

    records: Annotated[list[NewRecord], msgspec.Meta(min_length=1, max_length=RECORDS_MAX)]


class OldMessages(RequestModel, frozen=True):
    """Records to append in a message format before magic 2: all, or none. Their `partition` is that of the path.

    compression: all records are in one message. appendTimeMs: LogAppendTime of magic 1; without, they have their own.
    offsets: of the records, counted from the end of the log, ascending; without, consecutive ones.
    """

    records: Annotated[list[NewRecord], msgspec.Meta(min_length=1, max_length=RECORDS_MAX)]
    magic: Literal[0, 1]
    compression: Literal["none", "gzip", "snappy", "lz4"] = "none"
    append_time_ms: Int64 | None = None
    offsets: tuple[Offset, ...] = ()


class Record(ResponseModel, frozen=True):
    """A record. key, value: as text if it is UTF-8, otherwise as base64 in the field of that name."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    key_base64: Base64 | None = None
    value_base64: Base64 | None = None
    headers: tuple[Header, ...] = ()


class Records(ResponseModel, frozen=True):
    """Records by partition and offset. isTruncated: there are more than the limit."""

    records: list[Record]
    is_truncated: bool = False


class RecordsParameters(RequestModel, frozen=True):
    """Which records. offset: the first one in each partition. isolation: as of a consumer."""

    topic: str
    partition: PartitionIndex | None = None
    offset: Offset = 0
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    limit: Annotated[Count, msgspec.Meta(le=RECORDS_MAX)] = 1000
