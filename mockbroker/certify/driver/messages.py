"""The values of the driver protocol: parameters of requests, results and events, as typed structs.

`msgspec` reads and checks them; `driver.schema.json` is made from them by `make generate`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from mockbroker.certify.driver.names import ERROR_NAMES

ClientKind = Literal["producer", "consumer", "share_consumer", "admin"]
AcknowledgeType = Literal["accept", "release", "reject", "renew"]
Header = tuple[str, str | None]
_Offset = Annotated[int, msgspec.Meta(ge=0)]
_Index = Annotated[int, msgspec.Meta(ge=0)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=0)]


class Value(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A JSON object of the protocol; fields without a value are left out."""


class ErrorInfo(Value):
    """An error that the client reports. name: Kafka's, or LOCAL_...; the properties are None if the client has none."""

    name: str
    message: str = ""
    fatal: bool | None = None
    retriable: bool | None = None
    abortable: bool | None = None

    def __post_init__(self) -> None:
        if self.name not in ERROR_NAMES:
            raise ValueError(f"error name {self.name!r} is neither one of Kafka's nor one of the protocol (LOCAL_...)")

    def __str__(self) -> str:
        flags = [name for name in ("fatal", "retriable", "abortable") if getattr(self, name)]
        return f"{self.name}{' (' + ', '.join(flags) + ')' if flags else ''}: {self.message}"


class TopicPartition(Value):
    """A partition of a topic."""

    topic: str
    partition: _Index


class OffsetOf(TopicPartition):
    """An offset of a partition in a request."""

    offset: _Offset


class FoundOffset(TopicPartition):
    """An offset of a partition in an answer, None if there is none."""

    offset: int | None


class HelloParams(Value):
    """The first request."""

    protocol: int


class HelloResult(Value):
    """What the driver is. name, version: of the client library; settings: the neutral settings that it supports."""

    protocol: int
    name: str
    version: str
    language: str
    capabilities: tuple[str, ...]
    settings: tuple[str, ...] = ()


class OpenParams(Value):
    """Create a client under a name that the case chose."""

    client: str
    kind: ClientKind
    settings: dict[str, Any]


class ClientParams(Value):
    """A method of a client that needs only its name and a time limit."""

    client: str
    timeout_ms: _Milliseconds


class SendRecord(Value):
    """A record to produce. partition: this one; otherwise that of the request, or the client's choice."""

    value: str | None
    key: str | None = None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    partition: _Index | None = None


class SendParams(ClientParams):
    """Give all records to the producer at once, then wait for each."""

    topic: str
    records: tuple[SendRecord, ...]
    partition: _Index | None = None


class Delivery(Value):
    """The result of one record: where it is, or its error.

    partition, offset: -1 if the client does not learn them, as with acks 0.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    error: ErrorInfo | None = None

    def __post_init__(self) -> None:
        if self.error is None and None in (self.topic, self.partition, self.offset):
            raise ValueError("a delivery has topic, partition and offset, or an error")


class SendResult(Value):
    """The deliveries in order of the records."""

    deliveries: tuple[Delivery, ...]


class SendOffsetsParams(ClientParams):
    """Add offsets to the transaction. consumer: an open consumer, whose group metadata is used."""

    offsets: tuple[OffsetOf, ...]
    consumer: str


class SubscribeParams(ClientParams):
    """Subscribe to topics, or to those that match a pattern."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None


class AssignedPartition(TopicPartition):
    """A partition to assign. offset: to start from; without, the committed one or that of the reset policy."""

    offset: _Offset | Literal["earliest", "latest"] | None = None


class AssignParams(ClientParams):
    """Read these partitions, without a group's assignment."""

    partitions: tuple[AssignedPartition, ...]


class PollParams(ClientParams):
    """Wait for records or events. wakeup_after_ms: wake the client up from another thread after this time."""

    max_records: int | None = None
    wakeup_after_ms: _Milliseconds | None = None


class ConsumedRecord(TopicPartition):
    """A record that the application receives. timestamp: of the record, milliseconds since 1970."""

    offset: _Offset
    key: str | None
    value: str | None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    delivery_count: int | None = None


class PartitionsAssigned(Value, tag="assigned", tag_field="type"):
    """Partitions were assigned: those that the client's callback names."""

    partitions: tuple[TopicPartition, ...]


