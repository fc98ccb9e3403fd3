"""Records at the leaders of partitions for callers outside a request: appending, reading, choosing the partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from kwire.records import Record, TimestampType, read_batches, write_batch
from mockbroker.broker.topic_admin import find_topic
from mockbroker.kafka_error import KafkaError
from mockbroker.state.storage.append_origin import AppendOrigin
from mockbroker.state.storage.batches.memory_batches import MemoryBatches
from mockbroker.state.storage.log_config import DECOMPRESSED_MAX

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.state.metadata.topics import Topic
    from mockbroker.state.storage.partition_log import PartitionLog

_UINT32 = 0xFFFFFFFF
#: How much of a log is read at once, bytes.
_READ_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record of a topic. timestamp_ms: as the topic stores it. headers: in order; a key may repeat."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class OldFormat:
    """How old messages are written. magic: 0 or 1; compression: "none", "gzip", "snappy" or "lz4".

    append_time_ms: LogAppendTime in magic 1; None for the records' own timestamps. Magic 0 has none. offsets: of the
    records, from the end of the log; consecutive ones if it is empty.
    """

    magic: int
    compression: str
    append_time_ms: int | None
    offsets: Sequence[int]


def make_record(
    key: bytes | str | None,
    value: bytes | str | None,
    headers: Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]],
    timestamp_ms: int | None,
) -> Record:
    """A record to append; text is encoded as UTF-8. timestamp_ms: None for the time of the append.

    Raises: INVALID_TIMESTAMP for a negative number, which Kafka's clients refuse too, or one beyond 64 bits.
    """
    if timestamp_ms is not None and not 0 <= timestamp_ms < 1 << 63:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"the timestamp {timestamp_ms} is not from 0 to 2^63 - 1")
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return Record(
        timestamp=-1 if timestamp_ms is None else timestamp_ms,
        key=_encode(key),
        value=_encode(value),
        headers=tuple((name, _encode(data)) for name, data in pairs),
    )


def append(
    cluster: ClusterState, name: str, records: Iterable[tuple[int | None, Record]], *, now_ms: int
) -> list[TopicRecord]:
    """Append records at the leaders of their partitions, all or none. A partition of None is that of the key.

    Raises: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE; as PartitionLog.append.
    """
    topic = find_topic(cluster, name)
    checked = []
    for partition, given in records:
        record = given
        index = choose_partition(record.key, len(topic.partitions)) if partition is None else partition
        log = _leader_log(cluster, topic, index)
        if record.timestamp < 0:
            record = Record(timestamp=now_ms, key=record.key, value=record.value, headers=record.headers)
        data = write_batch([record])
        log.check_records(data, now_ms=now_ms)
        checked.append((index, log, data))
    return [_append_checked(topic, index, log, data, now_ms) for index, log, data in checked]


def append_old_messages(
    cluster: ClusterState, name: str, index: int, records: Sequence[Record], old_format: OldFormat, *, now_ms: int
) -> list[TopicRecord]:
    """Append records to a partition in a message format before magic 2. Their offsets count from the end of the log.

    Raises: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE; UNSUPPORTED_FOR_MESSAGE_FORMAT for a log in files;
    ValueError for other offsets; InvalidValue for headers.
    """
    topic = find_topic(cluster, name)
    log = _leader_log(cluster, topic, index)
    if not isinstance(log.storage, MemoryBatches):
        raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "logs in files have only batches of magic 2")
    first = log.end_offset
    for batch in read_batches(_write_old_messages(records, first, old_format, now_ms)):
        log.append(batch.raw, now_ms=now_ms, origin=AppendOrigin.OLD_LOG)
    return list(_records(topic, index, log, first, log.end_offset))


def _write_old_messages(records: Sequence[Record], first: int, old_format: OldFormat, now_ms: int) -> bytes:
    """The records as messages with offsets from `first` on; without compression a message for each."""
    offsets = old_format.offsets or range(len(records))
    if len(offsets) != len(records) or any(after <= before for before, after in pairwise((-1, *offsets))):
        raise ValueError(f"offsets={list(offsets)}; expected {len(records)} numbers from 0 on, ascending")
    timed = [
        Record(first + offset, now_ms if each.timestamp < 0 else each.timestamp, each.key, each.value, each.headers)
        for offset, each in zip(offsets, records, strict=True)
    ]
    append_time_ms = old_format.append_time_ms
    return write_batch(
        timed,
        base_offset=first,
        magic=old_format.magic,
        codec=old_format.compression,
        timestamp_type=TimestampType.CREATE_TIME if append_time_ms is None else TimestampType.LOG_APPEND_TIME,
        max_timestamp=append_time_ms,
    )


def _append_checked(topic: Topic, index: int, log: PartitionLog, data: bytes, now_ms: int) -> TopicRecord:
    offset = log.append(data, now_ms=now_ms).first_offset
    return next(row for row in _records(topic, index, log, offset, log.end_offset) if row.offset == offset)


def read(
    cluster: ClusterState,
    name: str,
    partition: int | None,
    *,
    first_offset: int,
    is_committed: bool,
    limit: int | None = None,
) -> list[TopicRecord]:
    """The records of a topic, or of one partition. is_committed: without those of aborted and open transactions.

    limit: the maximum number of records.

    Raises: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE.
    """
    topic = find_topic(cluster, name)
    rows: list[TopicRecord] = []
    for index in range(len(topic.partitions)) if partition is None else (partition,):
        log = _leader_log(cluster, topic, index)
        end = log.last_stable_offset if is_committed else log.high_watermark
        records = _records(topic, index, log, max(first_offset, log.start_offset), end, is_committed=is_committed)
        rows += records if limit is None else islice(records, limit - len(rows))
    return rows


def choose_partition(key: bytes | None, partition_count: int) -> int:
    """The partition to which Kafka's clients send a key: the MurmurHash2 of it, as in their default partitioner."""
    return 0 if key is None else (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 with Kafka's seed, unsigned."""
    multiplier, value = 0x5BD1E995, 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * multiplier & _UINT32
        word = (word ^ word >> 24) * multiplier & _UINT32
        value = (value * multiplier & _UINT32) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * multiplier & _UINT32
    value = (value ^ value >> 13) * multiplier & _UINT32
    return value ^ value >> 15


def _encode(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _leader_log(cluster: ClusterState, topic: Topic, index: int) -> PartitionLog:
    partition = topic.partition(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic.name}-{index}")
    node = cluster.inter_broker.nodes.get(partition.leader)
    if node is None:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic.name}-{index} has no leader that runs")
    if partition.leader in cluster.inter_broker.paused:
        raise KafkaError(
            ErrorCode.LEADER_NOT_AVAILABLE, f"node {partition.leader}, the leader of {topic.name}-{index}, is paused"
        )
    return node.logs.find_log(topic.topic_id, index)


def _records(
    topic: Topic, index: int, log: PartitionLog, first: int, end: int, *, is_committed: bool = False
) -> Iterator[TopicRecord]:
    aborted = log.aborted_transactions(first, end) if is_committed else []
    at = first
    while at < end:
        batches = log.read(at, _READ_BYTES_MAX, up_to=end).batches
        if not batches:
            return
        for stored in batches:
            for batch in read_batches(stored.raw):
                if batch.is_control or any(
                    row.producer_id == batch.producer_id and row.first_offset <= batch.base_offset <= row.last_offset
                    for row in aborted
                ):
                    continue
                for record in batch.records(DECOMPRESSED_MAX, strict=False):
                    if first <= record.offset < end:
                        identity = topic.name, index, record.offset, record.timestamp
                        yield TopicRecord(*identity, record.key, record.value, record.headers)
        at = batches[-1].last_offset + 1
