"""The persister that has state written to the log of the topic-partition itself, by whoever leads that.

For the edition `kip932-r2`, and `--share-persister control-records`. What is asked for in one moment travels in one
message, and becomes one control record for each share partition.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.error_codes import ErrorCode
from mockbroker.coordinators.share_state_log import Written as Recorded
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.control_log import ShareControlLog
from mockbroker.persisters.default import Kind, Persister, Task
from mockbroker.state.share_chain import unrecorded
from mockbroker.state.share_rules import RELEASED, ShareRules

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from mockbroker.calls import Calls
    from mockbroker.node import Node
    from mockbroker.state.hidden import Hidden
    from mockbroker.state.metadata import Metadata
    from mockbroker.state.share_coordinator import ShareKey
    from mockbroker.state.share_partition import PendingWrite

_Place = tuple[bytes, int]


class _Delivery:
    """What one message asks of the leader of a topic-partition; the answer leaves when all replicas have it."""

    def __init__(self, tasks: list[Task]) -> None:
        self._tasks = tasks
        self._node: Node | None = None
        self._since_ms = 0
        self._recorded: Recorded | None = None
        self._answers: list[Any] = []

    def handle(self, node: Node, now_ms: int) -> list[Any]:
        """Do everything once, and then wait. Raises: Unsettled, NETWORK_EXCEPTION when the node has died meanwhile."""
        room, key = node.share_control_log, self._tasks[0].key
        if self._node is None:
            self._node, self._since_ms = node, now_ms
            self._answers = [_done(task, room, now_ms) for task in self._tasks]
            room.record()
            self._recorded = room.recorded(key)
        if node is not self._node or self._recorded is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"node {node.node_id} was started anew")
        room.must_be_safe(self._recorded, since_ms=self._since_ms, now_ms=now_ms)
        return self._answers


def _done(task: Task, room: Any, now_ms: int) -> Any:
    """What becomes of one task. The room has the operations of a share coordinator, and is asked in its words."""
    try:
        return task.operation(room, now_ms)
    except KafkaError as refusal:
        return refusal


class ControlRecordsPersister(Persister):
    """One node's way to the leaders of topic-partitions."""

    def __init__(self, calls: Calls, metadata: Metadata, rng: Random, rules: ShareRules = RELEASED) -> None:
        super().__init__(calls, metadata, rng, rules)
        self._places: dict[_Place, list[Task]] = {}

    def send(
        self, write: PendingWrite, now_ms: int, done: Callable[[ErrorCode | None, int], None] | None = None
    ) -> None:
        """Write what a share partition has settled, with what lies before it and has not been recorded yet."""
        last = max((batch.last for batch in write.batches), default=-1)
        super().send(replace(write, batches=[*unrecorded(write.partition, last), *write.batches]), now_ms, done)

    def decided(self, key: ShareKey, start: int, *, state_epoch: int, leader_epoch: int, now_ms: int) -> None:
        """A share partition begins here: its first checkpoint says so."""

        def decide(room: Any, at_ms: int) -> None:
            control_log: ShareControlLog = room
            control_log.decide(key, start, state_epoch=state_epoch, leader_epoch=leader_epoch, now_ms=at_ms)

        self._enqueue(Task(Kind.INITIALIZE, key, decide, lambda answer, at_ms: None), now_ms)

    def hidden(self, key: ShareKey, node: Node) -> Hidden | None:
        """The offsets of control records in the log."""
        return node.share_control_log.hidden(key)

    def _enqueue(self, task: Task, now_ms: int) -> None:
        place = (task.key.topic_id, task.key.partition)
        waiting = self._places.get(place)
        if waiting is None:
            self._places[place] = [task]
            self._calls.later(0, partial(self._ask_leader, place), now_ms=now_ms)
        else:
            waiting.append(task)

    def _ask_leader(self, place: _Place, now_ms: int) -> None:
        tasks = self._places.pop(place)
        if self._is_closed:
            return
        leader = self._metadata.leader(*place)

        def back(answers: list[Any] | KafkaError, at_ms: int) -> None:
            for at, task in enumerate(tasks):
                self._judge(task, answers if isinstance(answers, KafkaError) else answers[at], at_ms)

        if leader is None or leader.leader < 0:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if leader is None else ErrorCode.NOT_COORDINATOR
            back(KafkaError(code, "the topic-partition has no leader"), now_ms)
        else:
            self._calls.call(to=leader.leader, handle=_Delivery(tasks).handle, done=back, now_ms=now_ms)
