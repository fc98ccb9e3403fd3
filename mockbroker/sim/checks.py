"""The invariants: told of everything that clients do, asked after every step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.coordinators.share_state_records import ReleasedRecords
from mockbroker.kafka_error import KafkaError
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.ledger import RENEW, TERMINAL_TYPES, Ledger
from mockbroker.sim.log_book import LogBook
from mockbroker.sim.state_topic import ControlRecords, StateTopic, StoredStart
from mockbroker.sim.violation import Violation
from mockbroker.sim.watch import Ask, Setting, Watch
from mockbroker.state.in_flight import State
from mockbroker.state.log import PartitionLog
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.share_partition import SharePartition, Status
from mockbroker.state.topics import INTERNAL_TOPICS, CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.core import Core

Run = tuple[int, int, int]

#: Answers after which it is known whether an acknowledgement took effect; the last five say that it did not.
_CERTAIN = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
    }
)


class Checks:
    """Follows every share partition of the given keys through all its incarnations. Every method raises Violation."""

    def __init__(self, core: Core, coverage: Coverage) -> None:
        self._core = core
        self._coverage = coverage
        self._book = LogBook(self._log)
        self._states = StateTopic(core.state.records.of_states() if core.state.records else ReleasedRecords())
        self._controls = ControlRecords()
        #: Of these something was stored that has not been looked at, as nobody coordinates them yet.
        self._stale: set[ShareKey] = set()
        self.ledgers: dict[ShareKey, Ledger] = {}
        self._watches: dict[tuple[int, ShareKey], Watch] = {}
        self._loaded: set[ShareKey] = set()
        self._log_starts: dict[tuple[bytes, int], int] = {}
        #: From where on a share partition has delivered nothing any more.
        self._stuck: dict[ShareKey, int | None] = {}

    def follow(self, keys: Iterable[ShareKey]) -> None:
        """From now on these are all share partitions that there are: topics have come, grown or gone."""
        now = set(keys)
        for key, ledger in self.ledgers.items():
            ledger.is_gone = key not in now
        for key in sorted(now - self.ledgers.keys()):
            self.ledgers[key] = Ledger(key, partial(self._book.page, key[1:]))
        self._watches = {on: watch for on, watch in self._watches.items() if on[1] in now}

    # What clients do.

    def asked(self, member_id: str, node_id: int, key: ShareKey, types: dict[int, int]) -> Ask:
        """A member is about to acknowledge; hand the result to `answered` when there is an answer."""
        ask = Ask(member_id)
        watch = self._watch(node_id, key)
        if watch is None:
            return ask
        ask.state_epoch = watch.partition.state_epoch
        for offset, kind in types.items():
            hold = watch.holds.get(offset)
            if hold is None or hold.member_id != member_id or offset < watch.partition.start_offset:
                continue  # Not the member's to settle; below the start it is answered 0, and nothing happens.
            ask.types[offset], ask.counts[offset] = kind, hold.delivery_count
            hold.asks.append(ask)
            if kind == RENEW:
                # Whether it takes effect is known with the answer; the new lock may be the shorter one.
                ask.until_ms = self._core.now_ms + self._number(key, "share.record.lock.duration.ms")
                hold.until_min, hold.until_max = min(hold.until_min, ask.until_ms), max(hold.until_max, ask.until_ms)
            else:
                self._unsure(key, ask, offset, 1)
        return ask

    def answered(self, node_id: int, key: ShareKey, ask: Ask, code: int) -> None:
        """The acknowledgement was answered for this partition."""
        ledger, watch = self.ledgers[key], self._watch(node_id, key)
        if code:
            self._coverage.count("acknowledgement refused")
        for offset, kind in ask.types.items():
            hold = watch.holds.get(offset) if watch is not None else None
            if hold is not None and ask in hold.asks:
                hold.asks.remove(ask)
                if kind == RENEW and code == 0:
                    hold.until_min = hold.until_max = ask.until_ms
                    self._coverage.count("lock renewed")
            if kind != RENEW and code in _CERTAIN:
                # Of a write that failed nobody knows whether it was stored.
                self._unsure(key, ask, offset, -1)
                if code == 0 and kind in TERMINAL_TYPES and self._is_of_now(ledger, ask):
                    ledger.settled(offset, ask.counts[offset])

    def leaving(self, member_id: str, node_id: int, group_id: str) -> None:
        """A member's session on a node is about to end: what it holds there may go at any time from now on."""
        for (on, key), watch in self._watches.items():
            if on == node_id and key.group_id == group_id:
                for hold in watch.holds.values():
                    hold.is_left = hold.is_left or hold.member_id == member_id

    def has_left(self, member_id: str, node_id: int, keys: Iterable[ShareKey], how: str) -> None:
        """The session has ended: nothing of what it was about is held by the member any more."""
        for key in keys:
            watch = self._watch(node_id, key) if self._is_released(how) else None
            for batch in watch.partition.window if watch is not None else ():
                entries = [batch.whole] if batch.whole is not None else batch.offsets or []
                for entry in entries:
                    if entry.state is State.ACQUIRED and entry.member_id == member_id:
                        raise Violation(f"{key} {batch}: still held by {member_id}, whose session has ended")
            self._coverage.count(how)

    def _is_released(self, how: str) -> bool:
        """Whether all that a member holds is given back in this way, by the rules of the edition."""
        rules = self._core.state.rules
        ends = rules.sessions_end_with_connections or how != "released by disconnect"
        return ends and rules.release_passes_others

    def delivered(self, member_id: str, key: ShareKey, runs: Sequence[Run], offsets: Sequence[int]) -> None:
        """A member's fetch was answered with these runs of first offset, last offset and count, and these records."""
        end = -1
        for first, last, count in runs:
            if not end < first <= last or count < 1:
                raise Violation(f"{key}: the acquired runs {runs} do not increase")
            end = last
        if any(before >= after for before, after in pairwise(offsets)):
            raise Violation(f"{key}: the offsets {offsets} do not increase")
        inside, page, ledger = set(offsets), self._book.page(key[1:]), self.ledgers[key]
        for first, last, count in runs:
            missing = [offset for offset in range(first, last + 1) if offset not in inside]
            if any(offset in page.present for offset in missing):
                raise Violation(f"{key}: acquired {first}-{last}, but the records {missing} were not sent")
            self._coverage.count("hole delivered", len(missing))
            for offset in range(first, last + 1):
                self._check_count(ledger, offset, member_id, count)

    def summarised(self, key: ShareKey, start_offset: int, state_epoch: int) -> None:
        """The share coordinator was asked what it keeps; the answer is what was stored, now or a moment ago."""
        ledger = self.ledgers[key]
        is_known = ledger.stored is not None and ledger.stored.state_epoch == state_epoch and not ledger.is_gone
        if is_known and ledger.stored is not None and start_offset != ledger.stored.start_offset:
            raise Violation(f"{key}: the start is {start_offset} by its summary, {ledger.stored} is stored")

    def began(self, key: ShareKey, offset: int) -> None:
        """An administrator wants a share partition to begin elsewhere; whether it will is seen when it is stored."""
        self.ledgers[key].wanted.add(offset)
        self.ledgers[key].altering += 1

    def begun(self, key: ShareKey) -> None:
        """The administrator has had an answer."""
        self.ledgers[key].altering -= 1

    def deletion_asked(self, group_id: str) -> None:
        """An administrator has states of a group deleted."""
        for key, ledger in self.ledgers.items():
            if key.group_id == group_id:
                ledger.deletion_asked()

    def limit_changed(self, group_id: str) -> None:
        """The group's delivery limit is another one now."""
        for key, ledger in self.ledgers.items():
            if key.group_id == group_id:
                ledger.limit_changed(self._number(key, "share.delivery.count.limit"))

    # What is looked at.

    def look(self) -> None:
        """Check every share partition in every node's memory, and what share coordinators have stored."""
        for one in self._stored_since():
            if one.key in self.ledgers:
                if one.is_told:
                    self.ledgers[one.key].start_stored(one.start_offset, is_fresh=one.is_fresh)
                self._stale.add(one.key)
        for key, ledger in self.ledgers.items():
            if ledger.is_gone:
                continue
            if key in self._stale:
                self._look_at_stored(ledger)
            for node_id in self._core.state.metadata.node_ids:
                node = self._core.state.calls.nodes.get(node_id)
                is_there = node is not None and node.entered("share_partitions")
                self._look_at(node_id, key, node.share_partitions.get(*key) if node and is_there else None)

    def _stored_since(self) -> Iterator[StoredStart]:
        yield from self._states.stored_since(self._state_logs())
        if self._core.state.rules.state_in_log:
            for place in sorted({key[1:] for key, ledger in self.ledgers.items() if not ledger.is_gone}):
                yield from self._controls.stored_since(place, self._log(place))

    def drained(self, group_id: str) -> None:
        """A member has taken all that its group is given; where that is not all, note it before leaders change."""
        for key, ledger in self.ledgers.items():
            if key.group_id == group_id and not ledger.is_gone:
                self._stuck[key] = self._stuck_at(key)

    def end(self) -> None:
        """Nothing is lost: every record up to the end of its log was delivered, and is done."""
        for key, ledger in self.ledgers.items():
            if not ledger.is_gone:
                sends_markers = not self._core.state.rules.follows_markers
                ledger.all_is_told(stuck_at=self._stuck.get(key), sends_markers=sends_markers)
                self._coverage.count("state deleted late", int(ledger.was_deleted_late))

    def standing(self) -> list[tuple[int, int]]:
        """Where every share partition and its next fetch begin: what changes as long as there is something to do."""
        partitions = [watch.partition for watch in self._watches.values()]
        return [(partition.start_offset, partition.next_fetch_offset()) for partition in partitions]

    def _stuck_at(self, key: ShareKey) -> int | None:
        """From where on a share partition delivers nothing any more, None for one that is well.

        Defects of 4.3.0. A log start that is not beyond the start changes nothing (updateCacheAndOffsets): neither the
        gap window of a load that begins below it, nor records below it that a strict limit has left available. A start
        that a load finds in a hole of the log has no batch to move over (canMoveStartOffset): it stays, until the
        window is full. And a hole that the stored state left, of which compaction has taken all, is read for ever where
        a read brings nothing else to acquire: nothing moves its gap window then (SharePartition.acquire). A full window
        of which compaction has taken all stays where it is: archiveRecords moves no start. 4.0.0 looks for ever for
        what compaction has taken.
        """
        log_start = self._log_start(key)
        for (_, on), watch in self._watches.items():
            partition = watch.partition
            if on == key and partition.next_fetch_offset() < log_start <= partition.start_offset:
                self._coverage.count("stuck below the log start")
                return partition.start_offset
            is_blind = on == key and (not partition.rules.archives_missing or partition.gap_is_open)
            if is_blind and partition.next_fetch_offset() in self._book.page(key[1:]).lost:
                self._coverage.count("stuck in a hole")
                return partition.start_offset
            if on == key and partition.window and not partition.can_acquire():
                first, end = partition.window.first.first, partition.end_offset + 1
                hole = set(range(partition.start_offset, first if first > partition.start_offset else end))
                if hole <= self._book.page(key[1:]).lost:
                    self._coverage.count("stuck in a hole")
                    return partition.end_offset + 1
        return None

    def _look_at(self, node_id: int, key: ShareKey, partition: SharePartition | None) -> None:
        watch = self._watches.get((node_id, key))
        if watch is not None and watch.partition is not partition:
            del self._watches[node_id, key]
            watch = None
        if partition is None or partition.status is not Status.ACTIVE:
            return
        if watch is None:
            self._check_loaded(key, partition)
            watch = self._watches[node_id, key] = Watch(partition, self.ledgers[key], self._coverage)
        watch.look(
            Setting(
                self._core.now_ms,
                self._number(key, "share.delivery.count.limit"),
                self._number(key, "share.record.lock.duration.ms"),
                self._log_start(key),
            )
        )

    def _check_loaded(self, key: ShareKey, partition: SharePartition) -> None:
        """After a load, each record whose acknowledgement was answered 0 is done or below the start."""
        self._coverage.count("loaded again" if key in self._loaded else "loaded")
        self._loaded.add(key)
        if partition.gap is not None:
            self._coverage.count("gap window opened")
        ledger = self.ledgers[key]
        if not partition.rules.reads_holes and partition.window:
            kept = {offset for batch in partition.window for offset in range(batch.first, batch.last + 1)}
            ledger.passed_over |= set(range(partition.start_offset, partition.end_offset)) - kept
        if ledger.stored is not None and ledger.stored.state_epoch != partition.state_epoch:
            return  # Loaded just before the group began elsewhere; its first write will be fenced.
        for offset, record in ledger.told.items():
            if record.settled is not None and not partition.state_of(offset).is_terminal:
                raise Violation(
                    f"{key} offset {offset} was answered 0 for delivery {record.settled}, and is "
                    f"{partition.state_of(offset).name} after a load with start {partition.start_offset}"
                )

    def _look_at_stored(self, ledger: Ledger) -> None:
        node_id = self._core.state.metadata.coordinator_for(CoordinatorKind.SHARE, str(ledger.key))
        node = self._core.state.calls.nodes.get(node_id)
        stored = node.share_coordinator.stored(ledger.key) if node and node.entered("share_state_log") else None
        if stored is not None:
            self._stale.discard(ledger.key)
            ledger.look_at_stored(stored)

    def _log_start(self, key: ShareKey) -> int:
        place = self._core.state.metadata.leader(key.topic_id, key.partition)
        node = self._core.state.calls.nodes.get(place.leader) if place is not None else None
        try:
            if node is not None:
                self._log_starts[key[1:]] = node.logs.get(key.topic_id, key.partition).start_offset
        except KafkaError:
            pass  # Nobody leads it now, so nobody moves its start.
        return self._log_starts.get(key[1:], 0)

    def _log(self, place: tuple[bytes, int]) -> PartitionLog | None:
        """The log of a partition, whoever leads it."""
        topic, store = self._core.state.metadata.topic_by_id(place[0]), self._core.state.store
        return None if topic is None or store is None else store.log(topic, place[1])

    def _state_logs(self) -> list[PartitionLog]:
        """The logs of the share coordinator's topic."""
        topic = self._core.state.metadata.topic(INTERNAL_TOPICS[CoordinatorKind.SHARE].name)
        logs = [self._log((topic.topic_id, one.index)) for one in topic.partitions] if topic is not None else []
        return [log for log in logs if log is not None]

    def _check_count(self, ledger: Ledger, offset: int, member_id: str, count: int) -> None:
        """What a fetch says of a delivery is what was seen, and what its leader has in memory."""
        place = self._core.state.metadata.leader(*ledger.key[1:])
        watch = None if place is None else self._watch(place.leader, ledger.key)
        if (member_id, count) not in ledger.given.get(offset, ()):
            if ledger.is_unread and watch is None:
                # A leader has loaded the state from before an alteration, delivered, and was fenced, all in one moment.
                self._coverage.count("delivery told late")
                return
            raise Violation(f"{ledger.key} offset {offset}: {member_id} was told of delivery {count}, which never was")
        inside = None if watch is None else watch.delivery_of(offset, member_id)
        if inside is None:
            # The answer waited for the acknowledgements that came with its fetch, longer than the lock has lasted.
            self._coverage.count("delivery told late")
        elif inside != count:
            raise Violation(f"{ledger.key} offset {offset}: delivery {count} was told, {inside} is inside")

    def _is_of_now(self, ledger: Ledger, ask: Ask) -> bool:
        return ledger.stored is None or ledger.stored.state_epoch == ask.state_epoch

    def _unsure(self, key: ShareKey, ask: Ask, offset: int, change: int) -> None:
        """One acknowledgement more or less of which nobody knows whether it took effect."""
        record = self.ledgers[key].told.get(offset)
        if record is not None and self._is_of_now(self.ledgers[key], ask):
            record.unsure = max(0, record.unsure + change)

    def _watch(self, node_id: int, key: ShareKey) -> Watch | None:
        return self._watches.get((node_id, key))

    def _number(self, key: ShareKey, name: str) -> int:
        value = self._core.state.configs.group(key.group_id)[name]
        assert isinstance(value, int)
        return value
