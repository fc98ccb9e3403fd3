"""Reading the logs for a ShareFetch: byte budgets, isolation levels, MinBytes (share-semantics 1.7)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.extensions import ReadAhead
from mockbroker.state.share.share_session import PartitionKey
from mockbroker.state.storage.partition_log import PartitionLog, StoredBatch
from mockbroker.state.storage.producers import AbortedTransaction
from mockbroker.state.storage.stored_batch import LogSlice, join_batches

if TYPE_CHECKING:
    from random import Random

    from mockbroker.state.storage.log_store import NodeLogs

#: How many bytes are read at once when the log is searched for markers.
_LOOK_AHEAD_BYTES = 65_536


class Isolation(Enum):
    """The isolation levels: up to the high watermark, or up to the last stable offset without aborted records."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class PartitionRead(msgspec.Struct):
    """The result of reading one partition: batches, an error, or a log start beyond the offset.

    log_slice: what was read, with the beginning of another batch.
    """

    offset: int
    batches: Sequence[StoredBatch] = ()
    log_slice: LogSlice | None = None
    aborted: list[StoredBatch] = msgspec.field(default_factory=list)
    error: ErrorCode | None = None
    log_start: int | None = None


def split_max_bytes(
    max_bytes: int, keys: Sequence[PartitionKey], rng: Random, *, count: int | None = None
) -> dict[PartitionKey, int]:
    """The bytes for each partition: equal shares, the remainder to a random one; if there are too few, one byte each
    for some.

    Args: count: the number of partitions that share the bytes, when that is more than are read now.
    """
    if len(keys) == 1 and count in (None, 1) and max_bytes > 0:
        return {keys[0]: max_bytes}
    for parts in (count or len(keys), len(keys)):
        if max_bytes >= parts:
            result = dict.fromkeys(keys, max_bytes // parts)
            if max_bytes % parts:
                result[keys[rng.randrange(len(keys))]] += max_bytes % parts
            return result
    result = dict.fromkeys(keys, 0)
    first = rng.randrange(len(keys))
    for step in range(max_bytes):
        result[keys[(first + step) % len(keys)]] = 1
    return result


def has_min_bytes(
    logs: NodeLogs,
    offsets: Mapping[PartitionKey, int],
    shares: Mapping[PartitionKey, int],
    isolation: Isolation,
    *,
    min_bytes: int,
) -> bool:
    """Return whether MinBytes of the log are available, acquirable or not, or a partition has an error."""
    available = 0
    for key, offset in offsets.items():
        try:
            log = logs.find_log(*key)
            end = log.visible_end(_read_end(log, isolation))
            size, is_all = log.measure(offset, max(1, shares[key]), up_to=end)
        except KafkaError:
            return True
        available += min(size, shares[key]) if is_all else shares[key]
    return available >= min_bytes


def read_partitions(
    logs: NodeLogs,
    offsets: Mapping[PartitionKey, int],
    shares: Mapping[PartitionKey, int],
    isolation: Isolation,
    *,
    max_bytes: int,
    min_one: bool = True,
    finds_aborted: bool = True,
    cuts: bool = False,
) -> dict[PartitionKey, PartitionRead]:
    """Read every partition within its share; with `min_one` the first one with records returns a batch of any size.

    Args: finds_aborted: look up aborted transactions, for a read-committed group. cuts: fill the share with a partial
    batch.
    """
    reads: dict[PartitionKey, PartitionRead] = {}
    left = max_bytes
    for key, offset in offsets.items():
        read = reads[key] = PartitionRead(offset)
        try:
            log = logs.find_log(*key)
        except KafkaError as error:
            read.error = error.code
            continue
        try:
            log_slice = log.read(
                offset, min(shares[key], left), min_one=min_one, up_to=_read_end(log, isolation), partial=cuts
            )
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                read.log_start = log.start_offset
            else:
                read.error = error.code
            continue
        min_one = min_one and not log_slice.batches
        left = max(0, left - log_slice.size - log_slice.cut_size)
        read.batches, read.log_slice = log_slice.batches, log_slice
        if isolation is Isolation.READ_COMMITTED and log_slice.batches and finds_aborted:
            aborted = log.aborted_transactions(offset, log_slice.batches[-1].last_offset + 1)
            read.aborted = _select_aborted(log_slice.batches, aborted)
    return reads


def make_log_reader(log: PartitionLog) -> ReadAhead:
    """The function with which a leader that interprets markers reads beyond its in-flight records.

    It reads up to the high watermark: a transaction that began below the last stable offset has ended, but its marker
    may
    follow the first record of another open transaction.
    """

    def read_on(offset: int) -> Iterator[StoredBatch]:
        end = log.high_watermark
        while offset < end:
            batches = log.read(offset, _LOOK_AHEAD_BYTES, up_to=end).batches
            if not batches:
                return
            yield from batches
            offset = batches[-1].last_offset + 1

    return read_on


def _read_end(log: PartitionLog, isolation: Isolation) -> int:
    return log.high_watermark if isolation is Isolation.READ_UNCOMMITTED else log.last_stable_offset


def _select_aborted(batches: Iterable[StoredBatch], aborted: Sequence[AbortedTransaction]) -> list[StoredBatch]:
    """The data batches of aborted transactions."""
    result = []
    for batch in batches if aborted else ():
        header = batch.header()
        is_data = header.is_transactional and not header.is_control
        if is_data and any(
            transaction.producer_id == header.producer_id
            and transaction.first_offset <= batch.last_offset <= transaction.last_offset
            for transaction in aborted
        ):
            result.append(batch)
    return result


def join_acquired(batches: Sequence[StoredBatch], first: int, last: int) -> bytes | memoryview:
    """The complete record batches from the one that contains `first` to the one that contains `last`, as they are
    stored.

    A single batch that was read is always included. Bytes are not copied where the batches are adjacent.
    """
    first_batch = batches[0]
    if first_batch.base_offset <= first and last <= first_batch.last_offset:
        return first_batch.raw
    low = max(0, bisect_right(batches, first, key=_base_offset) - 1)
    end = bisect_right(batches, last, low, key=_base_offset)
    return join_batches(batches[low : max(end, low + 1)])


def _base_offset(batch: StoredBatch) -> int:
    return batch.base_offset
