"""The cells of the tables of ``kwire decode``: their texts and styles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.model import Row
from kwire.capture.rows.column import Column as Source
from kwire.capture.rows.column import ColumnKind, Trait
from kwire.capture.rows.columns import level_columns
from kwire.capture.rows.exchange_summary import CELL_MAX, summarize_exchange
from kwire.capture.rows.json_lines import format_timestamp
from kwire.capture.rows.message_rows import OK, UNDECODABLE
from kwire.capture.rows.reorder_buffer import TableLine
from kwire.cli.table import Cell, Column
from kwire.escape import escape

_NUMBERS = frozenset({ColumnKind.INT16, ColumnKind.INT32, ColumnKind.INT64})
# Responses that wait for other members by design.
_WAIT_FOR_OTHERS = frozenset({"JoinGroup", "SyncGroup"})
_EMPTY_CELL = Cell("")
_ACK_STYLES = {"release": "warn", "reject": "bad", "gap": "dim"}


def time_text(row: Row) -> str:
    """The time of day of a row."""
    ts = row["req_ts"] if row["req_ts"] is not None else row["resp_ts"]
    return format_timestamp(ts)[11:-1] if isinstance(ts, int) else ""


def time_cell(row: Row) -> Cell:
    """The time of the request; its short text has milliseconds."""
    text = time_text(row)
    return Cell(text, "dim", text[:12])


def connection_cell(row: Row) -> Cell:
    """Client and broker; the short text has only the ports."""
    return _connection_cell(str(row["conn_id"] or ""))


@lru_cache(maxsize=4096)
def _connection_cell(text: str) -> Cell:
    return Cell(text, "", ">".join(":" + end.rpartition(":")[2] for end in text.split(">")) if text else "")


def api_text(row: Row) -> str:
    """The API and its version."""
    if row["api_name"] is None:
        return "" if row["api_key"] is None else f"API {row['api_key']} v{row['api_version']}"
    return str(row["api_name"]) + ("" if row["api_version"] is None else f" v{row['api_version']}")


def api_cell(row: Row) -> Cell:
    """The API and its version; the short text has no version."""
    return Cell(api_text(row), "name", str(row["api_name"] or ""))


def latency_text(row: Row) -> str:
    """The latency in milliseconds."""
    latency_us = row["latency_us"]
    return f"{latency_us / 1000:.3f} ms" if isinstance(latency_us, int) else ""


def latency_cell(row: Row, outcome: Outcome, slow_us: int) -> Cell:
    """The latency; it is slow if it exceeds the requested maximum wait time by more than `slow_us`."""
    text, latency_us = latency_text(row), row["latency_us"]
    request = outcome.request if isinstance(outcome, Exchange) else None
    max_wait_ms = getattr(request.body, "max_wait_ms", 0) if request is not None else 0
    measured_us = latency_us if isinstance(latency_us, int) else None
    return _latency_cell(text, measured_us, str(row["api_name"]), max_wait_ms, slow_us)


def _latency_cell(text: str, latency_us: int | None, name: str, max_wait_ms: int, slow_us: int) -> Cell:
    if latency_us is None or name in _WAIT_FOR_OTHERS:
        return Cell(text)
    excess_us = latency_us - max(max_wait_ms, 0) * 1000
    style = "" if excess_us < slow_us else ("slow" if excess_us < 10 * slow_us else "bad")
    short = f"{latency_us / 1000:.1f}ms" if latency_us < 10_000_000 else f"{latency_us / 1e6:.0f}s"
    return Cell(text, style, short)


def result_text(row: Row) -> str:
    """The status; for complete exchanges the error."""
    if row["status"] != OK:
        return str(row["status"])
    return str(row["error_name"]) if row["error_code"] else OK


def result_style(row: Row) -> str:
    """Errors and undecodable exchanges in red, incomplete ones as a warning, the others dimmed."""
    if row["status"] != OK:
        return "bad" if row["status"] == UNDECODABLE else "warn"
    return "bad" if row["error_code"] else "dim"


def result_cell(row: Row) -> Cell:
    """The status or error."""
    return Cell(result_text(row), result_style(row))


def summary_cell(outcome: Outcome, row: Row, names: TopicNames) -> Cell:
    """A summary of the exchange, and its issues."""
    text = summarize_exchange(outcome, names) if isinstance(outcome, Exchange) else ""
    issues = row["issues"]
    assert isinstance(issues, list)
    summary = "  ".join(filter(None, [text, *(f"! {issue_text(issue)}" for issue in issues)]))
    return Cell(summary, "warn" if issues else "")


def line_cells(line: TableLine, slow_us: int) -> list[Cell]:
    """The cells of an exchange without issues, as the other functions build them."""
    name = line.api.rpartition(" v")[0]
    return [
        Cell(line.time, "dim", line.time[:12]),
        _connection_cell(line.connection),
        Cell(line.api, "name", name),
        _latency_cell(line.latency, line.latency_us, name, line.max_wait_ms, slow_us),
        Cell(line.result, "dim" if line.result == OK else "bad"),
        Cell(line.summary),
    ]


def issue_text(issue: dict[str, object]) -> str:
    """An issue on one line, not escaped."""
    position = "" if issue["at"] is None else f" at byte {issue['at']}"
    path = f"{issue['path']}: " if issue["path"] else ""
    return f"{issue['side']} {issue['kind']}{position}: {path}{issue['detail']}"


def shown_columns(level: str, names: Sequence[str]) -> list[Source]:
    """The columns of a table: the named ones, or those not hidden by default, the time first."""
    columns = {column.name: column for column in level_columns(level)}
    if names:
        return [columns[name] for name in names]
    shown = [column for column in columns.values() if Trait.HIDDEN not in column.traits]
    leading = [column for column in shown if Trait.LEADING in column.traits]
    leading.sort(key=lambda column: column.kind is not ColumnKind.TIME)
    return list(dict.fromkeys([*leading, *shown]))


def table_column(column: Source) -> Column:
    """The layout of a column, under its short name in filters: times and numbers keep their width."""
    head = column.title.upper()
    if column.kind in _NUMBERS:
        return Column(head, is_right=True, bare=3)
    if column.kind is ColumnKind.TIME:
        return Column(head, short=1)
    if column.name == "conn_id":
        return Column(head, short=0)
    if column.name == "member_id":
        # Ids are long, and their first characters identify a member.
        return Column(head, shrinks=((2, 9), (5, 6)))
    return Column(head, bare=3, shrinks=((4, 12), (6, 8)))


def make_cell_builder(column: Source) -> Callable[[Row], Cell]:
    """A function that builds the cells of a column; plain numbers have a fast path."""
    name = column.name
    if column.kind not in _NUMBERS or name == "delivery_count" or Trait.WARNING in column.traits:
        return partial(value_cell, column)

    def number(row: Row) -> Cell:
        """A plain number."""
        value = row[name]
        return _EMPTY_CELL if value is None else Cell(str(value))

    return number


def value_cell(column: Source, row: Row) -> Cell:
    """A column of a row, escaped."""
    value = row[column.name]
    if value is None:
        return _EMPTY_CELL
    if column.kind is ColumnKind.TIME and isinstance(value, int):
        # A record's timestamp may be of any day: the full text has the date, the short one the time.
        text = format_timestamp(value)
        return Cell(text, "dim", text[11:23])
    if column.name == "conn_id":
        return connection_cell(row)
    if column.kind is ColumnKind.BINARY and isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
    elif column.kind is ColumnKind.HEADERS and isinstance(value, list):
        text = " ".join(f"{header['key']}({header['value_size']})" for header in value)
    elif column.kind is ColumnKind.ISSUES and isinstance(value, list):
        text = "  ".join(map(issue_text, value))
    else:
        text = str(value)
    return Cell(escape(text, limit=CELL_MAX), _style_of(column, value))


def _style_of(column: Source, value: object) -> str:
    name = column.name
    if name == "error_name":
        return "dim" if value == "NONE" else "bad"
    if name == "ack_name":
        return _ACK_STYLES.get(str(value), "")
    if name == "delivery_count":
        return "warn" if isinstance(value, int) and value > 1 else ""
    if value and Trait.WARNING in column.traits:
        return "warn"
    return "name" if name == "api_name" else ""
