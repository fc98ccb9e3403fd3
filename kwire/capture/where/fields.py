"""What a name means on a level: which columns it reads, and what may be compared with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import NamedTuple, cast

from kwire.capture.schemas import Column, columns
from kwire.capture.schemas import Kind as ColumnKind

Row = Mapping[str, object]
Values = Callable[[Row], Sequence[object]]

#: The column that is no column: names of the topics of a message, which the caller adds to the rows of `messages`.
TOPICS = "topics"


class Kind(Enum):
    """What a field holds, as messages say it."""

    TEXT = "text"
    API = "an API, by name or number"
    ERROR = "an error, by name or number"
    STATUS = "a status"
    NUMBER = "a number"
    DURATION = "a span of time"
    SIZE = "a size in bytes"
    TIME = "a time"
    BOOL = "true or false"


class Field(NamedTuple):
    """One name. A row may have no value, one, or several (as a message has topics).

    `texts` is what patterns and text are compared with, `numbers` what numbers are; `unit` is that of the column, in
    nanoseconds, for spans of time.
    """

    name: str
    kind: Kind
    columns: tuple[str, ...]
    texts: Values
    numbers: Values
    unit: int = 1


# Short name -> the column that it stands for, on the levels that have it.
SHORT = {
    "client": "client_id",
    "group": "group_id",
    "member": "member_id",
    "user": "principal",
    "software": "software_name",
    "version": "api_version",
    "correlation": "correlation_id",
    "latency": "latency_us",
    "transfer": "transfer_us",
    "throttle": "throttle_ms",
    "lock_timeout": "lock_timeout_ms",
    "rtt": "rtt_us",
    "deliveries": "delivery_count",
    "ack": "ack_name",
}
#: What others call a field -> the field.
WIRESHARK = {
    "frame.number": "packet",
    "frame.time": "time",
    "kafka.api_key": "api",
    "kafka.api_version": "version",
    "kafka.client_id": "client",
    "kafka.consumer_group": "group",
    "kafka.correlation_id": "correlation",
    "kafka.error": "error",
    "kafka.member_id": "member",
    "kafka.offset": "offset",
    "kafka.partition_id": "partition",
    "kafka.throttle_time": "throttle",
    "kafka.topic_name": "topic",
    "frame.len": "payload_bytes",
    **dict.fromkeys(("tcp.port", "tcp.dstport", "port"), "broker_port"),
    **dict.fromkeys(("ip.addr", "ip.src", "ip.dst", "ip", "host", "addr", "tcp.stream"), "conn"),
    "tcp.srcport": "client_port",
}
_TIMES = ("req_ts", "ts", "first_ts")
_UNITS = {"_ns": 1, "_us": 1_000, "_ms": 1_000_000}


@cache
def fields(level: str) -> Mapping[str, Field]:
    """Every name of a level, short ones first.

    Raises: ValueError for an unknown level.
    """
    there = {column.name: column for column in columns(level)}
    found: dict[str, Field] = {}
    if "api_name" in there:
        found["api"] = _paired("api", Kind.API, "api_name", "api_key")
    if "error_code" in there:
        found["error"] = _paired("error", Kind.ERROR, "error_name", "error_code")
    if "conn_id" in there:
        found["conn"] = Field("conn", Kind.TEXT, ("conn_id",), _ends, _nothing)
    if level == "messages":
        found["topic"] = Field("topic", Kind.TEXT, (TOPICS,), _several(TOPICS), _nothing)
    times = tuple(name for name in _TIMES if name in there)
    if times:
        # A response whose request was not captured has only its own time.
        both = (*times, "resp_ts") if "resp_ts" in there else times
        found["time"] = Field("time", Kind.TIME, both, _nothing, lambda row: _first(row, both))
    if "req_packet" in there:
        found["packet"] = Field("packet", Kind.NUMBER, ("req_packet", "resp_packet"), _nothing, _packets)
    if "issues" in there:
        found["issue"] = Field("issue", Kind.TEXT, ("issues",), _kinds, _nothing)
    found.update(
        (short, _of(there[name], short)) for short, name in SHORT.items() if name in there and short not in there
    )
    found.update((name, _of(column, name)) for name, column in there.items() if name not in found)
    return found


def _of(column: Column, name: str) -> Field:
    """The field of one column, by what it holds."""
    source, single = (column.name,), _single(column.name)
    if column.name == "api_name":
        return _paired(name, Kind.API, "api_name", "api_key")
    if column.name in {"error_name", "error_code"}:
        return _paired(name, Kind.ERROR, "error_name", "error_code")
    texts = {
        ColumnKind.STRING: single,
        ColumnKind.ISSUES: _kinds,
        ColumnKind.HEADERS: _headers,
        ColumnKind.BINARY: _decoded(column.name),
    }.get(column.kind)
    if texts is not None:
        return Field(name, Kind.STATUS if column.name == "status" else Kind.TEXT, source, texts, _nothing)
    unit = _UNITS.get(column.name[-3:])
    kind = {ColumnKind.TIME: Kind.TIME, ColumnKind.BOOL: Kind.BOOL}.get(column.kind)
    if kind is None and unit is not None:
        return Field(name, Kind.DURATION, source, _nothing, single, unit)
    is_size = "bytes" in column.name or column.name.endswith("size")
    return Field(name, kind or (Kind.SIZE if is_size else Kind.NUMBER), source, _nothing, single)


def _paired(name: str, kind: Kind, text: str, number: str) -> Field:
    return Field(name, kind, (text, number), _single(text), _single(number))


def _nothing(row: Row) -> Sequence[object]:
    return ()


def _single(column: str) -> Values:
    def values(row: Row) -> Sequence[object]:
        """The value, where there is one."""
        value = row[column]
        return () if value is None else (value,)

    return values


def _several(column: str) -> Values:
    return lambda row: cast("Sequence[object]", row[column] or ())


def _decoded(column: str) -> Values:
    def values(row: Row) -> Sequence[object]:
        """Bytes as the table shows them."""
        value = row[column]
        return (value.decode("utf-8", "backslashreplace"),) if isinstance(value, bytes) else ()

    return values


def _first(row: Row, names: Sequence[str]) -> Sequence[object]:
    return next(((row[name],) for name in names if row[name] is not None), ())


def _packets(row: Row) -> Sequence[object]:
    return [row[name] for name in ("req_packet", "resp_packet") if row[name] is not None]


def _kinds(row: Row) -> Sequence[object]:
    return [each["kind"] for each in cast("Sequence[Mapping[str, object]]", row["issues"] or ())]


def _headers(row: Row) -> Sequence[object]:
    return [each["key"] for each in cast("Sequence[Mapping[str, object]]", row["headers"] or ())]


def _ends(row: Row) -> Sequence[object]:
    """A connection by its whole name, by one of its ends, or by the address alone."""
    whole = row["conn_id"]
    if not isinstance(whole, str):
        return ()
    ends = whole.split(">")
    return (whole, *ends, *(end.rpartition(":")[0].strip("[]") for end in ends))
