"""Read committed by markers (KIP-932 r3), compared with 4.3.0's index of aborted transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.records import Record, write_batch
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.editions.drafts import R4
from mockbroker.editions.drafts import RULES as EDITION_RULES
from mockbroker.editions.transaction_markers import TransactionMarkers
from mockbroker.handlers.share.share_reads import Isolation, make_log_reader, read_partitions
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.share.acknowledgement import AcknowledgementBatch, acknowledge_records
from mockbroker.state.share.acquisition import AcquiredRun, AcquireMode, acquire_committed_records, acquire_records
from mockbroker.state.share.extensions import LogBatch
from mockbroker.state.share.in_flight_batch import RecordState
from mockbroker.state.share.share_partition import SharePartition
from mockbroker.state.share.share_rules import RELEASED, AcquisitionRules, ShareRules
from mockbroker.state.share.share_session import PartitionKey
from mockbroker.state.share.state_batches import StateBatch
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.partition_log import AppendOrigin, PartitionLog
from mockbroker.state.storage.segments import LogSegment, RollRules
from tests.support.brokers import share_partitions

pytestmark = pytest.mark.slow

ACCEPT, RELEASE, REJECT = 1, 2, 3
RULES = AppendRules.from_config(Configs(BrokerConfig()).topic("t"))
KEY = PartitionKey(bytes(16), 0)


class Log(PartitionLog):
    """One partition's log, written by numbered producers."""

    def __init__(self) -> None:
        super().__init__(lambda: RULES)
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        self.committed: set[int] = set()

    def find_log(self, topic_id: bytes, partition_index: int) -> PartitionLog:
        """The log itself, as `NodeLogs` returns it."""
        return self

    def write(self, producer: int | None, count: int) -> None:
        """Append a batch, in the producer's transaction if there is a producer."""
        records = [Record(offset=index, timestamp=0, key=None, value=b"v" * 20) for index in range(count)]
        first = self.end_offset
        if producer is None:
            self.append(write_batch(records), now_ms=0)
            self.committed |= set(range(first, first + count))
            return
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + count
        identity: dict[str, Any] = {"producer_id": producer, "producer_epoch": self.epochs.setdefault(producer, 0)}
        data = write_batch(records, **identity, base_sequence=sequence, transactional=True)
        self.append(data, now_ms=0, origin=AppendOrigin.COORDINATOR)
        self.open.setdefault(producer, []).extend(range(first, first + count))

    def end_transaction(self, producer: int, *, commit: bool, bumps: bool) -> None:
        """The marker of a transaction; `bumps` as since KIP-890, where its epoch is one above that of the records."""
        if producer not in self.open:
            return
        if bumps:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        epochs = {"producer_epoch": self.epochs[producer], "coordinator_epoch": 0}
        self.append_marker(commit=commit, producer_id=producer, **epochs, now_ms=0)
        offsets = self.open.pop(producer)
        if commit:
            self.committed.update(offsets)


