"""Read committed by markers, as the third revision of KIP-932 draws it, and beside it 4.3.0's way by an index."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.records import Record, write_batch
from mockbroker.config import BrokerConfig
from mockbroker.editions.drafts import R4
from mockbroker.editions.drafts import RULES as EDITION_RULES
from mockbroker.handlers.share_reads import Isolation, read_all, reading_on
from mockbroker.state import start_offset
from mockbroker.state.acknowledgement import AcknowledgementBatch, acknowledge
from mockbroker.state.acquisition import Acquired, AcquireMode, acquire, acquire_committed
from mockbroker.state.batch_rules import TopicRules
from mockbroker.state.configs import Configs
from mockbroker.state.in_flight import State
from mockbroker.state.log import Origin, PartitionLog
from mockbroker.state.share_partition import SharePartition
from mockbroker.state.share_rules import RELEASED, ShareRules
from mockbroker.state.share_session import PartitionKey
from mockbroker.state.state_batches import StateBatch
from mockbroker.state.uncommitted import LogBatch
from tests.mockbroker.state import share_kit

ACCEPT, RELEASE, REJECT = 1, 2, 3
RULES = TopicRules.of(Configs(BrokerConfig()).topic("t"))
KEY = PartitionKey(bytes(16), 0)


class Log(PartitionLog):
    """One partition's log, written by producers who are numbers, and read by itself alone."""

    def __init__(self) -> None:
        super().__init__(lambda: RULES)
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        self.committed: set[int] = set()

    def get(self, topic_id: bytes, partition_index: int) -> PartitionLog:
        """As the room of all logs has it."""
        return self

    def write(self, producer: int | None, count: int) -> None:
        """A batch, in the producer's transaction unless nobody's."""
        records = [Record(offset=index, timestamp=0, key=None, value=b"v" * 20) for index in range(count)]
        first = self.end_offset
        if producer is None:
            self.append(write_batch(records), now_ms=0)
            self.committed |= set(range(first, first + count))
            return
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + count
        data = write_batch(
            records,
            producer_id=producer,
            producer_epoch=self.epochs.setdefault(producer, 0),
            base_sequence=sequence,
            transactional=True,
        )
        self.append(data, now_ms=0, origin=Origin.COORDINATOR)
        self.open.setdefault(producer, []).extend(range(first, first + count))

    def end(self, producer: int, *, commit: bool, bumps: bool) -> None:
        """The marker of a transaction; `bumps` as since KIP-890, where its epoch is one above that of the records."""
        if producer not in self.open:
            return
        if bumps:
            self.epochs[producer] += 1
            self.sequences[producer] = 0
        self.append_marker(
            commit=commit, producer_id=producer, producer_epoch=self.epochs[producer], coordinator_epoch=0, now_ms=0
        )
        offsets = self.open.pop(producer)
        if commit:
            self.committed.update(offsets)


