"""The fields of display filters on each level: names, columns, and kinds of operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import NamedTuple, cast

from kwire.capture.rows.column import Column, ColumnKind
from kwire.capture.rows.columns import level_columns

Row = Mapping[str, object]
Values = Callable[[Row], Sequence[object]]

#: Pseudo column with the topic names of a message, which the caller adds to the rows of `messages`.
TOPICS = "topics"


class FieldKind(Enum):
    """The kind of a field; the values are used in error messages."""

    TEXT = "text"
    API = "an API, by name or number"
    ERROR = "an error, by name or number"
    STATUS = "a status"
    NUMBER = "a number"
    DURATION = "a duration"
    SIZE = "a size in bytes"
    TIME = "a time"
    BOOL = "true or false"


class FilterField(NamedTuple):
    """One field. A row may have no value, one value, or several (as the topics of a message).

    `texts` returns the values for text and patterns, `numbers` those for numbers. `unit` is the unit of the column in
    nanoseconds, for durations.
    """

    name: str
    kind: FieldKind
    columns: tuple[str, ...]
    texts: Values
    numbers: Values
    unit: int = 1


#: Field by its name in Wireshark and tcpdump.
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
_PACKETS = ("req_packet", "resp_packet")
_UNITS = {"_ns": 1, "_us": 1_000, "_ms": 1_000_000}


@cache
def filter_fields(level: str) -> Mapping[str, FilterField]:
    """Every field of a level by name, short names first.

    Raises: ValueError for an unknown level.
    """
    columns = {column.name: column for column in level_columns(level)}
    fields = compound_fields(level)
    for column in columns.values():
        if column.short and column.short not in {*columns, *fields}:
            fields[column.short] = _column_field(column, column.short)
    fields.update((name, _column_field(column, name)) for name, column in columns.items() if name not in fields)
    return fields


def compound_fields(level: str) -> dict[str, FilterField]:
    """The fields of a level that are more than one column."""
    columns = {column.name for column in level_columns(level)}
    fields: dict[str, FilterField] = {}
    if "api_name" in columns:
        fields["api"] = _name_or_number("api", FieldKind.API, "api_name", "api_key")
    if "error_code" in columns:
        fields["error"] = _name_or_number("error", FieldKind.ERROR, "error_name", "error_code")
    if "conn_id" in columns:
        fields["conn"] = FilterField("conn", FieldKind.TEXT, ("conn_id",), _connection_texts, _no_values)
    if level == "messages":
        fields["topic"] = FilterField("topic", FieldKind.TEXT, (TOPICS,), _list_values(TOPICS), _no_values)
    times = tuple(name for name in _TIMES if name in columns)
    if times:
        # A response without a captured request has only its own time.
        time_columns = (*times, "resp_ts") if "resp_ts" in columns else times
        fields["time"] = FilterField("time", FieldKind.TIME, time_columns, _no_values, _first_value(time_columns))
    if "req_packet" in columns:
        fields["packet"] = FilterField("packet", FieldKind.NUMBER, _PACKETS, _no_values, _packet_numbers)
    if "issues" in columns:
        fields["issue"] = FilterField("issue", FieldKind.TEXT, ("issues",), _issue_kinds, _no_values)
    return fields


def _column_field(column: Column, name: str) -> FilterField:
    """The field of one column, by its kind."""
    source, values = (column.name,), _column_value(column.name)
    if column.name == "api_name":
        return _name_or_number(name, FieldKind.API, "api_name", "api_key")
    if column.name in {"error_name", "error_code"}:
        return _name_or_number(name, FieldKind.ERROR, "error_name", "error_code")
    texts = {
        ColumnKind.STRING: values,
        ColumnKind.ISSUES: _issue_kinds,
        ColumnKind.HEADERS: _header_keys,
        ColumnKind.BINARY: _decoded_bytes(column.name),
    }.get(column.kind)
    if texts is not None:
        text_kind = FieldKind.STATUS if column.name == "status" else FieldKind.TEXT
        return FilterField(name, text_kind, source, texts, _no_values)
    unit = _UNITS.get(column.name[-3:])
    kind = {ColumnKind.TIME: FieldKind.TIME, ColumnKind.BOOL: FieldKind.BOOL}.get(column.kind)
    if kind is None and unit is not None:
        return FilterField(name, FieldKind.DURATION, source, _no_values, values, unit)
    is_size = "bytes" in column.name or column.name.endswith("size")
    return FilterField(name, kind or (FieldKind.SIZE if is_size else FieldKind.NUMBER), source, _no_values, values)


def _name_or_number(name: str, kind: FieldKind, text: str, number: str) -> FilterField:
    return FilterField(name, kind, (text, number), _column_value(text), _column_value(number))


def _no_values(row: Row) -> Sequence[object]:
    return ()


def _column_value(column: str) -> Values:
    def values(row: Row) -> Sequence[object]:
        """The value of the column, if it is not null."""
        value = row[column]
        return () if value is None else (value,)

    return values


def _list_values(column: str) -> Values:
    return lambda row: cast("Sequence[object]", row[column] or ())


def _decoded_bytes(column: str) -> Values:
    def values(row: Row) -> Sequence[object]:
        """Bytes as text, in the form of the table."""
        value = row[column]
        return (value.decode("utf-8", "backslashreplace"),) if isinstance(value, bytes) else ()

    return values


def _first_value(columns: Sequence[str]) -> Values:
    """The first of the columns that is not null."""
    return lambda row: next(((row[name],) for name in columns if row[name] is not None), ())


def _packet_numbers(row: Row) -> Sequence[object]:
    return [row[name] for name in _PACKETS if row[name] is not None]


def _issue_kinds(row: Row) -> Sequence[object]:
    return [issue["kind"] for issue in cast("Sequence[Mapping[str, object]]", row["issues"] or ())]


def _header_keys(row: Row) -> Sequence[object]:
    return [header["key"] for header in cast("Sequence[Mapping[str, object]]", row["headers"] or ())]


def _connection_texts(row: Row) -> Sequence[object]:
    """The id of a connection, its two endpoints, and their addresses without port."""
    conn_id = row["conn_id"]
    if not isinstance(conn_id, str):
        return ()
    ends = conn_id.split(">")
    return (conn_id, *ends, *(end.rpartition(":")[0].strip("[]") for end in ends))