class Group:
    """A share partition of a read-committed group over a log, and one member that collects the delivered offsets."""

    def __init__(self, log: Log, rules: ShareRules, in_flight_limit: int = 2_000, *stored: StateBatch) -> None:
        self.log, self.rules = log, rules
        self.partition = SharePartition(share_partitions.settings(in_flight_limit=in_flight_limit), rules=rules)
        self.partition.load_state(0, 0, stored)
        self.delivered_offsets: list[int] = []
        self.held: list[AcquiredRun] = []
        self.scans: list[int] = []

    def _read_on(self, offset: int) -> Iterator[LogBatch]:
        self.scans.append(offset)
        return make_log_reader(self.log)(offset)

    def fetch(self, *, max_bytes: int = 1_000_000, max_records: int = 500, mode: int = 0) -> list[str]:
        """Read and acquire as a ShareFetch does; the runs as text."""
        partition = self.partition
        if not partition.can_acquire():
            return []
        offset = partition.next_fetch_offset()
        follows = self.rules.acquisition.marker_reader is not None
        read = read_partitions(
            self.log,  # type: ignore[arg-type]  # Only `find_log` is used.
            *({KEY: offset}, {KEY: max_bytes}, Isolation.READ_COMMITTED),
            max_bytes=max_bytes,
            finds_aborted=not follows,
        )[KEY]
        limits: dict[str, Any] = {"fetch_offset": offset, "mode": AcquireMode(mode), "max_records": max_records}
        if follows:
            runs = acquire_committed_records(partition, "m", read.batches, self._read_on, now_ms=0, **limits)
        else:
            runs = acquire_records(partition, "m", read.batches, now_ms=0, aborted=read.aborted, **limits)
        self.held += runs
        self.delivered_offsets += [offset for run in runs for offset in range(run.first, run.last + 1)]
        return [f"{run.first}-{run.last}/{run.delivery_count}" for run in runs]

    def acknowledge_all(self, kind: int) -> None:
        """Acknowledge all held records with one type, and complete the write."""
        held, self.held = self.held, []
        if not held:
            return
        batches = [AcknowledgementBatch(run.first, run.last, (kind,)) for run in sorted(held)]
        settled = acknowledge_records(self.partition, "m", batches, now_ms=0)
        assert settled.error is None
        if settled.write is not None:
            self.partition.complete_write(settled.write, None, now_ms=0)

    def drain(self) -> set[int]:
        """Acquire all records. Returns: the offsets that were ever delivered."""
        before: tuple[int, int] | None = None
        for _ in range(10_000):
            self.fetch(max_bytes=300)
            self.acknowledge_all(ACCEPT)
            # A window of archived records only stays until a write completes (4.3.0).
            self.partition.window.advance_start()
            now = (self.partition.next_fetch_offset(), self.partition.start_offset)
            if now == before and now[0] >= self.log.last_stable_offset:
                break
            before = now
        return set(self.delivered_offsets) & (self.log.committed | self._records())

    def _records(self) -> set[int]:
        batches = self.log.batches_below(self.log.end_offset)
        data = [batch for batch in batches if not batch.header().is_control]
        return {offset for batch in data for offset in range(batch.base_offset, batch.last_offset + 1)}


MARKERS = ShareRules(acquisition=AcquisitionRules(marker_reader=TransactionMarkers))


@pytest.fixture
def log() -> Log:
    """An empty log."""
    return Log()


@pytest.fixture
def group(log: Log) -> Group:
    return Group(log, MARKERS)


def states(group: Group, end: int) -> str:
    """One character for each offset: uncommitted, available, acquired (Q), acknowledged (K), archived (X)."""
    characters = {"UNCOMMITTED": "U", "AVAILABLE": "A", "ACQUIRED": "Q", "ACKNOWLEDGED": "K", "ARCHIVED": "X"}
    return "".join(characters[group.partition.window.record_state(offset).name] for offset in range(end))


def test_records_are_uncommitted_until_the_marker_that_commits_them_is_read(log: Log, group: Group) -> None:
    log.write(7, 3)
    log.write(None, 2)
    log.end_transaction(7, commit=True, bumps=False)

    assert group.fetch(max_bytes=1) == []
    assert states(group, 3) == "UUU"
    assert group.fetch(max_bytes=1) == ["3-4/1"]
    assert group.fetch() == []
    assert states(group, 6) == "AAAQQX"
    assert group.fetch() == ["0-2/1"]


def test_records_of_an_aborted_transaction_are_dropped_and_the_start_passes_them(log: Log, group: Group) -> None:
    log.write(7, 3)
    log.write(None, 2)
    log.end_transaction(7, commit=False, bumps=False)
    log.write(None, 1)

    assert group.fetch() == ["3-4/1", "6-6/1"]
    assert states(group, 7) == "XXXQQXQ"
    assert group.partition.start_offset == 3
    group.acknowledge_all(ACCEPT)
    assert group.partition.start_offset == 7