class Group:
    """A share partition of a read-committed group over a log, and one member that notes what it is given."""

    def __init__(self, log: Log, rules: ShareRules, in_flight_limit: int = 2_000) -> None:
        self.log, self.rules = log, rules
        self.partition = SharePartition(share_kit.settings(in_flight_limit=in_flight_limit), rules=rules)
        self.partition.load(0, 0, [])
        self.given: list[int] = []
        self.held: list[Acquired] = []
        self.scans: list[int] = []

    def _read_on(self, offset: int) -> Iterator[LogBatch]:
        self.scans.append(offset)
        return reading_on(self.log)(offset)

    def fetch(self, *, max_bytes: int = 1_000_000, max_records: int = 500, mode: int = 0) -> list[str]:
        """Read and acquire as a ShareFetch does; the runs as text."""
        partition = self.partition
        if not partition.can_acquire():
            return []
        offset = partition.next_fetch_offset()
        follows = self.rules.follows_markers
        read = read_all(
            self.log,  # type: ignore[arg-type]  # All that is asked of the room is one log.
            {KEY: offset},
            {KEY: max_bytes},
            Isolation.READ_COMMITTED,
            max_bytes=max_bytes,
            finds_aborted=not follows,
        )[KEY]
        how = AcquireMode(mode)
        if follows:
            runs = acquire_committed(
                partition,
                "m",
                read.batches,
                self._read_on,
                now_ms=0,
                fetch_offset=offset,
                mode=how,
                max_records=max_records,
            )
        else:
            runs = acquire(
                partition,
                "m",
                read.batches,
                now_ms=0,
                fetch_offset=offset,
                mode=how,
                max_records=max_records,
                aborted=read.aborted,
            )
        self.held += runs
        self.given += [offset for run in runs for offset in range(run.first, run.last + 1)]
        return [f"{run.first}-{run.last}/{run.delivery_count}" for run in runs]

    def say(self, kind: int) -> None:
        """Settle everything that is held in one way, and have it written."""
        held, self.held = self.held, []
        if not held:
            return
        batches = [AcknowledgementBatch(run.first, run.last, (kind,)) for run in sorted(held)]
        settled = acknowledge(self.partition, "m", batches, now_ms=0)
        assert settled.error is None
        if settled.write is not None:
            self.partition.complete(settled.write, None, now_ms=0)

    def drain(self) -> set[int]:
        """Take all there is; the offsets of records that were ever given."""
        before: tuple[int, int] | None = None
        for _ in range(10_000):
            self.fetch(max_bytes=300)
            self.say(ACCEPT)
            # A window of nothing but archived records stays until some write arrives (4.3.0).
            start_offset.advance(self.partition)
            now = (self.partition.next_fetch_offset(), self.partition.start_offset)
            if now == before and now[0] >= self.log.last_stable_offset:
                break
            before = now
        return {offset for offset in self.given if offset in self.log.committed or offset in self._records()}

    def _records(self) -> set[int]:
        batches = self.log.below(self.log.end_offset)
        data = [batch for batch in batches if not batch.header().is_control]
        return {offset for batch in data for offset in range(batch.base_offset, batch.last_offset + 1)}


MARKERS = ShareRules(follows_markers=True)


@pytest.fixture
def log() -> Log:
    """An empty log."""
    return Log()


def states(group: Group, end: int) -> str:
    """One letter for each offset: uncommitted, available, acquired (Q), acknowledged (K), archived (X)."""
    letters = {
        State.UNCOMMITTED: "U",
        State.AVAILABLE: "A",
        State.ACQUIRED: "Q",
        State.ACKNOWLEDGED: "K",
        State.ARCHIVED: "X",
    }
    return "".join(letters[group.partition.state_of(offset)] for offset in range(end))


def test_records_are_uncommitted_until_the_marker_that_commits_them_is_read(log: Log) -> None:
    group = Group(log, MARKERS)
    log.write(7, 3)
    log.write(None, 2)
    log.end(7, commit=True, bumps=False)

    assert group.fetch(max_bytes=1) == []
    assert states(group, 3) == "UUU"
    assert group.fetch(max_bytes=1) == ["3-4/1"]
    assert group.fetch() == []
    assert states(group, 6) == "AAAQQX"
    assert group.fetch() == ["0-2/1"]


def test_records_of_an_aborted_transaction_are_dropped_and_the_start_passes_them(log: Log) -> None:
    group = Group(log, MARKERS)
    log.write(7, 3)
    log.write(None, 2)
    log.end(7, commit=False, bumps=False)
    log.write(None, 1)

    assert group.fetch() == ["3-4/1", "6-6/1"]
    assert states(group, 7) == "XXXQQXQ"
    assert group.partition.start_offset == 3
    group.say(ACCEPT)
    assert group.partition.start_offset == 7


