"""Reading the logs for a ShareFetch: byte budgets, isolation, and whether there is enough (share-semantics 1.7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.log import PartitionLog, StoredBatch
from mockbroker.state.producers import Aborted
from mockbroker.state.share_session import PartitionKey
from mockbroker.state.uncommitted import ReadOn

if TYPE_CHECKING:
    from random import Random

    from mockbroker.state.logs import Logs

#: How much of the log is read in one go in search of markers.
_LOOK_AHEAD_BYTES = 65_536


class Isolation(Enum):
    """How far a group reads: to the high watermark, or to the last stable offset and without aborted records."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(slots=True)
class Read:
    """What one partition gave: batches, an error, or a log start that has moved past the offset.

    cut: the beginning of another batch.
    """

    offset: int
    batches: Sequence[StoredBatch] = ()
    cut: bytes | memoryview = b""
    aborted: list[StoredBatch] = field(default_factory=list)
    error: ErrorCode | None = None
    log_start: int | None = None


def budgets(
    max_bytes: int, keys: Sequence[PartitionKey], rng: Random, *, count: int | None = None
) -> dict[PartitionKey, int]:
    """The bytes for each partition: equal shares, the remainder to one by chance; a byte each for some if few.

    Args: count: among how many partitions the bytes are shared out, when more take part than are read now.
    """
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


def satisfies(
    logs: Logs,
    offsets: Mapping[PartitionKey, int],
    shares: Mapping[PartitionKey, int],
    isolation: Isolation,
    *,
    min_bytes: int,
) -> bool:
    """Whether a fetch need not wait: MinBytes of the log are there, acquirable or not, or a partition is in error."""
    available = 0
    for key, offset in offsets.items():
        try:
            log = logs.get(*key)
            end = log.readable_end(_end(log, isolation))
            found = log.read(offset, max(1, shares[key]), up_to=end)
        except KafkaError:
            return True
        is_all = not found.batches or found.batches[-1].last_offset + 1 >= end
        available += min(found.size, shares[key]) if is_all else shares[key]
    return available >= min_bytes


def read_all(
    logs: Logs,
    offsets: Mapping[PartitionKey, int],
    shares: Mapping[PartitionKey, int],
    isolation: Isolation,
    *,
    max_bytes: int,
    min_one: bool = True,
    finds_aborted: bool = True,
    cuts: bool = False,
) -> dict[PartitionKey, Read]:
    """Read every partition within its share; with `min_one` the first that has records gives a batch of any size.

    Args: finds_aborted: ask the index of aborted transactions, for a read-committed group. cuts: read up to the last
    byte, be it in the middle of a batch.
    """
    reads: dict[PartitionKey, Read] = {}
    left = max_bytes
    for key, offset in offsets.items():
        read = reads[key] = Read(offset)
        try:
            log = logs.get(*key)
        except KafkaError as refusal:
            read.error = refusal.code
            continue
        try:
            found = log.read(offset, min(shares[key], left), min_one=min_one, up_to=_end(log, isolation), cuts=cuts)
        except KafkaError as refusal:
            if refusal.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                read.log_start = log.start_offset
            else:
                read.error = refusal.code
            continue
        min_one = min_one and not found.batches
        left = max(0, left - found.size - len(found.cut))
        read.batches, read.cut = found.batches, found.cut
        if isolation is Isolation.READ_COMMITTED and found.batches and finds_aborted:
            aborted = log.aborted_transactions(offset, found.batches[-1].last_offset + 1)
            read.aborted = _aborted(found.batches, aborted)
    return reads


def reading_on(log: PartitionLog) -> ReadOn:
    """How a leader that follows markers looks beyond what it has in flight.

    It looks to the high watermark: a transaction that began below the last stable offset has ended, but its marker may
    lie behind the first record of another one that is open.
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


def _end(log: PartitionLog, isolation: Isolation) -> int:
    return log.high_watermark if isolation is Isolation.READ_UNCOMMITTED else log.last_stable_offset


def _aborted(batches: Iterable[StoredBatch], aborted: Sequence[Aborted]) -> list[StoredBatch]:
    """The data batches of transactions that were rolled back."""
    result = []
    for batch in batches if aborted else ():
        header = batch.header()
        is_data = header.is_transactional and not header.is_control
        if is_data and any(
            one.producer_id == header.producer_id and one.first_offset <= batch.last_offset <= one.last_offset
            for one in aborted
        ):
            result.append(batch)
    return result


def joined(batches: Sequence[StoredBatch], first: int, last: int) -> bytes | memoryview:
    """The whole record batches from the one that holds `first` to the one that holds `last`, as they are stored.

    A single batch that was read is sent in any case. Bytes are not copied when one batch is enough.
    """
    low = 0
    for index, batch in enumerate(batches):
        if batch.base_offset <= first:
            low = index
    parts = [batch.raw for batch in batches[low:] if batch.base_offset <= last or batch is batches[low]]
    return parts[0] if len(parts) == 1 else b"".join(parts)
