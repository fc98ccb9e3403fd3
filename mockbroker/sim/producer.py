"""A producer with idempotence and transactions, over the wire: one step of its protocol at a time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kwire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.records import Record, write_batch
from mockbroker.sim.chance import do_one
from mockbroker.state.topics import CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.sim.said import Place
    from mockbroker.sim.world import World

_GROUP = "offsets-of-transactions"
_TIMEOUT_MS = 12_000
_COUNTS = (1, 1, 2, 3, 6)


class Producer:
    """Knows its id, its epoch, and the sequence of each partition; after an error it begins again with a new epoch.

    transactional_id: None for one that is idempotent alone.
    """

    def __init__(self, transactional_id: str | None, world: World, rng: Random) -> None:
        self._transactional_id = transactional_id
        self._world = world
        self._rng = rng
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[Place, int] = {}
        self._added: set[Place] = set()
        self._busy = 0

    def act(self) -> str:
        """The next step, whatever is possible."""
        name = self._transactional_id or "the idempotent producer"
        if self._busy:
            if self._rng.random() < 0.02:
                self._begin_again()  # It gives up on an answer that does not come.
            return f"{name} waits"
        if self._producer_id < 0:
            return f"{name} {self._init()}"
        deeds: list[tuple[int, Callable[[], str]]] = [(5, self._produce)]
        if self._transactional_id is not None:
            deeds += [(3, self._end), (2, self._commit_offsets)]
        return f"{name} {do_one(self._rng, deeds)}"

    def _init(self) -> str:
        def begun(answer: InitProducerIdResponse) -> None:
            if not answer.error_code:
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                self._world.coverage.count("producer begun")

        request = InitProducerIdRequest(self._transactional_id, _TIMEOUT_MS if self._transactional_id else -1)
        return "asks for an id" if self._ask(self._coordinator(), request, 4, begun) else "finds nobody"

    def _produce(self) -> str:
        # Once a partition is added to the transaction, it gets most of the records.
        again = sorted(place for place in self._added if self._world.topic_of(place) is not None)
        place = self._rng.choice(again) if again and self._rng.random() < 0.8 else self._world.some_place(self._rng)
        if place is None:
            return "has nothing to produce"
        if self._transactional_id is not None and place not in self._added:
            return self._add(place)
        return self._produce_to(place)

    def _produce_to(self, place: Place) -> str:
        topic = self._world.topic_of(place)
        if topic is None:
            return "finds its topic gone"
        count = self._rng.choice(_COUNTS)
        sequence = self._sequences.get(place, 0)
        batch = write_batch(
            [Record(n, self._world.now_ms, self._world.some_key(self._rng), b"value") for n in range(count)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=self._transactional_id is not None,
        )
        data = TopicProduceData(topic.name, bytes(16), [PartitionProduceData(place[1], batch)])
        request = ProduceRequest(self._transactional_id, acks=-1, timeout_ms=1_000, topic_data=[data])

        def produced(answer: ProduceResponse) -> None:
            code = answer.responses[0].partition_responses[0].error_code
            if code:
                self._begin_again()
                self._world.coverage.count("produce refused")
            else:
                self._sequences[place] = sequence + count
                self._world.coverage.count(
                    "produced in a transaction" if self._transactional_id else "produced in sequence"
                )

        self._ask(self._world.leader(place), request, 9, produced)
        return f"produces {count} records to {topic.name}-{place[1]}"

    def _add(self, place: Place) -> str:
        topic = self._world.topic_of(place)
        assert topic is not None
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id or "",
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic.name, (place[1],))],
        )

        def added(answer: msgspec.Struct) -> None:
            rows = answer.results_by_topic_v3_and_below[0].results_by_partition  # type: ignore[attr-defined]
            if not rows[0].partition_error_code:
                self._added.add(place)
                self._produce_to(place)
            elif rows[0].partition_error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                self._begin_again()

        self._ask(self._coordinator(), request, 3, added)
        return f"adds {topic.name}-{place[1]}"

    def _commit_offsets(self) -> str:
        """Offsets within the transaction: added with its coordinator, then sent to the group's."""
        assert self._transactional_id is not None
        transactional_id, place = self._transactional_id, self._world.some_place(self._rng)
        topic = None if place is None else self._world.topic_of(place)
        if place is None or topic is None:
            return "has no offsets"

        def committed(answer: msgspec.Struct) -> None:
            code = answer.topics[0].partitions[0].error_code  # type: ignore[attr-defined]
            self._world.coverage.count("offsets in a transaction", int(not code))

        def added(answer: msgspec.Struct) -> None:
            if answer.error_code or not self._added:  # type: ignore[attr-defined]
                return
            row = TxnOffsetCommitRequestPartition(place[1], 5)
            request = TxnOffsetCommitRequest(
                transactional_id,
                _GROUP,
                self._producer_id,
                self._epoch,
                topics=[TxnOffsetCommitRequestTopic(topic.name, [row])],
            )
            self._ask(self._world.coordinator(CoordinatorKind.GROUP, _GROUP), request, 3, committed)

        request = AddOffsetsToTxnRequest(transactional_id, self._producer_id, self._epoch, _GROUP)
        self._ask(self._coordinator(), request, 3, added)
        return "commits offsets"

    def _end(self) -> str:
        assert self._transactional_id is not None
        if not self._added:
            return "has no transaction to end"
        commit = self._rng.random() < 0.5

        def ended(answer: msgspec.Struct) -> None:
            code = answer.error_code  # type: ignore[attr-defined]
            if code and code != ErrorCode.CONCURRENT_TRANSACTIONS:
                self._begin_again()
            elif not code:
                self._added.clear()
                self._world.coverage.count("transaction committed" if commit else "transaction aborted")

        request = EndTxnRequest(self._transactional_id, self._producer_id, self._epoch, commit)
        self._ask(self._coordinator(), request, 3, ended)
        return "commits" if commit else "aborts"

    def _begin_again(self) -> None:
        self._producer_id, self._busy = -1, 0
        self._sequences.clear()
        self._added.clear()

    def _coordinator(self) -> int:
        if self._transactional_id is None:
            return self._rng.choice(sorted(self._world.core.state.calls.nodes))
        return self._world.coordinator(CoordinatorKind.TRANSACTION, self._transactional_id)

    def _ask(self, node_id: int, request: msgspec.Struct, version: int, done: Callable[..., None]) -> bool:
        if not self._world.is_up(node_id):
            return False
        was = self._producer_id
        self._busy += 1

        def answered(answer: msgspec.Struct) -> None:
            if self._producer_id == was and self._busy:
                self._busy -= 1
                done(answer)

        def lost() -> None:
            self._begin_again()

        wire = self._world.wire
        wire.ask(wire.connect(node_id, "producer", lost), request, version, answered)
        return True