def test_records_that_wait_for_their_marker_are_written_as_available(log: Log) -> None:
    group = Group(log, EDITION_RULES[R4])
    log.write(7, 3)
    log.write(None, 2)
    log.end(7, commit=True, bumps=False)
    group.fetch(max_bytes=1)
    assert group.fetch(max_bytes=1) == ["3-4/1"]

    settled = acknowledge(group.partition, "m", [AcknowledgementBatch(4, 4, (ACCEPT,))], now_ms=0)

    assert settled.write is not None
    assert settled.write.batches == [StateBatch(0, 3, 0, 0), StateBatch(4, 4, 2, 1)]


def test_an_open_transaction_holds_the_group_at_the_last_stable_offset(log: Log) -> None:
    group = Group(log, MARKERS)
    log.write(None, 1)
    log.write(7, 1)
    log.write(None, 1)

    assert group.fetch() == ["0-0/1"]
    assert group.fetch() == []
    log.end(7, commit=True, bumps=True)
    assert group.fetch() == ["1-1/1", "2-2/1"]


def test_a_full_window_reads_on_for_markers_and_the_summary_serves_later_records(log: Log) -> None:
    group = Group(log, MARKERS, in_flight_limit=4)
    log.write(7, 2)
    log.write(8, 2)
    log.write(8, 2)
    log.end(8, commit=False, bumps=False)
    log.end(7, commit=True, bumps=False)

    assert group.fetch() == ["0-1/1"]
    assert states(group, 4) == "QQXX"
    assert group.scans == [4]
    group.say(ACCEPT)
    group.fetch(max_bytes=1)
    assert states(group, 6) == "XXXXXX"  # Dropped as they came: their marker was known.
    assert group.scans == [4]


def test_a_full_window_finds_markers_behind_the_last_stable_offset_too(log: Log) -> None:
    group = Group(log, MARKERS, in_flight_limit=1)
    log.write(7, 1)
    log.write(8, 1)
    log.end(7, commit=True, bumps=False)

    assert log.last_stable_offset == 1
    assert group.fetch() == ["0-0/1"]


def test_a_window_of_aborted_records_alone_makes_room_at_once_where_4_3_waits_for_a_write(log: Log) -> None:
    by_markers, by_index = Group(log, MARKERS, in_flight_limit=5), Group(log, RELEASED, in_flight_limit=5)
    log.write(7, 5)
    log.write(None, 1)
    log.end(7, commit=False, bumps=False)

    assert by_markers.fetch(max_bytes=1) == by_index.fetch(max_bytes=1) == []
    assert (by_markers.partition.start_offset, by_markers.partition.can_acquire()) == (5, True)
    assert (by_index.partition.start_offset, by_index.partition.can_acquire()) == (0, False)


def test_one_producer_ends_many_transactions_in_one_epoch_and_each_has_its_own_outcome(log: Log) -> None:
    group = Group(log, MARKERS, in_flight_limit=2)
    log.write(8, 2)
    for commit in (True, False, True):
        log.write(7, 2)
        log.end(7, commit=commit, bumps=False)
    log.end(8, commit=True, bumps=False)

    assert group.drain() == {0, 1, 2, 3, 8, 9}
    assert group.scans == [2]


def test_a_marker_that_is_read_again_ends_no_transaction_behind_it(log: Log) -> None:
    group = Group(log, MARKERS)
    log.write(None, 1)
    log.write(7, 1)
    log.end(7, commit=True, bumps=False)
    log.write(7, 1)
    log.write(None, 1)
    log.end(7, commit=False, bumps=False)
    for _ in range(4):
        group.fetch(max_bytes=1)
    group.fetch(max_bytes=1)
    assert states(group, 4) == "QQXU"
    group.say(RELEASE)

    assert group.fetch(max_bytes=260) == ["0-0/2", "1-1/2"]
    assert group.drain() == {0, 1, 4}


