"""Invariants of dead-letter queues: what a queue holds has a reason, once; what it must hold is there at the end."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from kwire.records import Record
from mockbroker.sim.delivery_model import DeliveryModels
from mockbroker.sim.logs.state_topic import NewBatches
from mockbroker.sim.simulated_topics import DELETED_TOPIC, QUEUE_NAMES
from mockbroker.sim.violation import Violation
from mockbroker.state.metadata.feature_levels import has_dead_letter_queues
from mockbroker.state.share.dead_letter import DeadLetterCause
from mockbroker.state.share.in_flight_batch import RecordState
from mockbroker.state.share.share_history import HistoryEvent
from mockbroker.state.share_coordinator.share_coordinator import ShareKey
from mockbroker.state.storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from mockbroker.engine.core import Core

#: A delivery: share partition, offset, and delivery count.
_Delivery = tuple[ShareKey, int, int]
#: How long a dead letter takes at most where nothing is disturbed, and how long before it a disturbance may begin.
_WRITE_MS, _LEAD_MS = 20_000, 10_000


class DeadLetterChecker:
    """Reads the queues, and compares them with the rejections of members and the states of leaders.

    A lost message, a moved leader, a node that stops, and changes of queues and offsets are disturbances: within a
    short time around one, a dead letter may be missing or twice in the queue, as in Kafka. A leader that loads a record
    on its way to the queue sends it again.
    """

    def __init__(self, core: Core, models: DeliveryModels, count: Callable[[str], None]) -> None:
        self._core = core
        self._models = models
        self._count = count
        self._batches = NewBatches()
        self._disturbed_ms: list[int] = []
        self._rejected: set[_Delivery] = set()
        self._found_ms: dict[_Delivery, int] = {}
        self._found_counts: Counter[_Delivery] = Counter()
        self._expected_ms: dict[_Delivery, int] = {}

    def replace_core(self, core: Core) -> None:
        """Another process has started on the data directory."""
        self._core = core
        for name in QUEUE_NAMES.values():
            topic, store = core.state.metadata.topic(name), core.state.log_store
            if topic is None or store is None:
                continue
            for partition in topic.partitions:
                log = store.open_log(topic, partition.index)
                self._batches.forget_lost((topic.topic_id, partition.index), log)

    def record_disturbance(self) -> None:
        """Something happens now that excuses a missing or a second dead letter."""
        self._disturbed_ms.append(self._core.now_ms)

    def record_rejection(self, key: ShareKey, offset: int, delivery_count: int) -> None:
        """A member is about to reject a record that it holds."""
        self._rejected.add((key, offset, delivery_count))

    def expect(self, key: ShareKey, offset: int, delivery_count: int) -> None:
        """The queue must get this record: its rejection was answered without error, or its leader archives it."""
        topic = self._core.state.metadata.topic_by_id(key.topic_id)
        if topic is not None and topic.name != DELETED_TOPIC and self._is_usable(key.group_id):
            self._expected_ms.setdefault((key, offset, delivery_count), self._core.now_ms)

    def check(self) -> None:
        """Check the dead letters that were written since the last call."""
        for group_id, name in QUEUE_NAMES.items():
            topic = self._core.state.metadata.topic(name)
            store = self._core.state.log_store
            if topic is None or store is None:
                continue
            for partition in topic.partitions:
                log = store.open_log(topic, partition.index)
                for batch in self._batches.read((topic.topic_id, partition.index), log):
                    for record in batch.records():
                        self._check_record(group_id, partition.index, record)

    def check_complete(self) -> None:
        """At the end: every expected dead letter is in its queue."""
        for (key, offset, count), since_ms in self._expected_ms.items():
            if (key, offset, count) in self._found_ms or self._models[key].is_deleted:
                continue
            if not self._was_disturbed(since_ms - _LEAD_MS, since_ms + _WRITE_MS):
                raise Violation(f"{key} offset {offset}: delivery {count} is in no queue, since {since_ms}")
            self._count("dead letter left out")

    def _check_record(self, group_id: str, queue_index: int, record: Record) -> None:
        headers = {name.removeprefix("__dlq.errors."): (value or b"").decode() for name, value in record.headers}
        topic = self._core.state.metadata.topic(headers["topic"])
        if topic is None or topic.name == DELETED_TOPIC:
            return  # The name may be that of an earlier topic.
        key = ShareKey(headers["group"], topic.topic_id, int(headers["partition"]))
        offset, count = int(headers["offset"]), int(headers["delivery.count"])
        if key.group_id != group_id or key.partition % len(self._queue_partitions(group_id)) != queue_index:
            raise Violation(
                f"{key} offset {offset}: its dead letter is in partition {queue_index} of {group_id}'s queue"
            )
        self._check_reason(key, offset, count, DeadLetterCause(headers["message"]))
        self._check_copy(key, offset, record)
        delivery = (key, offset, count)
        self._found_counts[delivery] += 1
        if delivery not in self._found_ms:
            self._found_ms[delivery] = record.timestamp
            self._count("dead-lettered")
            return
        is_excused = self._was_disturbed(self._found_ms[delivery] - _LEAD_MS, self._core.now_ms)
        if not (is_excused or self._found_counts[delivery] <= 1 + self._count_resumptions(delivery)):
            raise Violation(f"{key} offset {offset}: delivery {count} has a further dead letter")
        self._count("dead-lettered twice")

    def _count_resumptions(self, delivery: _Delivery) -> int:
        """How often a leader has loaded a record on its way to the queue, and has sent it again.

        Nothing need be disturbed for that: a share partition is dropped when the last session of its group ends.
        """
        key, offset, count = delivery
        entries = self._core.state.broker_storage.share_history.entries_for(key)
        loads = [one for one in entries if one.event is HistoryEvent.LOADED and one.first <= offset <= one.last]
        return sum(one.state is RecordState.ARCHIVING and one.delivery_count == count for one in loads)

    def _check_reason(self, key: ShareKey, offset: int, count: int, cause: DeadLetterCause) -> None:
        model = self._models[key]
        if not any(delivered == count for _, delivered in model.deliveries.get(offset, ())):
            raise Violation(f"{key} offset {offset}: a dead letter of delivery {count}, which was never observed")
        record = model.records.get(offset)
        is_spent = record is None or count >= record.limit_min
        is_rejected = (key, offset, count) in self._rejected
        # A leader that resumes decides by the limit of that moment, which may have been raised since.
        is_resumed = is_spent and self._was_disturbed(0, self._core.now_ms)
        is_reason = is_spent and cause is DeadLetterCause.DELIVERY_LIMIT
        if not (is_rejected or is_reason or is_resumed):
            raise Violation(f"{key} offset {offset}: {cause.name} is no reason for the dead letter of delivery {count}")

    def _check_copy(self, key: ShareKey, offset: int, record: Record) -> None:
        """A copy is that of the original record; without copying there is none."""
        if not self._core.state.configs.group(key.group_id)["errors.deadletterqueue.copy.record.enable"]:
            if record.key is not None or record.value is not None:
                raise Violation(f"{key} offset {offset}: its dead letter is a copy, without need")
            return
        original = self._find_original(key, offset)
        if original is not None and (record.key, record.value) not in ((None, None), (original.key, original.value)):
            raise Violation(f"{key} offset {offset}: its dead letter is the copy of another record")

    def _find_original(self, key: ShareKey, offset: int) -> Record | None:
        topic, store = self._core.state.metadata.topic_by_id(key.topic_id), self._core.state.log_store
        log: PartitionLog | None = None if topic is None or store is None else store.open_log(topic, key.partition)
        batches = [] if log is None else islice(log.batches_from(offset), 1)
        return next((one for batch in batches for one in batch.records() if one.offset == offset), None)

    def _queue_partitions(self, group_id: str) -> list[object]:
        topic = self._core.state.metadata.topic(QUEUE_NAMES[group_id])
        return [] if topic is None else list(topic.partitions)

    def _is_usable(self, group_id: str) -> bool:
        """Whether the group's queue takes records now."""
        state, name = self._core.state, QUEUE_NAMES[group_id]
        topic = state.metadata.topic(name)
        if topic is None or not has_dead_letter_queues(state.features):
            return False
        is_named = state.configs.group(group_id)["errors.deadletterqueue.topic.name"] == name
        is_enabled = bool(state.configs.topic(name)["errors.deadletterqueue.group.enable"])
        return is_named and is_enabled and all(one.leader in state.inter_broker.nodes for one in topic.partitions)

    def _was_disturbed(self, first_ms: int, last_ms: int) -> bool:
        at = bisect_left(self._disturbed_ms, first_ms)
        return at < len(self._disturbed_ms) and self._disturbed_ms[at] <= last_ms
