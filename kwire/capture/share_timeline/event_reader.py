"""Reads the events of share partitions from rows of the level `messages`, and tracks sessions and request order.

The rows of a connection must be consecutive and in the order of their requests, with those of all files that contain
it. Brokers process one request of a connection at a time, so a request that was sent after a long poll is processed
when the poll has its response.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kwire.capture.rows.share_rows import ack_runs
from kwire.capture.share_timeline.events import BROKER_GONE, Event, EventKind, MessageRow, OffsetRuns
from kwire.registry import DEFAULT_EDITION

Tree = dict[str, Any]
PartitionKey = tuple[str | None, int]

#: The columns of `messages` that are read here.
COLUMNS = (
    *("file", "conn_id", "client_id", "api_name", "correlation_id"),
    *("req_ts", "req_end_ts", "resp_ts", "body_request", "body_response"),
)
_FINAL_EPOCH = -1
#: NOT_LEADER_OR_FOLLOWER, and UNKNOWN_TOPIC_OR_PARTITION for acknowledgements of an unknown share partition.
_NOT_LEADER, _UNKNOWN = 6, 3
#: A broker that closes a connection within this time after a request is shutting down; later, the connection was idle.
_IDLE_NS = 60_000_000_000
#: Requests after a response are later than the records that it contains, even if times are whole microseconds.
_AFTER = 1_000
#: Client id prefix of the persister, the client of brokers that writes share-partition state.
_PERSISTER_PREFIX = "Persister-client-"
#: Editions in which accept, release and reject are 0, 1 and 2, without a type for gaps.
_EDITIONS_WITHOUT_GAP = frozenset({"kip932-r1", "kip932-r2", "kip932-r3"})


class ShareExchange(NamedTuple):
    """A row with its JSON bodies, and the time when the broker started to process the request."""

    row: MessageRow
    processed_ts: int
    request: Tree
    response: Tree | None

    @property
    def error_code(self) -> int | None:
        """The error code of the whole response; None without a response."""
        return None if self.response is None else int(self.response.get("errorCode", 0))

    def event(self, kind: EventKind, partition_key: PartitionKey, ts: int | None = None, **more: Any) -> Event:
        """An event of this exchange for a share partition."""
        topic_id, partition = partition_key
        return Event(
            self.processed_ts if ts is None else ts,
            kind,
            self.request.get("groupId") or "",
            topic_id,
            partition,
            file=self.row.get("file"),
            conn_id=self.row.get("conn_id"),
            correlation_id=self.row.get("correlation_id"),
            **more,
        )


class ConnectionReader:
    """Reads the rows of connections, one connection after the other. edition: the one of the bodies."""

    def __init__(self, edition: str = DEFAULT_EDITION) -> None:
        self._first_acknowledge_type = 1 if edition in _EDITIONS_WITHOUT_GAP else 0
        self._connection: str | None = None
        self._last_response_ts = 0
        self._sessions: dict[tuple[str, str], set[PartitionKey]] = {}
        self._opened_session: tuple[str, str] | None = None

    def read_message(self, row: MessageRow) -> list[Event]:
        """The events of one row."""
        self._switch_connection(row["conn_id"])
        request_ts = row["req_end_ts"] or row["req_ts"]
        if request_ts is None:
            return []
        processed_ts = max(request_ts, self._last_response_ts)
        if row["resp_ts"] is not None:
            self._last_response_ts = max(self._last_response_ts, row["resp_ts"] + _AFTER)
        read = _READERS.get(row["api_name"])
        request = _parse_json(row["body_request"])
        if read is None or request is None:
            return []
        return list(read(self, ShareExchange(row, processed_ts, request, _parse_json(row["body_response"]))))

    def _switch_connection(self, connection: str) -> None:
        if connection != self._connection:
            self._connection, self._last_response_ts, self._opened_session = connection, 0, None
            self._sessions = {}

    def read_flow_end(self, flow: MessageRow) -> list[Event]:
        """The events at the end of a connection, from its row of the level `flows`, which comes after its requests."""
        self._switch_connection(flow["conn_id"])
        if self._opened_session is None or flow["ended"] not in ("fin", "rst", "reuse"):
            return []
        group_id, member_id = self._opened_session
        partitions = sorted(self._sessions.pop(self._opened_session, ()), key=_partition_order)
        self._opened_session = None
        is_recently_used = flow["last_ts"] - self._last_response_ts < _IDLE_NS
        kind, note = EventKind.DISCONNECT, None
        if flow.get("ended_by") == "broker" and is_recently_used:
            kind, note = EventKind.LEADER_CHANGE, BROKER_GONE
        ts = max(flow["last_ts"], self._last_response_ts)
        source = {"file": flow["file"], "conn_id": flow["conn_id"]}
        return [Event(ts, kind, group_id, *key, member_id=member_id, note=note, **source) for key in partitions]

    # Sessions, deliveries and acknowledgements.

    def _read_share_fetch(self, exchange: ShareExchange) -> Iterator[Event]:
        rows = _partitions(exchange.response, "responses")
        if not exchange.error_code:
            added = self._update_session(exchange)
            accepted = (key for key in added if not rows.get(key, {}).get("errorCode"))
            yield from (exchange.event(EventKind.FETCH_START, key) for key in accepted)
        yield from self._acknowledgements(exchange, rows, "acknowledgeErrorCode")
        yield from _leader_changes(exchange, rows, "acknowledgeErrorCode", exchange.processed_ts)
        yield from _leader_changes(exchange, rows, "errorCode", exchange.row["resp_ts"])
        yield from self._acquisitions(exchange, rows)
        yield from self._session_end(exchange)

    def _read_share_acknowledge(self, exchange: ShareExchange) -> Iterator[Event]:
        rows = _partitions(exchange.response, "responses")
        yield from self._acknowledgements(exchange, rows, "errorCode")
        yield from _leader_changes(exchange, rows, "errorCode", exchange.processed_ts)
        yield from self._session_end(exchange)

    def _update_session(self, exchange: ShareExchange) -> list[PartitionKey]:
        """Add and remove the partitions of the request; returns the added ones."""
        request = exchange.request
        key, epoch = _session_key(request), request.get("shareSessionEpoch", 0)
        if epoch == 0:
            self._sessions[key], self._opened_session = set(), key
        session = self._sessions.setdefault(key, set())
        new = sorted(set(_partitions(request, "topics")) - session, key=_partition_order)
        session |= set(new)
        for topic in request.get("forgottenTopicsData") or ():
            session -= {(topic["topicId"], number) for number in topic["partitions"] or ()}
        return new if exchange.response is not None else []

    def _acknowledgements(self, exchange: ShareExchange, rows: dict[PartitionKey, Tree], error: str) -> Iterator[Event]:
        member_id, lock_ms = exchange.request.get("memberId"), _lock_ms(exchange)
        for key, partition in _partitions(exchange.request, "topics").items():
            runs = tuple(
                (first, last, kind + self._first_acknowledge_type)
                for batch in partition.get("acknowledgementBatches") or ()
                for first, last, kind in ack_runs(
                    batch["firstOffset"], batch["lastOffset"], tuple(batch["acknowledgeTypes"] or ())
                )
            )
            if runs:
                code = exchange.error_code or (rows[key].get(error, 0) if key in rows else exchange.error_code)
                details: Tree = {"member_id": member_id, "error_code": code, "lock_ms": lock_ms, "runs": runs}
                yield exchange.event(EventKind.ACKNOWLEDGE, key, **details)

    def _acquisitions(self, exchange: ShareExchange, rows: dict[PartitionKey, Tree]) -> Iterator[Event]:
        resp_ts = exchange.row["resp_ts"]
        member_id, lock_ms = exchange.request.get("memberId"), _lock_ms(exchange)
        for key, partition in rows.items():
            runs: OffsetRuns = tuple(
                (run["firstOffset"], run["lastOffset"], run["deliveryCount"])
                for run in partition.get("acquiredRecords") or ()
            )
            if runs and resp_ts is not None:
                self._sessions.setdefault(_session_key(exchange.request), set()).add(key)
                yield exchange.event(EventKind.ACQUIRE, key, resp_ts, member_id=member_id, lock_ms=lock_ms, runs=runs)

    def _session_end(self, exchange: ShareExchange) -> Iterator[Event]:
        if exchange.request.get("shareSessionEpoch") != _FINAL_EPOCH or exchange.error_code:
            return
        key = _session_key(exchange.request)
        if self._opened_session == key:
            self._opened_session = None
        for partition_key in sorted(self._sessions.pop(key, ()), key=_partition_order):
            yield exchange.event(EventKind.CLOSE, partition_key, member_id=key[1], error_code=exchange.error_code)

    # Changes of the state by brokers and administrators.

    def _read_alter_offsets(self, exchange: ShareExchange) -> Iterator[Event]:
        """AlterShareGroupOffsets; its response has the topic ids."""
        if exchange.response is None or exchange.error_code:
            return
        start_offsets = {
            (topic["topicName"], partition["partitionIndex"]): partition["startOffset"]
            for topic in exchange.request.get("topics") or ()
            for partition in topic.get("partitions") or ()
        }
        for topic in exchange.response.get("responses") or ():
            for row in topic["partitions"]:
                start = start_offsets.get((topic["topicName"], row["partitionIndex"]))
                if not row["errorCode"] and start is not None:
                    partition_key = topic["topicId"], row["partitionIndex"]
                    yield exchange.event(EventKind.RESET, partition_key, start=start, note="alter_offsets")

    def _read_initialize_state(self, exchange: ShareExchange) -> Iterator[Event]:
        resp_ts = exchange.row["resp_ts"]
        for key, requested, _ in _state_partitions(exchange):
            yield exchange.event(EventKind.RESET, key, resp_ts, start=requested["startOffset"], note="initialize")

    def _read_delete_state(self, exchange: ShareExchange) -> Iterator[Event]:
        for partition_key, _, _ in _state_partitions(exchange):
            yield exchange.event(EventKind.RESET, partition_key, exchange.row["resp_ts"], note="delete_state")

    def _read_read_state(self, exchange: ShareExchange) -> Iterator[Event]:
        resp_ts = exchange.row["resp_ts"]
        for key, _, state in _state_partitions(exchange):
            yield exchange.event(EventKind.LOAD, key, resp_ts, start=state["startOffset"], runs=_state_batches(state))

    def _read_write_state(self, exchange: ShareExchange) -> Iterator[Event]:
        for key, state in _requested_by_brokers(exchange):
            start, complete = state["startOffset"], state.get("deliveryCompleteCount")
            yield exchange.event(EventKind.WRITE, key, start=start, complete=complete, runs=_state_batches(state))


_READERS: dict[object, Callable[[ConnectionReader, ShareExchange], Iterable[Event]]] = {
    "ShareFetch": ConnectionReader._read_share_fetch,
    "ShareAcknowledge": ConnectionReader._read_share_acknowledge,
    "InitializeShareGroupState": ConnectionReader._read_initialize_state,
    "ReadShareGroupState": ConnectionReader._read_read_state,
    "WriteShareGroupState": ConnectionReader._read_write_state,
    "DeleteShareGroupState": ConnectionReader._read_delete_state,
    "AlterShareGroupOffsets": ConnectionReader._read_alter_offsets,
}
#: The APIs whose rows are read for events of share partitions.
APIS = tuple(str(name) for name in _READERS)


def _leader_changes(exchange: ShareExchange, rows: dict[PartitionKey, Tree], error: str, ts: int) -> Iterator[Event]:
    """Partitions of which the broker is not the leader, with the new leader if the response names it."""
    for partition_key, row in rows.items():
        if row.get(error) in (_NOT_LEADER, _UNKNOWN):
            leader = row.get("currentLeader") or {}
            new_leader = {"start": leader["leaderId"], "complete": leader["leaderEpoch"]} if leader else {}
            yield exchange.event(EventKind.LEADER_CHANGE, partition_key, ts, **new_leader)


def _parse_json(text: str | None) -> Tree | None:
    tree: Tree | None = None if text is None else json.loads(text)
    return tree


def _session_key(request: Tree) -> tuple[str, str]:
    return request.get("groupId") or "", request.get("memberId") or ""


def _partition_order(partition_key: PartitionKey) -> tuple[str, int]:
    return partition_key[0] or "", partition_key[1]


def _lock_ms(exchange: ShareExchange) -> int | None:
    return (exchange.response or {}).get("acquisitionLockTimeoutMs") or None


def _partitions(tree: Tree | None, field: str, index_field: str = "partitionIndex") -> dict[PartitionKey, Tree]:
    """The structs of a message by partition; the last one if a partition is listed twice."""
    return {
        (topic["topicId"], partition[index_field]): partition
        for topic in (tree or {}).get(field) or ()
        for partition in topic["partitions"] or ()
    }


def _state_partitions(exchange: ShareExchange) -> Iterator[tuple[PartitionKey, Tree, Tree]]:
    """The share partitions of a state RPC without an error, with their structs in request and response."""
    results = _partitions(exchange.response, "results", "partition")
    for partition_key, partition in _requested_by_brokers(exchange):
        row = results.get(partition_key)
        if row is not None and not row["errorCode"]:
            yield partition_key, partition, row


def _requested_by_brokers(exchange: ShareExchange) -> Iterator[tuple[PartitionKey, Tree]]:
    """The share partitions of a state RPC, if a broker sent it: other clients do not have the state."""
    if not str(exchange.row["client_id"] or "").startswith(_PERSISTER_PREFIX):
        return
    for topic in exchange.request.get("topics") or ():
        for partition in topic["partitions"] or ():
            yield (topic["topicId"], partition["partition"]), partition


def _state_batches(tree: Tree) -> OffsetRuns:
    return tuple(
        (batch["firstOffset"], batch["lastOffset"], batch["deliveryCount"], batch["deliveryState"])
        for batch in tree.get("stateBatches") or ()
    )
