"""Invariants of the simulation: receive all actions and responses of clients, and are checked after every step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from mockbroker.coordinators.share.share_state_records import ReleasedRecords
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.dead_letters import DeadLetterChecker
from mockbroker.sim.delivery_model import NO_EFFECT, REJECT, RENEW, TERMINAL_TYPES, DeliveryModel, DeliveryModels
from mockbroker.sim.ended_sessions import find_held, is_undone
from mockbroker.sim.full_windows import is_full_for_ever
from mockbroker.sim.logs.log_contents import LogContentsReader
from mockbroker.sim.logs.observed_logs import ObservedLogs
from mockbroker.sim.logs.state_topic import ControlRecords, StateTopic, StoredStart
from mockbroker.sim.partition_checker import CheckContext, PartitionChecker, PendingAcknowledgement
from mockbroker.sim.violation import Violation
from mockbroker.state.metadata.feature_levels import has_dead_letter_queues
from mockbroker.state.metadata.topics import CoordinatorKind
from mockbroker.state.share.in_flight_batch import RecordState
from mockbroker.state.share.share_partition import PartitionStatus, SharePartition
from mockbroker.state.share.share_partitions import SharePartitions
from mockbroker.state.share_coordinator.share_coordinator import ShareKey

if TYPE_CHECKING:
    from mockbroker.engine.core import Core
    from mockbroker.sim.disk.simulated_disk import SimulatedDisk

Run = tuple[int, int, int]


class Invariants:
    """Follows every share partition of the given keys through all its incarnations. Every method raises Violation."""

    def __init__(self, core: Core, logs: ObservedLogs, coverage: Coverage, disk: SimulatedDisk | None = None) -> None:
        self._set_core(core)
        self._logs = logs
        #: The version of the logs at the last check, and whether they had changed since the one before.
        self._logs_version, self._are_logs_new = -1, True
        self._disk = disk
        self._coverage = coverage
        self._count = coverage.count
        self._log_reader = LogContentsReader(logs.find_log)
        edition_records = core.state.edition_records
        self._states = StateTopic(edition_records.new_state_records() if edition_records else ReleasedRecords())
        self._controls = ControlRecords()
        #: Share partitions with a stored state that is not checked yet, as they have no coordinator.
        self._stale: set[ShareKey] = set()
        self.models: DeliveryModels = {}
        self.dead_letters = DeadLetterChecker(core, self.models, coverage.count)
        self._checkers: dict[tuple[int, ShareKey], PartitionChecker] = {}
        self._loaded: set[ShareKey] = set()
        #: The offset from which on a share partition delivers nothing.
        self._stuck: dict[ShareKey, int | None] = {}

    def _set_core(self, core: Core) -> None:
        self._core = core
        self._metadata = core.state.metadata
        self._nodes = core.state.inter_broker.nodes
        self._rules = core.state.rules

    def replace_core(self, core: Core, *, is_crash: bool) -> None:
        """Another process has started on the data directory: everything in memory is loaded again.

        is_crash: what was not on the disk is lost, also from what was read of the share coordinator's topic.
        """
        self._set_core(core)
        self.dead_letters.replace_core(core)
        self.dead_letters.record_disturbance()
        self._checkers.clear()
        self._log_reader.forget_versions()
        for model in self.models.values():
            self._stale.add(model.key)
            if not model.is_deleted:
                self.update_limit(model.key.group_id)
            if is_crash:
                model.stored = None
        if is_crash:
            self._states.forget_lost(self._logs.state_logs())

    def set_partitions(self, keys: Iterable[ShareKey]) -> None:
        """Set all existing share partitions: topics were created, extended or deleted."""
        now = set(keys)
        self._logs_version = -1
        for key, model in self.models.items():
            model.is_deleted = key not in now
        for key in sorted(now - self.models.keys()):
            self.models[key] = DeliveryModel(key, partial(self._log_reader.read_contents, key[1:]))
        self._checkers = {on: checker for on, checker in self._checkers.items() if on[1] in now}

    # Actions and responses of clients.

    def record_acknowledgement(
        self, member_id: str, node_id: int, key: ShareKey, types: Mapping[int, int]
    ) -> PendingAcknowledgement:
        """A member is about to acknowledge; pass the result to `record_response` with the response."""
        ask = PendingAcknowledgement(member_id)
        checker = self._checkers.get((node_id, key))
        if checker is None:
            return ask
        ask.state_epoch = checker.partition.state_epoch
        for offset, kind in types.items():
            held = checker.held_records.get(offset)
            if held is None or held.member_id != member_id or offset < checker.partition.start_offset:
                continue  # Not held by the member; below the start the response is 0, and nothing happens.
            ask.types[offset] = kind
            ask.counts[offset] = held.delivery_count
            held.pending.append(ask)
            if kind == REJECT:
                self.dead_letters.record_rejection(key, offset, held.delivery_count)
            if kind == RENEW:
                # Whether it takes effect is known with the response; the new lock may be the shorter one.
                ask.renewed.append(held)
                ask.until_ms = self._core.now_ms + self._read_config(key, "share.record.lock.duration.ms")
                held.until_min = min(held.until_min, ask.until_ms)
                held.until_max = max(held.until_max, ask.until_ms)
            else:
                self._add_unresolved(key, ask, offset, 1)
        return ask

    def record_response(self, node_id: int, key: ShareKey, ask: PendingAcknowledgement, code: int) -> None:
        """A response to the acknowledgement has arrived for this partition."""
        model, checker = self.models[key], self._checkers.get((node_id, key))
        if code:
            self._count("acknowledgement refused")
        for offset, kind in ask.types.items():
            held = checker.held_records.get(offset) if checker is not None else None
            if held is not None and ask in held.pending:
                held.pending.remove(ask)
                if checker is not None and kind == RENEW and code == 0:
                    checker.renew_lock(held, ask, self._core.now_ms)
                    self._count("lock renewed")
            # A write that failed may have been stored nevertheless.
            if kind != RENEW and (code == 0 or code in NO_EFFECT):
                self._add_unresolved(key, ask, offset, -1)
                if code == 0 and kind in TERMINAL_TYPES and self._is_current(model, ask):
                    model.record_completed(offset, ask.counts[offset])
                    if kind == REJECT:
                        self.dead_letters.expect(key, offset, ask.counts[offset])

    def record_leaving(self, member_id: str, node_id: int, group_id: str) -> None:
        """A member's session on a node is about to end: what it holds there may be released at any time from now on."""
        for (on, key), checker in self._checkers.items():
            if on == node_id and key.group_id == group_id:
                for held in checker.held_records.values():
                    held.is_left = held.is_left or held.member_id == member_id

    def check_released(self, member_id: str, node_id: int, keys: Iterable[ShareKey], how: str) -> None:
        """The session has ended: the member holds no record of its partitions any more. how: a coverage name."""
        history = self._core.state.broker_storage.share_history
        for key in keys:
            checker = self._checkers.get((node_id, key)) if self._releases_all(how) else None
            for run in find_held(checker.partition, member_id) if checker is not None else ():
                if not is_undone(history.entries_for(key), run, self._core.now_ms):
                    raise Violation(f"{key} {run[0]}-{run[1]}: still held by {member_id}, whose session has ended")
                self._count("release undone")
            self._count(how)

    def _releases_all(self, how: str) -> bool:
        """Whether everything that a member holds is released in this way, by the rules of the edition."""
        rules = self._rules
        ends = rules.sessions.close_on_disconnect or how != "released by disconnect"
        return ends and rules.acknowledgement.release_skips_other_members

    def check_delivery(self, member_id: str, key: ShareKey, runs: Sequence[Run], offsets: Sequence[int]) -> None:
        """A response to a fetch has these runs of first offset, last offset and delivery count, and these records."""
        end = -1
        for first, last, count in runs:
            if not end < first <= last or count < 1:
                raise Violation(f"{key}: the acquired runs {runs} do not increase")
            end = last
        if any(before >= after for before, after in pairwise(offsets)):
            raise Violation(f"{key}: the offsets {offsets} do not increase")
        sent_offsets, contents, model = set(offsets), self._log_reader.read_contents(key[1:]), self.models[key]
        for first, last, count in runs:
            missing = [offset for offset in range(first, last + 1) if offset not in sent_offsets]
            if any(offset in contents.present for offset in missing):
                raise Violation(f"{key}: acquired {first}-{last}, but the records {missing} were not sent")
            self._count("gap delivered", len(missing))
            for offset in range(first, last + 1):
                self._check_count(model, offset, member_id, count)

    def check_summary(self, key: ShareKey, start_offset: int, state_epoch: int) -> None:
        """A summary of the share coordinator must match the stored state, of now or a moment ago."""
        model = self.models[key]
        is_known = model.stored is not None and model.stored.state_epoch == state_epoch and not model.is_deleted
        if is_known and model.stored is not None and start_offset != model.stored.start_offset:
            raise Violation(f"{key}: the start is {start_offset} by its summary, {model.stored} is stored")

    def start_alteration(self, key: ShareKey, offset: int) -> None:
        """An administrator alters a start offset; the alteration takes effect when it is stored."""
        self.dead_letters.record_disturbance()
        self.models[key].altered_starts.add(offset)
        self.models[key].pending_alterations += 1

    def end_alteration(self, key: ShareKey) -> None:
        """The administrator has received the response."""
        self.models[key].pending_alterations -= 1

    def record_deletion(self, group_id: str) -> None:
        """An administrator deletes states of a group."""
        self.dead_letters.record_disturbance()
        for model in self._models_of(group_id):
            model.record_deletion()

    def update_limit(self, group_id: str) -> None:
        """The group's delivery limit has changed."""
        for model in self._models_of(group_id):
            model.update_limit(self._read_config(model.key, "share.delivery.count.limit"))

    def _models_of(self, group_id: str) -> list[DeliveryModel]:
        return [model for model in self.models.values() if model.key.group_id == group_id]

    # Checks.

    def check(self) -> None:
        """Check every share partition in every node's memory, and the states that share coordinators store."""
        self._are_logs_new = self._logs.version != self._logs_version
        self._logs_version = self._logs.version
        for stored in self._stored_starts() if self._are_logs_new else ():
            if stored.key in self.models:
                if stored.has_start:
                    self.models[stored.key].record_start(stored.start_offset, is_fresh=stored.is_fresh)
                self._stale.add(stored.key)
        for key in sorted(self._stale):
            if not self.models[key].is_deleted:
                self._check_stored(self.models[key])
        followed_count, queues_version = 0, self._find_queues_version()
        for node_id, partitions in self._share_partitions():
            for partition in partitions:
                model = self.models.get(partition.key)
                if model is not None and not model.is_deleted:
                    followed_count += self._check_partition(node_id, model.key, partition, queues_version)
        if followed_count != len(self._checkers):
            self._drop_checkers()
        if self._are_logs_new:
            self.dead_letters.check()

    def _find_queues_version(self) -> tuple[int, bool]:
        """What changes when a group may have got another dead-letter queue, or none."""
        return self._core.state.configs.generation, has_dead_letter_queues(self._core.state.features)

    def _share_partitions(self) -> Iterator[tuple[int, SharePartitions]]:
        """The share partitions in the memory of each node."""
        for node_id, node in self._nodes.items():
            if node.is_loaded("share_partitions"):
                yield node_id, node.share_partitions

    def _drop_checkers(self) -> None:
        """Follow the share partitions no longer that no node has in memory any more."""
        held = {(node_id, one.key): one for node_id, partitions in self._share_partitions() for one in partitions}
        self._checkers = {on: one for on, one in self._checkers.items() if held.get(on) is one.partition}

    def _stored_starts(self) -> Iterator[StoredStart]:
        yield from self._states.read_stored_starts(self._logs.state_logs())
        if self._rules.state.in_partition_log:
            for partition_key in sorted({key[1:] for key, model in self.models.items() if not model.is_deleted}):
                yield from self._controls.read_stored_starts(partition_key, self._logs.find_log(partition_key))

    def record_drained(self, group_id: str) -> None:
        """A member has received all records of its group; record where deliveries are stuck, before leaders change."""
        for model in self._models_of(group_id):
            if not model.is_deleted:
                self._stuck[model.key] = self._find_stuck_offset(model.key)

    def check_complete(self) -> None:
        """No record is lost: every record up to the end of its log was delivered, and is complete."""
        for checker in self._checkers.values():
            checker.check_archived()
        self.dead_letters.check_complete()
        for model in self.models.values():
            if not model.is_deleted:
                sends_markers = self._rules.acquisition.marker_reader is None
                model.check_complete(stuck_offset=self._stuck.get(model.key), sends_markers=sends_markers)
                self._count("state deleted late", int(model.was_deleted_late))

    def fetch_positions(self) -> list[tuple[int, int]]:
        """Start offset and next fetch offset of every share partition: they change as long as records are delivered."""
        partitions = [checker.partition for checker in self._checkers.values()]
        return [(partition.start_offset, partition.next_fetch_offset()) for partition in partitions]

    def _find_stuck_offset(self, key: ShareKey) -> int | None:
        """The offset from which on a share partition delivers nothing, None if it is not stuck.

        Defects of 4.3.0. A log start that is not beyond the start changes nothing (updateCacheAndOffsets): neither the
        gap window of a load that begins below it, nor records below it that a strict limit has left available. A gap of
        the stored state whose records compaction has removed is read for ever if a read finds nothing else to acquire:
        its gap window does not move then (SharePartition.acquire). A full window: see `is_full_for_ever`. 4.0.0 looks
        for ever for records that compaction has removed.
        """
        log_start = self._logs.find_start(key[1:])
        lost = self._log_reader.read_contents(key[1:]).lost
        for (_, on), checker in self._checkers.items():
            partition = checker.partition
            if on == key and partition.next_fetch_offset() < log_start <= partition.start_offset:
                self._count("stuck below the log start")
                return partition.start_offset
            looks_in_gap = not partition.rules.acquisition.archives_compacted_records or partition.window.gap_is_open
            if on == key and looks_in_gap and partition.next_fetch_offset() in lost:
                self._count("stuck in a gap")
                return partition.start_offset
            if on == key and is_full_for_ever(partition, lost):
                self._count("stuck in a gap")
                return partition.end_offset + 1
        return None

    def _check_partition(
        self, node_id: int, key: ShareKey, partition: SharePartition, queues_version: tuple[int, bool]
    ) -> bool:
        """Check a share partition in a node's memory. Returns: whether it is followed, as it is or was loaded."""
        checker = self._checkers.get((node_id, key))
        if checker is not None and checker.partition is not partition:
            del self._checkers[node_id, key]
            checker = None
        if partition.status is not PartitionStatus.ACTIVE:
            return checker is not None
        if checker is None:
            self._check_load(key, partition)
            checker = self._checkers[node_id, key] = PartitionChecker(
                partition, self.models[key], self._coverage, self.dead_letters
            )
        if self._are_logs_new:
            self._logs.find_start(key[1:])  # It is remembered for the time without a leader.
        if not checker.has_changed(self._core.now_ms, queues_version):
            return True
        limit = self._read_config(key, "share.delivery.count.limit")
        lock_ms = self._read_config(key, "share.record.lock.duration.ms")
        has_flipped_bits = self._disk is not None and self._disk.has_flipped_bits
        checker.check(CheckContext(self._core.now_ms, limit, lock_ms, self._logs.find_start(key[1:]), has_flipped_bits))
        return True

    def _check_load(self, key: ShareKey, partition: SharePartition) -> None:
        """After a load, each record with a successful final acknowledgement is terminal or below the start."""
        self._count("loaded again" if key in self._loaded else "loaded")
        self._loaded.add(key)
        if partition.window.gap is not None:
            self._count("gap window opened")
        model = self.models[key]
        if not partition.rules.acquisition.fetches_state_gaps and partition.window:
            loaded = {offset for batch in partition.window for offset in range(batch.first, batch.last + 1)}
            model.skipped_offsets |= set(range(partition.start_offset, partition.end_offset)) - loaded
        if model.stored is not None and model.stored.state_epoch != partition.state_epoch:
            return  # Loaded just before the start was altered; its first write will be fenced.
        for offset, record in model.records.items():
            state = partition.window.record_state(offset)
            if record.completed is not None and not state.is_terminal and state is not RecordState.ARCHIVING:
                raise Violation(
                    f"{key} offset {offset} has a completed delivery {record.completed}, and is {state.name} "
                    f"after a load with start {partition.start_offset}"
                )

    def _check_stored(self, model: DeliveryModel) -> None:
        if not self._metadata.has_internal_topic(CoordinatorKind.SHARE):
            return  # Nothing is stored; the lookup below would create the topic.
        node_id = self._metadata.coordinator_id(CoordinatorKind.SHARE, str(model.key))
        node = self._nodes.get(node_id)
        stored = node.share_coordinator.find_state(model.key) if node and node.is_loaded("share_state_log") else None
        if stored is not None:
            self._stale.discard(model.key)
            model.check_stored(stored)

    def _check_count(self, model: DeliveryModel, offset: int, member_id: str, count: int) -> None:
        """A delivery in a fetch response must match an observed delivery, and the state in its leader's memory."""
        partition = self._metadata.find_partition(*model.key[1:])
        checker = None if partition is None else self._checkers.get((partition.leader, model.key))
        if (member_id, count) not in model.deliveries.get(offset, ()):
            if model.is_reload_pending and checker is None:
                # A leader has loaded the state from before an alteration, delivered, and was fenced, all in one moment.
                self._count("delivery reported late")
                return
            received = f"{member_id} received delivery {count}"
            raise Violation(f"{model.key} offset {offset}: {received}, which was never observed")
        held_count = None if checker is None else checker.held_delivery(offset, member_id)
        if held_count is None:
            # The response waited for the acknowledgements of its fetch longer than the lock lasted.
            self._count("delivery reported late")
        elif held_count != count:
            raise Violation(f"{model.key} offset {offset}: the response has delivery {count}, the leader {held_count}")

    def _is_current(self, model: DeliveryModel, ask: PendingAcknowledgement) -> bool:
        return model.stored is None or model.stored.state_epoch == ask.state_epoch

    def _add_unresolved(self, key: ShareKey, ask: PendingAcknowledgement, offset: int, change: int) -> None:
        """Change the number of acknowledgements of which it is unknown whether they took effect."""
        record = self.models[key].records.get(offset)
        if record is not None and self._is_current(self.models[key], ask):
            record.unresolved = max(0, record.unresolved + change)

    def _read_config(self, key: ShareKey, name: str) -> int:
        value = self._core.state.configs.group(key.group_id)[name]
        assert isinstance(value, int)
        return value
