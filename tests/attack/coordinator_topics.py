"""Coordinators under the deletion of their topics, with nodes that stop and leaders that move: on virtual time."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeStateData
from kwire.messages.initialize_share_group_state import PartitionData as InitializePartition
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from mockbroker.state.metadata.topics import INTERNAL_TOPICS, CoordinatorKind
from tests.support.brokers.broker import Broker

_NODES = 3
_STEPS = 60
_NAMES = 12


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Play rounds of random steps, each on a cluster of its own.

    Yields: answers with UNKNOWN_SERVER_ERROR, exceptions and logged errors; states that outlive their topic.
    """
    end = time.monotonic() + seconds
    while True:
        yield from _Round(rng).play()
        if time.monotonic() >= end:
            return


class _ErrorLog(logging.Handler):
    """Collects errors, the internal ones among them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class _Round:
    """One cluster, cold or not, and the steps that were taken."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._steps: list[str] = []
        config = {"mockbroker.cold.coordinators": rng.choice(("true", "false")), "min.insync.replicas": "2"}
        config["mockbroker.replication"] = rng.choice(("immediate", "real"))
        self._broker = Broker(nodes=_NODES, topics={"t": 2}, config=config)
        self._down: set[int] = set()
        self._count = 0

    def play(self) -> Iterator[str]:
        """Take the steps, until one of them finds something."""
        errors = _ErrorLog()
        logger = logging.getLogger("mockbroker")
        logger.addHandler(errors)
        actions: list[Callable[[], str | None]] = [self._use] * 8 + [self._delete, self._delete]
        actions += [self._move, self._change_node, self._let_pass]
        try:
            for _ in range(_STEPS):
                found = self._rng.choice(actions)()
                found = found or "; ".join(errors.lines)
                if found:
                    yield f"{found}, after {self._steps}"
                    return
        except Exception as error:  # Whatever escapes from the core would have ended the server's timer.
            yield f"{type(error).__name__}: {error}, after {self._steps}"
        finally:
            logger.removeHandler(errors)

    def _kind(self) -> CoordinatorKind:
        return self._rng.choice(list(CoordinatorKind))

    def _use(self) -> str | None:
        """Send a request of a coordinator's client to any node."""
        kind, name, node = self._kind(), f"name-{self._rng.randrange(_NAMES)}", self._choose_node()
        self._steps.append(f"{kind.name} {name} at {node}")
        self._count += 1
        request, version = self._request(kind, name)
        answer = self._broker.call(request, version, connection=f"c{self._count}", node=node)
        listed = self._broker.call(ListGroupsRequest(), 5, connection=f"l{self._count}", node=node)
        codes = [code for code in (_code(kind, answer), listed and listed.error_code) if code is not None]
        return "UNKNOWN_SERVER_ERROR" if ErrorCode.UNKNOWN_SERVER_ERROR in codes else None

    def _request(self, kind: CoordinatorKind, name: str) -> tuple[msgspec.Struct, int]:
        if kind is CoordinatorKind.GROUP:
            rows = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5)])]
            return OffsetCommitRequest(name, topics=rows), 8
        if kind is CoordinatorKind.TRANSACTION:
            return InitProducerIdRequest(name, transaction_timeout_ms=60_000), 4
        states = [InitializeStateData(self._broker.topic("t").topic_id, [InitializePartition(0, 1, 0)])]
        return InitializeShareGroupStateRequest(name, states), 0

    def _delete(self) -> str | None:
        """Delete a coordinator's topic: nothing of it may stay, and nothing may create the next one."""
        kind = self._kind()
        self._steps.append(f"delete {kind.name}")
        self._count += 1
        request = DeleteTopicsRequest([DeleteTopicState(INTERNAL_TOPICS[kind].name)], timeout_ms=1_000)
        self._broker.call(request, 6, connection=f"d{self._count}", node=self._choose_node(), settle=False)
        if self._broker.metadata.has_internal_topic(kind):
            return f"{kind.name} exists"
        return f"states of {kind.name} are left" if self._count_states(kind) else None

    def _count_states(self, kind: CoordinatorKind) -> int:
        nodes = self._broker.core.state.inter_broker.nodes.values()
        if kind is CoordinatorKind.GROUP:
            return sum(len(node.groups.all_groups()) + len(set(node.offsets.group_ids())) for node in nodes)
        if kind is CoordinatorKind.TRANSACTION:
            return sum(len(node.transactions.all_transactions()) for node in nodes)
        return sum(len(node.share_state_log.coordinator.stored_keys()) for node in nodes)

    def _move(self) -> str | None:
        topic = self._broker.metadata.topic(INTERNAL_TOPICS[self._kind()].name)
        if topic is not None:
            partition = self._rng.choice(topic.partitions)
            to = self._choose_node()
            self._steps.append(f"{topic.name}-{partition.index} to {to}")
            if to in partition.isr and to != partition.leader:
                self._broker.core.move_leader(topic.name, partition.index, self._broker.now_ms, to=to)
        return None

    def _change_node(self) -> str | None:
        if self._down:
            self._steps.append("start")
            self._broker.start_node(self._down.pop())
        else:
            node, kills = self._choose_node(), self._rng.random() < 0.5
            self._steps.append(f"{'kill' if kills else 'stop'} {node}")
            (self._broker.kill_node if kills else self._broker.stop_node)(node)
            self._down.add(node)
        return None

    def _let_pass(self) -> str | None:
        duration_ms = self._rng.choice((0, 1, 500, 10_000))
        self._steps.append(f"{duration_ms} ms")
        self._broker.advance(duration_ms)
        return None

    def _choose_node(self) -> int:
        return self._rng.choice([node for node in range(_NODES) if node not in self._down])


def _code(kind: CoordinatorKind, answer: object) -> int | None:
    """The error code of an answer; None while there is none."""
    if answer is None:
        return None
    if kind is CoordinatorKind.GROUP:
        return answer.topics[0].partitions[0].error_code  # type: ignore[attr-defined,no-any-return]
    if kind is CoordinatorKind.TRANSACTION:
        return answer.error_code  # type: ignore[attr-defined,no-any-return]
    return answer.results[0].partitions[0].error_code  # type: ignore[attr-defined,no-any-return]