class PartitionsRevoked(Value, tag="revoked", tag_field="type"):
    """Partitions were revoked, while the member still owned them."""

    partitions: tuple[TopicPartition, ...]


class PartitionsLost(Value, tag="lost", tag_field="type"):
    """Partitions were lost: others may own them already."""

    partitions: tuple[TopicPartition, ...]


class Acknowledged(Value, tag="acknowledged", tag_field="type"):
    """The result of acknowledgements, from the callback of a share consumer."""

    topic: str
    partition: _Index
    offsets: tuple[_Offset, ...]
    error: ErrorInfo | None = None


class Committed(Value, tag="committed", tag_field="type"):
    """The result of an asynchronous commit of offsets."""

    error: ErrorInfo | None = None


class ErrorReported(Value, tag="error", tag_field="type"):
    """An error that the client reported outside a call."""

    error: ErrorInfo


Event = PartitionsAssigned | PartitionsRevoked | PartitionsLost | Acknowledged | Committed | ErrorReported


class PollResult(Value):
    """What one poll returned, and the events until then."""

    records: tuple[ConsumedRecord, ...] = ()
    events: tuple[Event, ...] = ()


class CloseResult(Value):
    """What came while the client closed: partitions that were revoked, results of acknowledgements and commits."""

    events: tuple[Event, ...] = ()


class CommitParams(ClientParams):
    """Commit offsets, those of the consumer's positions without any; of a share consumer its acknowledgements."""

    offsets: tuple[OffsetOf, ...] | None = None


class PartitionError(TopicPartition):
    """The result of a share consumer's commit for a partition."""

    error: ErrorInfo | None = None


class CommitResult(Value):
    """partitions: of a share consumer; a consumer has none."""

    partitions: tuple[PartitionError, ...] = ()


class PartitionsParams(ClientParams):
    """Partitions to pause, to resume, or to ask for."""

    partitions: tuple[TopicPartition, ...]


class OffsetsResult(Value):
    """Offsets by partition."""

    offsets: tuple[FoundOffset, ...]


class SeekParams(ClientParams):
    """Set the position of a partition."""

    topic: str
    partition: _Index
    offset: _Offset


class PartitionsResult(Value):
    """The assigned partitions."""

    partitions: tuple[TopicPartition, ...]


class RecordAcknowledgement(TopicPartition):
    """An acknowledgement of a record that was polled."""

    offset: _Offset
    type: AcknowledgeType


class AcknowledgeParams(ClientParams):
    """Acknowledge records; sent with the next poll or commit."""

    records: tuple[RecordAcknowledgement, ...]


class LockTimeoutResult(Value):
    """timeout_ms: of the acquisition lock, None before the client has learned it."""

    timeout_ms: int | None


class NewTopic(Value):
    """A topic to create."""

    name: str
    partitions: int
    replication_factor: int


class CreateTopicsParams(ClientParams):
    """Topics to create."""

    topics: tuple[NewTopic, ...]


class DeleteTopicsParams(ClientParams):
    """Names of topics to delete."""

    topics: tuple[str, ...]


class PartitionCount(Value):
    """count: the new total number of partitions."""

    name: str
    count: int


class CreatePartitionsParams(ClientParams):
    """Topics to which partitions are added."""

    topics: tuple[PartitionCount, ...]


class TopicsResult(Value):
    """Names of topics."""

    topics: tuple[str, ...]


class ClusterNode(Value):
    """A broker, as the client knows it."""

    id: int
    host: str
    port: int


class ClusterResult(Value):
    """The cluster. controller: the id of a node, None if the client does not say."""

    cluster_id: str | None
    controller: int | None
    nodes: tuple[ClusterNode, ...]


class OffsetSpec(TopicPartition):
    """spec: a timestamp in milliseconds, or one end of the log."""

    spec: Literal["earliest", "latest"] | _Milliseconds


class ListOffsetsParams(ClientParams):
    """Offsets to look up."""

    partitions: tuple[OffsetSpec, ...]


class Nothing(Value):
    """A result without content."""


class Request(Value):
    """A line to the driver."""

    id: int
    method: str
    params: Any


class Answer(msgspec.Struct):
    """A line from the driver: a result or an error."""

    id: int
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: ErrorInfo | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if (self.result is msgspec.UNSET) == (self.error is msgspec.UNSET):
            raise ValueError("an answer has either a result or an error")
