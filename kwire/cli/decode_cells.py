"""The cells of the tables of ``kwire decode``: what they say, and what stands out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from kwire.capture.exchange import Exchange, Outcome
from kwire.capture.rows import OK, UNDECODABLE, Row
from kwire.capture.schemas import Column as Source
from kwire.capture.schemas import Kind, columns
from kwire.capture.summary import summarize
from kwire.capture.text import instant
from kwire.capture.topic_names import TopicNames
from kwire.capture.where.fields import SHORT
from kwire.cli.grid import Cell, Column
from kwire.escape import escape

CELL_MAX = 400

# Columns that a table leaves out: the same in all rows, or numbers that stand beside their name.
_NOT_IN_TABLES = frozenset(
    {
        "file",
        "stream_epoch",
        "api_key",
        "api_version",
        "header_version",
        "error_code",
        "ack_type",
        "correlation_id",
        "topic_id",
        "req_packet",
        "resp_packet",
        "link",
        "timestamp_type",
        # They are in `conn_id`.
        "client_ip",
        "client_port",
        "broker_ip",
        "broker_port",
    }
)
# Of all rows of their level the same: only ShareFetch acquires.
_CONSTANT = frozenset({("share_acquired", "api_name")})
# What a reader looks for first.
_FIRST = ("ts", "first_ts", "number")
_NUMBERS = frozenset({Kind.INT16, Kind.INT32, Kind.INT64})
_HEADS = {
    **{column: short for short, column in SHORT.items()},
    "conn_id": "conn",
    "api_name": "api",
    "error_name": "error",
    "ts": "time",
    "first_ts": "time",
    # Whoever reads a bare number must know its unit.
    "latency_us": "latency_us",
    "transfer_us": "transfer_us",
    "throttle_ms": "throttle_ms",
    "lock_timeout_ms": "lock_timeout_ms",
    "rtt_us": "rtt_us",
}
# The broker is free to answer these when others act.
_WAIT_FOR_OTHERS = frozenset({"JoinGroup", "SyncGroup"})
_COUNTED = ("retransmits", "lost_bytes", "zero_windows")
_NOTHING = Cell("")
_ACKS = {"release": "warn", "reject": "bad", "gap": "dim"}


def time_text(row: Row) -> str:
    """The time of day of a row."""
    ts = row["req_ts"] if row["req_ts"] is not None else row["resp_ts"]
    return instant(ts)[11:-1] if isinstance(ts, int) else ""


def time_of_day(row: Row) -> Cell:
    """The time of the request; to the millisecond where room is scarce."""
    text = time_text(row)
    return Cell(text, "dim", text[:12])


def connection(row: Row) -> Cell:
    """Client and broker; their ports where room is scarce."""
    return _connection(str(row["conn_id"] or ""))


@lru_cache(maxsize=4096)
def _connection(text: str) -> Cell:
    return Cell(text, "", ">".join(":" + end.rpartition(":")[2] for end in text.split(">")) if text else "")


def api_text(row: Row) -> str:
    """The API and its version."""
    if row["api_name"] is None:
        return "" if row["api_key"] is None else f"API {row['api_key']} v{row['api_version']}"
    return str(row["api_name"]) + ("" if row["api_version"] is None else f" v{row['api_version']}")


def api(row: Row) -> Cell:
    """The API and its version; without the version where room is scarce."""
    return Cell(api_text(row), "name", str(row["api_name"] or ""))


def latency_text(row: Row) -> str:
    """The latency in milliseconds."""
    latency_us = row["latency_us"]
    return f"{latency_us / 1000:.3f} ms" if isinstance(latency_us, int) else ""


def latency(row: Row, outcome: Outcome, slow_us: int) -> Cell:
    """The latency; slow is what took longer than it was asked to wait, and that by much."""
    text, latency_us = latency_text(row), row["latency_us"]
    if not isinstance(latency_us, int) or row["api_name"] in _WAIT_FOR_OTHERS:
        return Cell(text)
    request = outcome.request if isinstance(outcome, Exchange) else None
    allowed_ms = getattr(request.body, "max_wait_ms", 0) if request is not None else 0
    own_us = latency_us - max(allowed_ms, 0) * 1000
    style = "" if own_us < slow_us else ("slow" if own_us < 10 * slow_us else "bad")
    short = f"{latency_us / 1000:.1f}ms" if latency_us < 10_000_000 else f"{latency_us / 1e6:.0f}s"
    return Cell(text, style, short)


def result_text(row: Row) -> str:
    """The status, or the error of what is whole."""
    if row["status"] != OK:
        return str(row["status"])
    return str(row["error_name"]) if row["error_code"] else OK


def result_style(row: Row) -> str:
    """Errors and what cannot be read stand out, what is cut off is marked, and what is good stays back."""
    if row["status"] != OK:
        return "bad" if row["status"] == UNDECODABLE else "warn"
    return "bad" if row["error_code"] else "dim"


def result(row: Row) -> Cell:
    """How it ended."""
    return Cell(result_text(row), result_style(row))


def about(outcome: Outcome, row: Row, names: TopicNames) -> Cell:
    """What it was about, and what is odd about it."""
    text = summarize(outcome, names) if isinstance(outcome, Exchange) else ""
    issues = row["issues"]
    assert isinstance(issues, list)
    whole = "  ".join(filter(None, [text, *(f"! {issue_text(issue)}" for issue in issues)]))
    return Cell(whole, "warn" if issues else "")


def issue_text(issue: dict[str, object]) -> str:
    """An issue on one line. Not escaped yet."""
    where = "" if issue["at"] is None else f" at byte {issue['at']}"
    path = f"{issue['path']}: " if issue["path"] else ""
    return f"{issue['side']} {issue['kind']}{where}: {path}{issue['detail']}"


def shown_columns(level: str, names: Sequence[str]) -> list[Source]:
    """The columns of a table: those named, or those that matter to a reader, the time first."""
    there = {column.name: column for column in columns(level)}
    if names:
        return [there[name] for name in names]
    chosen = [column for name, column in there.items() if name not in _NOT_IN_TABLES and (level, name) not in _CONSTANT]
    return sorted(chosen, key=lambda column: _FIRST.index(column.name) if column.name in _FIRST else len(_FIRST))


def grid_column(column: Source) -> Column:
    """How a table lays it out, under the short name that filters know: times and numbers keep their width."""
    head = _HEADS.get(column.name, column.name).upper()
    if column.kind in _NUMBERS:
        return Column(head, is_right=True, bare=3)
    if column.kind is Kind.TIME:
        return Column(head, short=1)
    if column.name == "conn_id":
        return Column(head, short=0)
    if column.name == "member_id":
        # Ids are long, and nobody reads them to their end.
        return Column(head, gives=((2, 9), (5, 6)))
    return Column(head, bare=3, gives=((4, 12), (6, 8)))


def cell_maker(column: Source) -> Callable[[Row], Cell]:
    """What makes the cells of a column: most are numbers, of which little is to be said."""
    name = column.name
    if column.kind not in _NUMBERS or name == "delivery_count" or name.startswith(_COUNTED):
        return partial(value_cell, column)

    def number(row: Row) -> Cell:
        """A plain number."""
        value = row[name]
        return _NOTHING if value is None else Cell(str(value))

    return number


def value_cell(column: Source, row: Row) -> Cell:
    """A column of a row, escaped."""
    value = row[column.name]
    if value is None:
        return _NOTHING
    if column.kind is Kind.TIME and isinstance(value, int):
        # The record's own time may be of any day, what was captured is of one.
        text = instant(value)
        return Cell(text, "dim", text[11:23])
    if column.name == "conn_id":
        return connection(row)
    if column.kind is Kind.BINARY and isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
    elif column.kind is Kind.HEADERS and isinstance(value, list):
        text = " ".join(f"{each['key']}({each['value_size']})" for each in value)
    elif column.kind is Kind.ISSUES and isinstance(value, list):
        text = "  ".join(map(issue_text, value))
    else:
        text = str(value)
    return Cell(escape(text, limit=CELL_MAX), _style_of(column.name, value))


def _style_of(name: str, value: object) -> str:
    if name == "error_name":
        return "dim" if value == "NONE" else "bad"
    if name == "ack_name":
        return _ACKS.get(str(value), "")
    if name == "delivery_count":
        return "warn" if isinstance(value, int) and value > 1 else ""
    if name in {"issue", "oddity", "issues"}:
        return "warn"
    if value and name.startswith(_COUNTED):
        return "warn"
    return "name" if name == "api_name" else ""