def test_records_that_wait_for_their_marker_are_written_as_available(log: Log) -> None:
    group = Group(log, EDITION_RULES[R4])
    log.write(7, 3)
    log.write(None, 2)
    log.end_transaction(7, commit=True, bumps=False)
    group.fetch(max_bytes=1)
    assert group.fetch(max_bytes=1) == ["3-4/1"]

    settled = acknowledge_records(group.partition, "m", [AcknowledgementBatch(4, 4, (ACCEPT,))], now_ms=0)

    assert settled.write is not None
    assert settled.write.batches == [StateBatch(0, 3, 0, 0), StateBatch(4, 4, 2, 1)]


def test_an_open_transaction_holds_the_group_at_the_last_stable_offset(log: Log, group: Group) -> None:
    log.write(None, 1)
    log.write(7, 1)
    log.write(None, 1)

    assert group.fetch() == ["0-0/1"]
    assert group.fetch() == []
    log.end_transaction(7, commit=True, bumps=True)
    assert group.fetch() == ["1-1/1", "2-2/1"]


def test_a_full_window_reads_on_for_markers_and_the_summary_serves_later_records(log: Log) -> None:
    group = Group(log, MARKERS, in_flight_limit=4)
    log.write(7, 2)
    log.write(8, 2)
    log.write(8, 2)
    log.end_transaction(8, commit=False, bumps=False)
    log.end_transaction(7, commit=True, bumps=False)

    assert group.fetch() == ["0-1/1"]
    assert states(group, 4) == "QQXX"
    assert group.scans == [4]
    group.acknowledge_all(ACCEPT)
    group.fetch(max_bytes=1)
    assert states(group, 6) == "XXXXXX"  # Dropped when they were read: their marker had been read ahead.
    assert group.scans == [4]


def test_a_full_window_finds_markers_behind_the_last_stable_offset_too(log: Log) -> None:
    group = Group(log, MARKERS, in_flight_limit=1)
    log.write(7, 1)
    log.write(8, 1)
    log.end_transaction(7, commit=True, bumps=False)

    assert log.last_stable_offset == 1
    assert group.fetch() == ["0-0/1"]


def test_a_window_of_aborted_records_is_freed_at_once_where_4_3_waits_for_a_write(log: Log) -> None:
    by_markers, by_index = Group(log, MARKERS, in_flight_limit=5), Group(log, RELEASED, in_flight_limit=5)
    log.write(7, 5)
    log.write(None, 1)
    log.end_transaction(7, commit=False, bumps=False)

    assert by_markers.fetch(max_bytes=1) == by_index.fetch(max_bytes=1) == []
    assert (by_markers.partition.start_offset, by_markers.partition.can_acquire()) == (5, True)
    assert (by_index.partition.start_offset, by_index.partition.can_acquire()) == (0, False)


def test_one_producer_ends_many_transactions_in_one_epoch_and_each_has_its_own_outcome(log: Log) -> None:
    group = Group(log, MARKERS, in_flight_limit=2)
    log.write(8, 2)
    for commit in (True, False, True):
        log.write(7, 2)
        log.end_transaction(7, commit=commit, bumps=False)
    log.end_transaction(8, commit=True, bumps=False)

    assert group.drain() == {0, 1, 2, 3, 8, 9}
    assert group.scans == [2]


def test_a_marker_that_is_read_again_ends_no_transaction_behind_it(log: Log, group: Group) -> None:
    log.write(None, 1)
    log.write(7, 1)
    log.end_transaction(7, commit=True, bumps=False)
    log.write(7, 1)
    log.write(None, 1)
    log.end_transaction(7, commit=False, bumps=False)
    for _ in range(4):
        group.fetch(max_bytes=1)
    group.fetch(max_bytes=1)
    assert states(group, 4) == "QQXU"
    group.acknowledge_all(RELEASE)

    assert group.fetch(max_bytes=260) == ["0-0/2", "1-1/2"]
    assert group.drain() == {0, 1, 4}