def test_holes_of_the_stored_state_find_their_markers_though_nothing_behind_them_is_read_again(log: Log) -> None:
    log.write(7, 2)
    log.end(7, commit=False, bumps=False)
    log.write(7, 2)
    log.end(7, commit=True, bumps=False)
    group = Group(log, MARKERS)
    group.partition = SharePartition(share_kit.settings(), rules=MARKERS)
    group.partition.load(0, 0, [StateBatch(2, 3, int(State.ACKNOWLEDGED), 1)])

    assert group.fetch(max_bytes=1) == []
    assert states(group, 2) == "XX"
    assert group.drain() == {4}


def test_reading_goes_on_behind_a_hole_that_compaction_has_left_before_what_was_done(log: Log) -> None:
    for _ in range(4):
        log.write(None, 2)
    _, *kept = log.below(8)
    log.replace_below(8, kept, [])
    group = Group(log, MARKERS)
    group.partition = SharePartition(share_kit.settings(), rules=MARKERS)
    group.partition.load(0, 0, [StateBatch(2, 3, int(State.ACKNOWLEDGED), 1), StateBatch(4, 5, 0, 1)])

    assert group.fetch(max_bytes=1) == []
    assert group.fetch(max_bytes=1) == ["4-5/2"]
    assert group.fetch(max_bytes=1) == ["6-7/1"]


def test_a_log_start_behind_the_window_is_where_reading_goes_on(log: Log) -> None:
    group = Group(log, MARKERS)
    log.write(None, 4)
    log.write(7, 2)
    log.end(7, commit=True, bumps=False)
    group.fetch(max_bytes=1)
    group.say(RELEASE)
    log.delete_before(4)
    group.partition.move_log_start(4)

    assert group.fetch() == ["4-5/1"]


def test_a_group_that_reads_uncommitted_records_from_now_on_waits_for_no_marker(log: Log) -> None:
    group = Group(log, MARKERS)
    log.write(7, 2)
    log.end(7, commit=False, bumps=False)
    group.fetch(max_bytes=1)
    assert states(group, 2) == "UU"

    batches = log.read(0, 1_000).batches
    runs = acquire(group.partition, "m", batches, now_ms=0)

    assert [(run.first, run.last) for run in runs] == [(0, 1), (2, 2)]


#: Few, so that one ends several transactions, in one epoch mostly.
PRODUCERS = st.sampled_from([1, 1, 1, 2, 2, 3])
FETCH = st.tuples(st.just("fetch"), st.sampled_from([1, 1, 100, 300, 600]), st.integers(1, 12), st.integers(0, 1))
END = st.tuples(st.just("end"), PRODUCERS, st.booleans(), st.sampled_from([False, False, True]))
#: Records come back often, so that what was read is read again.
ACTS = st.one_of(
    st.tuples(st.just("write"), st.one_of(st.none(), PRODUCERS), st.integers(1, 4)),
    st.tuples(st.just("write"), PRODUCERS, st.integers(1, 4)),
    END,
    END,
    FETCH,
    FETCH,
    FETCH,
    st.tuples(st.just("say"), st.sampled_from([ACCEPT, RELEASE, RELEASE, REJECT])),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(ACTS, min_size=10, max_size=60), st.integers(1, 14))
def test_markers_and_the_index_of_aborted_transactions_deliver_the_same_records(
    acts: list[tuple[object, ...]], in_flight_limit: int
) -> None:
    log = Log()
    groups = [Group(log, MARKERS, in_flight_limit), Group(log, RELEASED, in_flight_limit)]
    for name, *rest in acts:
        if name == "write":
            log.write(*rest)  # type: ignore[arg-type]
        elif name == "end":
            producer, commit, bumps = rest
            log.end(producer, commit=commit, bumps=bumps)  # type: ignore[arg-type]
        for group in groups:
            if name == "fetch":
                max_bytes, max_records, mode = rest
                group.fetch(max_bytes=max_bytes, max_records=max_records, mode=mode)  # type: ignore[arg-type]
            elif name == "say":
                group.say(*rest)  # type: ignore[arg-type]
    for producer in list(log.open):
        log.end(producer, commit=producer % 2 == 0, bumps=False)

    assert groups[0].drain() == groups[1].drain() == log.committed
