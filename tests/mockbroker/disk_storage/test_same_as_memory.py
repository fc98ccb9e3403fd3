"""A log in files gives the same answers as a log in memory, also after restarts and kills."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from kwire.records import Record, write_batch
from mockbroker.state.storage import log_cleaner
from mockbroker.state.storage.aborted_reads import list_aborted_in_read
from mockbroker.state.storage.log_config import CleanerRules
from mockbroker.state.storage.partition_log import AppendOrigin, PartitionLog
from mockbroker.state.storage.segments import RollRules
from tests.support.disk_logs import RULES, DiskLog, make_files

ROLL = RollRules(size_max=1_500, age_max_ms=10_000_000, index_interval=150)
APPEND_RULES = msgspec.structs.replace(RULES, roll=ROLL, before_max_ms=1 << 60, after_max_ms=1 << 60)
CLEANER_RULES = CleanerRules(
    compacts=True,
    deletes=True,
    retention_ms=-1,
    retention_bytes=8_000,
    dirty_ratio_min=0.2,
    lag_min_ms=0,
    lag_max_ms=1 << 60,
    tombstones_ms=50,
    roll=ROLL,
)


class _Pair:
    """The same operations on two logs. rng: chooses them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.files = make_files()
        self.memory = PartitionLog(lambda: APPEND_RULES)
        self.memory.start_leader_epoch(0)
        self.now_ms = 1_000
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self._open_disk(None)
        self.disk.log.start_leader_epoch(0)

    def _open_disk(self, boot_id: str | None) -> None:
        settings = ("log.index.interval.bytes=150", "log.segment.delete.delay.ms=10")
        self.disk = DiskLog(self.files, rules=lambda: APPEND_RULES, boot_id=boot_id, settings=settings, nodes=(1, 2))

    @property
    def logs(self) -> tuple[PartitionLog, PartitionLog]:
        return self.memory, self.disk.log

    def step(self) -> None:
        self.now_ms += self.rng.randrange(20)
        choices = (
            (self.append, 40),
            (self.read, 30),
            (self.search, 10),
            (self.end_transaction, 8),
            (self.delete, 2),
            (self.retain, 3),
            (self.compact, 3),
            (self.truncate, 2),
            (self.start_epoch, 2),
            (self.restart, 3),
            (self.expire, 5),
        )
        self.rng.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]()
        self.compare()

    def append(self) -> None:
        rng = self.rng
        producer = rng.choice((-1, -1, 1, 2, 3))
        count = rng.randrange(1, 5)
        records = [
            Record(
                at,
                self.now_ms + rng.randrange(-30, 30),
                rng.choice((b"a", b"b", b"c", b"d")),
                rng.choice((None, rng.randbytes(rng.randrange(120)))),
            )
            for at in range(count)
        ]
        given: dict[str, Any] = {}
        if producer > 0:
            sequence = self.sequences.get(producer, 0)
            given = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            given["transactional"] = producer in self.open or rng.random() < 0.4
            self.sequences[producer] = sequence + count
            if given["transactional"]:
                self.open.add(producer)
        data = write_batch(records, codec=rng.choice(("none", "none", "lz4")), **given)
        origin = AppendOrigin.COORDINATOR if rng.random() < 0.2 and producer < 0 else AppendOrigin.CLIENT
        first, second = [log.append(data, now_ms=self.now_ms, origin=origin) for log in self.logs]
        assert first == second

    def end_transaction(self) -> None:
        if not self.open:
            return
        producer = self.rng.choice(sorted(self.open))
        self.open.discard(producer)
        commit = self.rng.random() < 0.5
        offsets = [
            log.append_marker(
                commit=commit, producer_id=producer, producer_epoch=0, coordinator_epoch=0, now_ms=self.now_ms
            )
            for log in self.logs
        ]
        assert offsets[0] == offsets[1]

    def read(self) -> None:
        log = self.memory
        offset = self.rng.randrange(log.start_offset, log.end_offset + 1)
        size = self.rng.choice((1, 100, 400, 1_000, 5_000, 1 << 20))
        partial, min_one = self.rng.random() < 0.5, self.rng.random() < 0.5
        up_to = self.rng.choice((None, log.last_stable_offset))
        reads = [one.read(offset, size, min_one=min_one, up_to=up_to, partial=partial) for one in self.logs]
        assert bytes(reads[0].join()) == bytes(reads[1].join())
        assert (reads[0].size, reads[0].is_first_cut, reads[0].cut_size) == (
            reads[1].size,
            reads[1].is_first_cut,
            reads[1].cut_size,
        )
        if reads[0].batches:
            # Those behind what was read depend on the entries of the index.
            end = reads[0].batches[-1].last_offset + 1
            found = [list_aborted_in_read(one, offset, read) for one, read in zip(self.logs, reads, strict=True)]
            aborted = [[entry for entry in one if entry.first_offset < end] for one in found]
            assert aborted[0] == aborted[1]
        measured = [one.measure(offset, size, up_to=log.high_watermark) for one in self.logs]
        assert measured[0] == measured[1]

    def search(self) -> None:
        timestamp = self.now_ms - self.rng.randrange(-40, 400)
        assert self.memory.offset_for_timestamp(timestamp) == self.disk.log.offset_for_timestamp(timestamp)
        assert self.memory.offset_of_max_timestamp() == self.disk.log.offset_of_max_timestamp()
        first = self.rng.randrange(self.memory.end_offset + 2)
        bytes_of = [[(b.base_offset, bytes(b.raw)) for b in log.batches_from(first)] for log in self.logs]
        assert bytes_of[0] == bytes_of[1]

    def delete(self) -> None:
        span = self.memory.high_watermark - self.memory.start_offset
        offset = self.memory.start_offset + self.rng.randrange(span // 4 + 1)
        assert self.memory.delete_records_before(offset) == self.disk.log.delete_records_before(offset)

    def retain(self) -> None:
        for log in self.logs:
            log_cleaner.delete_old_segments(log, CLEANER_RULES, now_ms=self.now_ms)

    def compact(self) -> None:
        found = [log_cleaner.find_cleanable_range(log, CLEANER_RULES, now_ms=self.now_ms) for log in self.logs]
        assert found[0] == found[1]
        if found[0] is not None:
            for log in self.logs:
                log_cleaner.compact_log(log, found[0], CLEANER_RULES, now_ms=self.now_ms)

    def truncate(self) -> None:
        """Cut at a batch, and restore what was cut or not; open transactions of what was cut have not begun."""
        log = self.memory
        bases = [batch.base_offset for batch in log.batches_from(max(log.start_offset, log.end_offset - 20))]
        if not bases or self.open:
            return
        offset = self.rng.choice(bases)
        removed = [[(b.base_offset, bytes(b.raw)) for b in one.truncate_to(offset)] for one in self.logs]
        assert removed[0] == removed[1]
        # In memory the last segment keeps its times, which only decide when it is deleted.
        ours, theirs = log.segments[-1], self.disk.log.segments[-1]
        ours.first_timestamp, ours.max_timestamp = theirs.first_timestamp, theirs.max_timestamp
        if log.segments.cleaned_to is not None or log.start_offset:
            # In memory there are no snapshots from which the states of compacted and deleted batches are known.
            log.producers = deepcopy(self.disk.log.producers)
        self.start_epoch()
        for producer in self.sequences:
            states = {state.producer_id: state for state in log.producers.all_states()}
            state = states.get(producer)
            self.sequences[producer] = 0 if state is None else state.last_sequence + 1
            if state is not None and state.transaction_start is not None:
                self.open.add(producer)

    def start_epoch(self) -> None:
        leader_epoch = self.memory.leader_epoch + 1
        for log in self.logs:
            log.start_leader_epoch(leader_epoch)

    def expire(self) -> None:
        self.disk.logs.expire(now_ms=self.now_ms)

    def restart(self) -> None:
        how = self.rng.choice(("clean", "killed", "killed on the same boot"))
        if how == "clean":
            self.disk.shut_down()
        else:
            # What has not been written to checkpoints is allowed to be lost: log start, and how far it is cleaned.
            self.disk.logs.expire(now_ms=self.now_ms)
        self._open_disk("boot" if "same" in how else None)

    def compare(self) -> None:
        first, second = self.logs
        for name in ("start_offset", "end_offset", "high_watermark", "last_stable_offset", "size", "leader_epoch"):
            assert getattr(first, name) == getattr(second, name), name
        assert [_describe(segment) for segment in first.segments] == [_describe(segment) for segment in second.segments]
        assert first.segments.cleaned_to == second.segments.cleaned_to
        aborted, in_files = first.producers.all_aborted(), second.producers.all_aborted()
        if first.segments.cleaned_to is None:
            assert aborted == in_files
        else:
            # A marker whose batches were compacted away can be found again after a restart.
            assert [entry for entry in in_files if entry in aborted] == aborted
        states = [
            {
                state.producer_id: (state.epoch, state.last_sequence, state.transaction_start, state.last_timestamp)
                for state in log.producers.all_states()
            }
            for log in self.logs
        ]
        assert states[0] == states[1]
        epochs = range(first.leader_epoch + 2)
        assert [first.end_of_epoch(epoch) for epoch in epochs] == [second.end_of_epoch(epoch) for epoch in epochs]


def _describe(segment: Any) -> tuple[int, ...]:
    return segment.base_offset, segment.size, segment.first_timestamp, segment.max_timestamp


@pytest.mark.parametrize("seed", range(60))
def test_a_log_in_files_answers_every_operation_as_one_in_memory(seed: int) -> None:
    pair = _Pair(random.Random(seed))
    for _ in range(250):
        pair.step()
