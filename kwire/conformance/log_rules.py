"""Rules about partitions of topics: leader epochs, and sequences of idempotent producers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from kwire import uuids
from kwire.conformance.limited_dict import LimitedDict
from kwire.conformance.model import ConnectionKey, Note, ObservedExchange
from kwire.conformance.produced_batches import batches_of, is_ahead
from kwire.conformance.traffic import TRACKED_MAX, Seen, SilentChecker, Traffic, make_note
from kwire.error_codes import ErrorCode

_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA, _OFFSET_FOR_LEADER_EPOCH = 0, 1, 2, 3, 23
#: A consumer uses a new epoch when it polls next, so it may send the old one for a while.
_EPOCH_GRACE_NS = 1_000_000_000
_PARTITIONS_MAX = 200_000

_Topic = str | bytes


class LeaderEpochChecker(SilentChecker):
    """Leader epochs in requests that are older than one in a response on the same connection."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._newest: LimitedDict[tuple[ConnectionKey, _Topic, int], tuple[int, Seen]]
        self._newest = LimitedDict(_PARTITIONS_MAX)
        self._topic_ids: LimitedDict[tuple[ConnectionKey, str], bytes] = LimitedDict(TRACKED_MAX)

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        for topic, partition, epoch in _requested_epochs(exchange):
            newest = self._newest.get((exchange.connection, topic, partition))
            if newest is None or not 0 <= epoch < newest[0]:
                continue
            # A topic that was created again, in what is missing, begins with epoch 0.
            is_certain = self._traffic.is_complete_since(exchange.connection, newest[1].answered_ns)
            if is_certain and exchange.sent_ns - newest[1].answered_ns > _EPOCH_GRACE_NS:
                name = topic if isinstance(topic, str) else uuids.to_text(topic)
                text = (
                    f"sent {exchange.api_name} for {name}-{partition} with leader epoch {epoch} after it was given "
                    f"epoch {newest[0]}"
                )
                yield make_note("stale-leader-epoch", text, exchange, [newest[1]])

    def take_response(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A response is sent."""
        for topic, partition, epoch in self._given_epochs(exchange):
            key = (exchange.connection, topic, partition)
            if key not in self._newest or self._newest[key][0] < epoch:
                self._newest[key] = (epoch, Seen.of(exchange))
        return iter(())

    def _given_epochs(self, exchange: ObservedExchange) -> Iterator[tuple[_Topic, int, int]]:
        response = cast("Any", exchange.response)
        if response is None:
            return
        if exchange.api_key == _METADATA:
            for topic in response.topics:
                self._forget_older_topic(exchange.connection, topic.name, topic.topic_id)
                for partition in topic.partitions:
                    for name in (topic.name, topic.topic_id):
                        if name and name != uuids.ZERO and partition.leader_epoch >= 0:
                            yield name, partition.partition_index, partition.leader_epoch
        elif exchange.api_key == _FETCH:
            for topic in response.responses:
                for partition in topic.partitions:
                    if partition.current_leader.leader_epoch >= 0:
                        name = topic.topic or topic.topic_id
                        yield name, partition.partition_index, partition.current_leader.leader_epoch

    def _forget_older_topic(self, connection: ConnectionKey, name: str | None, topic_id: bytes) -> None:
        """A topic that was deleted and created again begins with epoch 0."""
        if not name or topic_id == uuids.ZERO:
            return
        known = self._topic_ids.get((connection, name))
        if known is not None and known != topic_id:
            for key in [key for key in self._newest if key[:2] == (connection, name)]:
                del self._newest[key]
        self._topic_ids[connection, name] = topic_id


def _requested_epochs(exchange: ObservedExchange) -> Iterator[tuple[_Topic, int, int]]:
    """Topic, partition and current leader epoch of each partition in a client's request."""
    request = cast("Any", exchange.request)
    if request is None or exchange.api_key not in (_FETCH, _LIST_OFFSETS, _OFFSET_FOR_LEADER_EPOCH):
        return
    if request.replica_id >= 0 or (exchange.api_key == _FETCH and request.replica_state.replica_id >= 0):
        return  # A broker that replicates.
    for topic in request.topics:
        name = topic.name if exchange.api_key == _LIST_OFFSETS else topic.topic or getattr(topic, "topic_id", b"")
        for partition in topic.partitions:
            index = partition.partition_index if exchange.api_key == _LIST_OFFSETS else partition.partition
            yield name, index, partition.current_leader_epoch


class SequenceChecker(SilentChecker):
    """Batches that do not continue the sequence of their producer, and that the broker refused for it.

    A lower sequence than expected is a retry. A batch that the broker accepted has no gap before it: the records in
    between were sent to a broker that was not observed.
    """

    def __init__(self) -> None:
        self._expected: LimitedDict[tuple[int, int, _Topic, int], tuple[int, Seen]]
        self._expected = LimitedDict(_PARTITIONS_MAX)
        self._has_gap = False

    def take_request(self, exchange: ObservedExchange) -> Iterator[Note]:
        """A request arrives."""
        if exchange.api_key != _PRODUCE:
            return
        for batch in batches_of(exchange):
            key = batch.key[:4]
            expected = self._expected.get(key)
            if expected is None or is_ahead(batch.next_sequence, expected[0]):
                is_gap = expected is not None and is_ahead(batch.sequence, expected[0]) and not self._has_gap
                if is_gap and _error_of(exchange.response, batch.topic, batch.partition) == _OUT_OF_ORDER:
                    assert expected is not None
                    text = f"produced {batch}, expected was sequence {expected[0]}"
                    yield make_note("produce-sequence-gap", text, exchange, [expected[1]])
                self._expected[key] = (batch.next_sequence, _without_messages(exchange))

    def take_gap(self, connection: ConnectionKey) -> None:
        """A part of a connection is missing: any batch may have been in it."""
        self._has_gap = True


_OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _without_messages(exchange: ObservedExchange) -> Seen:
    return Seen(exchange.number, exchange.packet, exchange.connection, exchange.answered_ns or exchange.sent_ns)


def _error_of(response: msgspec.Struct | None, topic: _Topic, partition: int) -> int:
    for each in () if response is None else cast("Any", response).responses:
        if topic in (each.name, each.topic_id):
            for row in each.partition_responses:
                if row.index == partition:
                    code: int = row.error_code
                    return code
    return 0
