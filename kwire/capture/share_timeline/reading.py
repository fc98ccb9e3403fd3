"""From rows of the level `messages` to the events of share partitions: sessions are followed, and who waited for whom.

A connection's rows must come together and in the order of their requests, those of all files that saw it: brokers take
one request of a connection at a time, so one that was sent behind a long poll is taken when the poll has been answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kwire.capture.share_rows import ack_runs
from kwire.capture.share_timeline.events import GONE, Event, Kind, Runs, Told
from kwire.registry import DEFAULT_EDITION

Tree = dict[str, Any]
Place = tuple[str | None, int]

#: The columns of `messages` that are read here.
COLUMNS = (
    "file",
    "conn_id",
    "client_id",
    "api_name",
    "correlation_id",
    "req_ts",
    "req_end_ts",
    "resp_ts",
    "body_request",
    "body_response",
)
_FINAL_EPOCH = -1
#: What a broker says of a share partition that it does not lead, and to acknowledgements if it does not have it.
_NOT_LEADER, _UNKNOWN = 6, 3
#: A broker that ends a connection that was used so short ago is itself about to go; later it ends one that is idle.
_IDLE_NS = 60_000_000_000
#: What follows an answer comes behind what the answer gives, also where times are whole microseconds.
_AFTER = 1_000
#: How the brokers' own client calls itself that carries the state of share partitions.
_PERSISTER = "Persister-client-"
#: Where accept, release and reject are 0, 1 and 2, and gaps cannot be told.
_EARLY_TYPES = frozenset({"kip932-r1", "kip932-r2", "kip932-r3"})


class Exchange(NamedTuple):
    """A row, with its bodies as trees, and when the broker took the request."""

    row: Told
    taken: int
    asked: Tree
    answered: Tree | None

    @property
    def error_code(self) -> int | None:
        """Of the whole answer; null where there is none."""
        return None if self.answered is None else int(self.answered.get("errorCode", 0))

    def event(self, kind: Kind, place: Place, ts: int | None = None, **more: Any) -> Event:
        """An event of this exchange about a share partition."""
        row = self.row
        return Event(
            self.taken if ts is None else ts,
            kind,
            self.asked.get("groupId") or "",
            place[0],
            place[1],
            file=row.get("file"),
            conn_id=row.get("conn_id"),
            correlation_id=row.get("correlation_id"),
            **more,
        )


class ConnectionReader:
    """Reads the rows of one connection after the other. edition: in which their bodies are."""

    def __init__(self, edition: str = DEFAULT_EDITION) -> None:
        self._first_type = 1 if edition in _EARLY_TYPES else 0
        self._connection: str | None = None
        self._answered = 0
        self._sessions: dict[tuple[str, str], set[Place]] = {}
        self._made: tuple[str, str] | None = None

    def read(self, row: Told) -> list[Event]:
        """The events of one row."""
        self._turn_to(row["conn_id"])
        began = row["req_end_ts"] or row["req_ts"]
        if began is None:
            return []
        taken = max(began, self._answered)
        if row["resp_ts"] is not None:
            self._answered = max(self._answered, row["resp_ts"] + _AFTER)
        read = _READERS.get(row["api_name"])
        asked = _tree(row["body_request"])
        if read is None or asked is None:
            return []
        return list(read(self, Exchange(row, taken, asked, _tree(row["body_response"]))))

    def _turn_to(self, connection: str) -> None:
        if connection != self._connection:
            self._connection, self._answered, self._made = connection, 0, None
            self._sessions = {}

    def end(self, flow: Told) -> list[Event]:
        """What the end of a connection means, by its row of the level `flows`; it comes behind its requests."""
        self._turn_to(flow["conn_id"])
        if self._made is None or flow["ended"] not in ("fin", "rst", "reuse"):
            return []
        group_id, member_id = self._made
        places = sorted(self._sessions.pop(self._made, ()), key=_order)
        self._made = None
        is_quick = flow["last_ts"] - self._answered < _IDLE_NS
        kind = Kind.MOVE if flow.get("ended_by") == "broker" and is_quick else Kind.DISCONNECT
        return [
            Event(
                max(flow["last_ts"], self._answered),
                kind,
                group_id,
                *place,
                member_id=member_id,
                note=GONE if kind is Kind.MOVE else None,
                file=flow["file"],
                conn_id=flow["conn_id"],
            )
            for place in places
        ]

    # Sessions, and what travels in them.

    def _fetch(self, exchange: Exchange) -> Iterator[Event]:
        rows = _partitions(exchange.answered, "responses")
        if not exchange.error_code:
            new = self._follow(exchange)
            yield from (exchange.event(Kind.LOOK, place) for place in new if not _refuses(rows.get(place)))
        yield from self._words(exchange, rows, "acknowledgeErrorCode")
        yield from _moved(exchange, rows, "acknowledgeErrorCode", exchange.taken)
        yield from _moved(exchange, rows, "errorCode", exchange.row["resp_ts"])
        yield from self._given(exchange, rows)
        yield from self._end(exchange)

    def _acknowledge(self, exchange: Exchange) -> Iterator[Event]:
        rows = _partitions(exchange.answered, "responses")
        yield from self._words(exchange, rows, "errorCode")
        yield from _moved(exchange, rows, "errorCode", exchange.taken)
        yield from self._end(exchange)

    def _follow(self, exchange: Exchange) -> list[Place]:
        """The places that come into the session."""
        asked = exchange.asked
        key, epoch = _key(asked), asked.get("shareSessionEpoch", 0)
        if epoch == 0:
            self._sessions[key], self._made = set(), key
        session = self._sessions.setdefault(key, set())
        new = sorted(set(_partitions(asked, "topics")) - session, key=_order)
        session |= set(new)
        for topic in asked.get("forgottenTopicsData") or ():
            session -= {(topic["topicId"], number) for number in topic["partitions"] or ()}
        return new if exchange.answered is not None else []

    def _words(self, exchange: Exchange, rows: dict[Place, Tree], error: str) -> Iterator[Event]:
        for place, partition in _partitions(exchange.asked, "topics").items():
            runs = tuple(
                (first, last, kind + self._first_type)
                for batch in partition.get("acknowledgementBatches") or ()
                for first, last, kind in ack_runs(
                    batch["firstOffset"], batch["lastOffset"], tuple(batch["acknowledgeTypes"] or ())
                )
            )
            if runs:
                code = exchange.error_code or (rows[place].get(error, 0) if place in rows else exchange.error_code)
                yield exchange.event(
                    Kind.ACKNOWLEDGE,
                    place,
                    member_id=exchange.asked.get("memberId"),
                    error_code=code,
                    lock_ms=_lock_ms(exchange),
                    runs=runs,
                )

    def _given(self, exchange: Exchange, rows: dict[Place, Tree]) -> Iterator[Event]:
        answered_at = exchange.row["resp_ts"]
        for place, partition in rows.items():
            runs: Runs = tuple(
                (run["firstOffset"], run["lastOffset"], run["deliveryCount"])
                for run in partition.get("acquiredRecords") or ()
            )
            if runs and answered_at is not None:
                self._sessions.setdefault(_key(exchange.asked), set()).add(place)
                yield exchange.event(
                    Kind.ACQUIRE,
                    place,
                    answered_at,
                    member_id=exchange.asked.get("memberId"),
                    lock_ms=_lock_ms(exchange),
                    runs=runs,
                )

    def _end(self, exchange: Exchange) -> Iterator[Event]:
        if exchange.asked.get("shareSessionEpoch") != _FINAL_EPOCH or exchange.error_code:
            return
        key = _key(exchange.asked)
        if self._made == key:
            self._made = None
        for place in sorted(self._sessions.pop(key, ()), key=_order):
            yield exchange.event(Kind.CLOSE, place, member_id=key[1], error_code=exchange.error_code)

    # What brokers and administrators do to the state.

    def _offsets(self, exchange: Exchange) -> Iterator[Event]:
        """AlterShareGroupOffsets: its answer names the topics by id as well."""
        if exchange.answered is None or exchange.error_code:
            return
        asked = {
            (topic["topicName"], partition["partitionIndex"]): partition["startOffset"]
            for topic in exchange.asked.get("topics") or ()
            for partition in topic.get("partitions") or ()
        }
        for topic in exchange.answered.get("responses") or ():
            for row in topic["partitions"]:
                start = asked.get((topic["topicName"], row["partitionIndex"]))
                if not row["errorCode"] and start is not None:
                    place = topic["topicId"], row["partitionIndex"]
                    yield exchange.event(Kind.RESET, place, start=start, note="alter_offsets")

    def _initialize(self, exchange: Exchange) -> Iterator[Event]:
        for place, asked, _ in _stated(exchange):
            yield exchange.event(
                Kind.RESET, place, exchange.row["resp_ts"], start=asked["startOffset"], note="initialize"
            )

    def _delete_state(self, exchange: Exchange) -> Iterator[Event]:
        for place, _, _ in _stated(exchange):
            yield exchange.event(Kind.RESET, place, exchange.row["resp_ts"], note="delete_state")

    def _read_state(self, exchange: Exchange) -> Iterator[Event]:
        for place, _, told in _stated(exchange):
            yield exchange.event(
                Kind.LOAD, place, exchange.row["resp_ts"], start=told["startOffset"], runs=_batches(told)
            )

    def _write_state(self, exchange: Exchange) -> Iterator[Event]:
        for place, partition in _asked_by_brokers(exchange):
            yield exchange.event(
                Kind.WRITE,
                place,
                start=partition["startOffset"],
                complete=partition.get("deliveryCompleteCount"),
                runs=_batches(partition),
            )


_READERS: dict[object, Callable[[ConnectionReader, Exchange], Iterable[Event]]] = {
    "ShareFetch": ConnectionReader._fetch,
    "ShareAcknowledge": ConnectionReader._acknowledge,
    "InitializeShareGroupState": ConnectionReader._initialize,
    "ReadShareGroupState": ConnectionReader._read_state,
    "WriteShareGroupState": ConnectionReader._write_state,
    "DeleteShareGroupState": ConnectionReader._delete_state,
    "AlterShareGroupOffsets": ConnectionReader._offsets,
}
#: The APIs whose rows are read for events of share partitions.
APIS = tuple(str(name) for name in _READERS)


def _refuses(row: Tree | None) -> bool:
    return row is not None and bool(row.get("errorCode"))


def _moved(exchange: Exchange, rows: dict[Place, Tree], error: str, ts: int) -> Iterator[Event]:
    """Partitions that the broker says it does not lead, and who does, if it knows."""
    for place, row in rows.items():
        if row.get(error) in (_NOT_LEADER, _UNKNOWN):
            leader = row.get("currentLeader") or {}
            known = {"start": leader["leaderId"], "complete": leader["leaderEpoch"]} if leader else {}
            yield exchange.event(Kind.MOVE, place, ts, **known)


def _tree(text: str | None) -> Tree | None:
    tree: Tree | None = None if text is None else json.loads(text)
    return tree


def _key(asked: Tree) -> tuple[str, str]:
    return asked.get("groupId") or "", asked.get("memberId") or ""


def _order(place: Place) -> tuple[str, int]:
    return place[0] or "", place[1]


def _lock_ms(exchange: Exchange) -> int | None:
    return (exchange.answered or {}).get("acquisitionLockTimeoutMs") or None


def _partitions(tree: Tree | None, field: str) -> dict[Place, Tree]:
    """The rows of a share message by partition; of one that is listed twice the last word counts."""
    return {
        (topic["topicId"], partition["partitionIndex"]): partition
        for topic in (tree or {}).get(field) or ()
        for partition in topic["partitions"] or ()
    }


def _stated(exchange: Exchange) -> Iterator[tuple[Place, Tree, Tree]]:
    """What a state RPC asks and tells about each share partition for which it went well."""
    told = {
        (topic["topicId"], row["partition"]): row
        for topic in (exchange.answered or {}).get("results") or ()
        for row in topic["partitions"] or ()
    }
    for place, partition in _asked_by_brokers(exchange):
        row = told.get(place)
        if row is not None and not row["errorCode"]:
            yield place, partition, row


def _asked_by_brokers(exchange: Exchange) -> Iterator[tuple[Place, Tree]]:
    """What a state RPC asks for; anybody may send one, but only a broker's tell what it knows, or makes it forget."""
    if not str(exchange.row["client_id"] or "").startswith(_PERSISTER):
        return
    for topic in exchange.asked.get("topics") or ():
        for partition in topic["partitions"] or ():
            yield (topic["topicId"], partition["partition"]), partition


def _batches(tree: Tree) -> Runs:
    return tuple(
        (batch["firstOffset"], batch["lastOffset"], batch["deliveryCount"], batch["deliveryState"])
        for batch in tree.get("stateBatches") or ()
    )
