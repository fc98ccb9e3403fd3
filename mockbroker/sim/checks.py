"""The invariants: told of everything that clients do, asked after every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.ledger import RENEW, TERMINAL_TYPES, Ledger
from mockbroker.sim.violation import Violation
from mockbroker.sim.watch import Ask, Setting, Watch
from mockbroker.state.in_flight import State
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.share_partition import SharePartition, Status
from mockbroker.state.topics import CoordinatorKind

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

    def __init__(self, core: Core, keys: Iterable[ShareKey], coverage: Coverage) -> None:
        self._core = core
        self._coverage = coverage
        self.ledgers = {key: Ledger(key) for key in keys}
        self._watches: dict[tuple[int, ShareKey], Watch] = {}
        self._loaded: set[ShareKey] = set()
        self._log_starts: dict[tuple[bytes, int], int] = {}

    # What clients do.

    def asked(self, member_id: str, node_id: int, key: ShareKey, types: dict[int, int]) -> Ask:
        """A member is about to acknowledge; hand the result to `answered` when there is an answer."""
        ask = Ask(member_id)
        watch = self._watch(node_id, key)
        if watch is None:
            return ask
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
                self.ledgers[key].told[offset].unsure += 1
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
            if kind != RENEW:
                record = ledger.told[offset]
                # Of a write that failed nobody knows whether it was stored.
                record.unsure -= code in _CERTAIN
                if code == 0 and kind in TERMINAL_TYPES:
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
            watch = self._watch(node_id, key)
            for batch in watch.partition.window if watch is not None else ():
                entries = [batch.whole] if batch.whole is not None else batch.offsets or []
                for entry in entries:
                    if entry.state is State.ACQUIRED and entry.member_id == member_id:
                        raise Violation(f"{key} {batch}: still held by {member_id}, whose session has ended")
            self._coverage.count(how)

    def delivered(self, key: ShareKey, runs: Sequence[Run], offsets: Sequence[int]) -> None:
        """A fetch was answered with these runs of first offset, last offset and count, and these records."""
        end = -1
        for first, last, count in runs:
            if not end < first <= last or count < 1:
                raise Violation(f"{key}: the acquired runs {runs} do not increase")
            end = last
        if any(before >= after for before, after in pairwise(offsets)):
            raise Violation(f"{key}: the offsets {offsets} do not increase")
        inside = set(offsets)
        for first, last, _ in runs:
            missing = [offset for offset in range(first, last + 1) if offset not in inside]
            if missing:
                raise Violation(f"{key}: acquired {first}-{last}, but the records {missing} were not sent")

    def began(self, key: ShareKey, offset: int) -> None:
        """An administrator has a share partition begin elsewhere: nothing that was said of it holds any more."""
        ledger = self.ledgers[key]
        ledger.excuse()
        ledger.begins = max(offset, ledger.begins or 0)

    def aborted(self, place: tuple[bytes, int], offsets: Iterable[int]) -> None:
        """These records belong to a transaction that was rolled back: a group may never get them."""
        for key, ledger in self.ledgers.items():
            if key[1:] == place:
                ledger.aborted.update(offsets)

    def limit_changed(self, group_id: str) -> None:
        """The group's delivery limit is another one now."""
        for key, ledger in self.ledgers.items():
            if key.group_id == group_id:
                ledger.limit_changed(self._number(key, "share.delivery.count.limit"))

    # What is looked at.

    def look(self) -> None:
        """Check every share partition in every node's memory, and what share coordinators have stored."""
        for key, ledger in self.ledgers.items():
            self._look_at_stored(ledger)
            for node_id in self._core.state.metadata.node_ids:
                node = self._core.state.calls.nodes.get(node_id)
                is_there = node is not None and node.entered("share_partitions")
                self._look_at(node_id, key, node.share_partitions.get(*key) if node and is_there else None)

    def end(self, ends: Callable[[ShareKey], int]) -> None:
        """Nothing is lost: every record up to the end of its log was delivered, and is done."""
        for key, ledger in self.ledgers.items():
            if not self._is_stuck(key):
                ledger.all_is_told(self._log_start(key), ends(key))

    def standing(self) -> list[tuple[int, int]]:
        """Where every share partition and its next fetch begin: what changes as long as there is something to do."""
        partitions = [watch.partition for watch in self._watches.values()]
        return [(partition.start_offset, partition.next_fetch_offset()) for partition in partitions]

    def _is_stuck(self, key: ShareKey) -> bool:
        """Whether the share partition asks for ever for an offset that the log has no more.

        In 4.3.0 a log start that is not beyond the start changes nothing (SharePartition.updateCacheAndOffsets):
        neither the gap window of a load that begins below it, nor records below it that a strict limit has left
        available.
        """
        partitions = [watch.partition for (_, on), watch in self._watches.items() if on == key]
        log_start = self._log_start(key)
        return any(partition.next_fetch_offset() < log_start <= partition.start_offset for partition in partitions)

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
        if ledger.begins is None:
            ledger.begins = partition.start_offset
        for offset, record in ledger.told.items():
            if record.settled is not None and not partition.state_of(offset).is_terminal:
                raise Violation(
                    f"{key} offset {offset} was answered 0 for delivery {record.settled}, and is "
                    f"{partition.state_of(offset).name} after a load with start {partition.start_offset}"
                )

    def _look_at_stored(self, ledger: Ledger) -> None:
        node_id = self._core.state.metadata.coordinator_for(CoordinatorKind.SHARE, str(ledger.key))
        node = self._core.state.calls.nodes.get(node_id)
        if node is not None and node.entered("share_state_log"):
            ledger.look_at_stored(node.share_coordinator.stored(ledger.key))

    def _log_start(self, key: ShareKey) -> int:
        place = self._core.state.metadata.leader(key.topic_id, key.partition)
        node = self._core.state.calls.nodes.get(place.leader) if place is not None else None
        try:
            if node is not None:
                self._log_starts[key[1:]] = node.logs.get(key.topic_id, key.partition).start_offset
        except KafkaError:
            pass  # Nobody leads it now, so nobody moves its start.
        return self._log_starts.get(key[1:], 0)

    def _watch(self, node_id: int, key: ShareKey) -> Watch | None:
        return self._watches.get((node_id, key))

    def _number(self, key: ShareKey, name: str) -> int:
        value = self._core.state.configs.group(key.group_id)[name]
        assert isinstance(value, int)
        return value