def test_gaps_of_the_stored_state_find_their_markers_though_nothing_behind_them_is_read_again(log: Log) -> None:
    log.write(7, 2)
    log.end_transaction(7, commit=False, bumps=False)
    log.write(7, 2)
    log.end_transaction(7, commit=True, bumps=False)
    group = Group(log, MARKERS, 2_000, StateBatch(2, 3, int(RecordState.ACKNOWLEDGED), 1))

    assert group.fetch(max_bytes=1) == []
    assert states(group, 2) == "XX"
    assert group.drain() == {4}


def test_reading_continues_behind_a_gap_that_compaction_has_left_before_final_records(log: Log) -> None:
    for _ in range(4):
        log.write(None, 2)
    _, *kept = log.batches_below(8)
    log.roll_segment(RollRules(1 << 20, 1 << 40), now_ms=0)
    log.replace_first_segments(1, 8, [(LogSegment(0, 0, 0), kept)], [])
    stored = (StateBatch(2, 3, int(RecordState.ACKNOWLEDGED), 1), StateBatch(4, 5, 0, 1))
    group = Group(log, MARKERS, 2_000, *stored)

    assert group.fetch(max_bytes=1) == []
    assert group.fetch(max_bytes=1) == ["4-5/2"]
    assert group.fetch(max_bytes=1) == ["6-7/1"]


def test_reading_continues_at_a_log_start_behind_the_window(log: Log, group: Group) -> None:
    log.write(None, 4)
    log.write(7, 2)
    log.end_transaction(7, commit=True, bumps=False)
    group.fetch(max_bytes=1)
    group.acknowledge_all(RELEASE)
    log.delete_records_before(4)
    group.partition.window.move_log_start(4, now_ms=0)

    assert group.fetch() == ["4-5/1"]


def test_a_group_that_reads_uncommitted_records_from_now_on_waits_for_no_marker(log: Log, group: Group) -> None:
    log.write(7, 2)
    log.end_transaction(7, commit=False, bumps=False)
    group.fetch(max_bytes=1)
    assert states(group, 2) == "UU"

    batches = log.read(0, 1_000).batches
    runs = acquire_records(group.partition, "m", batches, now_ms=0)

    assert [(run.first, run.last) for run in runs] == [(0, 1), (2, 2)]


#: Few producers, so that each ends several transactions, mostly in one epoch.
PRODUCERS = st.sampled_from([1, 1, 1, 2, 2, 3])
FETCH = st.tuples(st.just("fetch"), st.sampled_from([1, 1, 100, 300, 600]), st.integers(1, 12), st.integers(0, 1))
END = st.tuples(st.just("end"), PRODUCERS, st.booleans(), st.sampled_from([False, False, True]))
#: Records are released often, so that batches are read again.
ACTS = st.one_of(
    st.tuples(st.just("write"), st.one_of(st.none(), PRODUCERS), st.integers(1, 4)),
    st.tuples(st.just("write"), PRODUCERS, st.integers(1, 4)),
    *(END, END, FETCH, FETCH, FETCH),
    st.tuples(st.just("say"), st.sampled_from([ACCEPT, RELEASE, RELEASE, REJECT])),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(ACTS, min_size=10, max_size=60), st.integers(1, 14))
def test_markers_and_the_index_of_aborted_transactions_deliver_the_same_records(acts: list[Any], limit: int) -> None:
    log = Log()
    groups = [Group(log, MARKERS, limit), Group(log, RELEASED, limit)]
    for name, *rest in acts:
        if name == "write":
            log.write(*rest)
        elif name == "end":
            log.end_transaction(rest[0], commit=rest[1], bumps=rest[2])
        for group in groups:
            if name == "fetch":
                group.fetch(max_bytes=rest[0], max_records=rest[1], mode=rest[2])
            elif name == "say":
                group.acknowledge_all(*rest)
    for producer in list(log.open):
        log.end_transaction(producer, commit=producer % 2 == 0, bumps=False)

    assert groups[0].drain() == groups[1].drain() == log.committed
