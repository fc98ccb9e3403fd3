"""The views of ``kwire decode``: every outcome becomes lines of text, escaped for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Protocol

from kwire.capture.bodies import Message, Request
from kwire.capture.exchange import Exchange, Outcome
from kwire.capture.options import Options
from kwire.capture.pipeline import row_maker
from kwire.capture.rows import MessageRows, Row, conn_id
from kwire.capture.schemas import Kind, columns
from kwire.capture.summary import session_text, summarize
from kwire.capture.text import instant, json_line
from kwire.capture.topic_names import TopicNames
from kwire.cli.decode_filter import Filter
from kwire.errors import UnsupportedVersion
from kwire.escape import escape
from kwire.layout import describe_request, describe_response, render_tree

# So many rows are read before the widths of the columns are settled; wider cells later push their line to the right.
_ROWS_MEASURED = 500
_CELL_MAX = 400
# Columns that a table leaves out: the same in all rows, or numbers that stand beside their name.
_NOT_IN_TABLES = frozenset({"file", "stream_epoch", "api_key", "error_code", "ack_type", "correlation_id", "topic_id"})

Maker = Callable[[Outcome], list[str]]
_SEPARATOR = "\x1f"


class View(Protocol):
    """One way to show outcomes."""

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """What turns an outcome of a file into lines."""

    def laid_out(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines as they are printed."""


class JsonLines:
    """One JSON object for each row."""

    def __init__(self, level: str) -> None:
        self._level = level

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """Rows of the level."""
        make = row_maker(self._level, file, options)
        return lambda outcome: [json_line(row, self._level) for row in make(outcome) if chosen.passes(outcome)]

    def laid_out(self, lines: Iterable[str]) -> Iterator[str]:
        """As they are."""
        return iter(lines)


class _Cells:
    """Lines of cells, aligned in columns under a head."""

    head: tuple[str, ...]

    def laid_out(self, lines: Iterable[str]) -> Iterator[str]:
        """The head, then every line with its cells under it."""
        cells = (line.split(_SEPARATOR) for line in lines)
        first = list(islice(cells, _ROWS_MEASURED))
        if not first:
            return
        widths = [max(map(len, column)) for column in zip(self.head, *first, strict=True)]
        for row in chain([list(self.head)], first, cells):
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


class Table(_Cells):
    """One line for each message: time, connection, API, latency, outcome, and what it was about."""

    head = ("TIME", "CONNECTION", "API", "LATENCY", "RESULT", "SUMMARY")

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """A line of the table."""
        names = TopicNames(options.topics)
        messages = MessageRows(file, replace(options, bodies=False), names)

        def make(outcome: Outcome) -> list[str]:
            """The line of one outcome, if it is chosen."""
            row = messages.rows(outcome)[0]
            if not chosen.passes(outcome):
                return []
            cells = [_time(row), str(row["conn_id"] or ""), _api(row), _latency(row), _result(row)]
            cells.append(_about(outcome, row, names))
            return [_SEPARATOR.join(escape(cell, limit=_CELL_MAX) for cell in cells)]

        return make


class LevelTable(_Cells):
    """The rows of a lower level, one line each."""

    def __init__(self, level: str) -> None:
        self._level = level
        self._columns = [column for column in columns(level) if column.name not in _NOT_IN_TABLES]
        self.head = tuple(column.name.upper() for column in self._columns)

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """A line of the table."""
        make = row_maker(self._level, file, options)
        # Every outcome must be made, since any may tell a topic's name.
        return lambda outcome: [self._line(row) for row in make(outcome) if chosen.passes(outcome)]

    def _line(self, row: Row) -> str:
        cells: list[str] = []
        for column in self._columns:
            value = row[column.name]
            if value is None:
                cells.append("")
            elif column.kind is Kind.TIME and isinstance(value, int):
                cells.append(instant(value))
            elif column.kind is Kind.BINARY and isinstance(value, bytes):
                cells.append(value.decode("utf-8", "backslashreplace"))
            elif column.kind is Kind.HEADERS and isinstance(value, list):
                cells.append(" ".join(f"{each['key']}({each['value_size']})" for each in value))
            else:
                cells.append(str(value))
        return _SEPARATOR.join(escape(cell, limit=_CELL_MAX) for cell in cells)


class Trees:
    """Every frame with the byte range of each field."""

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """A head line, the issues, and the trees of request and response."""
        names = TopicNames(options.topics)
        messages = MessageRows(file, replace(options, bodies=False), names)

        def make(outcome: Outcome) -> list[str]:
            """The lines of one outcome, if it is chosen."""
            row = messages.rows(outcome)[0]
            if not chosen.passes(outcome):
                return []
            lines = [" ".join(filter(None, (_time(row), _connection(outcome), _api(row), _latency(row), _result(row))))]
            issues = row["issues"]
            assert isinstance(issues, list)
            if isinstance(outcome, Exchange):
                lines += [f"  {part}" for part in session_text(outcome, names)]
            lines += [f"  ! {_issue(issue)}" for issue in issues]
            lines = [escape(line) for line in lines]
            if isinstance(outcome, Exchange):
                lines += _frame_lines("request", outcome.request, outcome.request, options)
                lines += _frame_lines("response", outcome.response, outcome.request, options)
            return [*lines, ""]

        return make

    def laid_out(self, lines: Iterable[str]) -> Iterator[str]:
        """As they are."""
        return iter(lines)


def _frame_lines(side: str, message: Message | None, request: Request | None, options: Options) -> list[str]:
    if message is None:
        return []
    frame = message.frame
    lines = [f"  {side}: {frame.size} bytes behind the length field, at byte {frame.offset} of its stream"]
    if request is None or request.is_token or request.api_key is None:
        # Nobody knows what it is: it may be a token, or a response full of secrets.
        return [*lines, f"    {frame.data[:64].hex(' ') if options.show_secrets else '***'}"]
    try:
        if message is request:
            tree = describe_request(frame.data, edition=options.edition)
        else:
            tree = describe_response(frame.data, request.api_key, message.version, edition=options.edition)
    except UnsupportedVersion as error:
        return [*lines, f"    {escape(str(error))}"]
    text = render_tree(tree, show_secrets=options.show_secrets, payload=options.payload)
    return [*lines, *(f"    {line}" for line in text.splitlines())]


def _time(row: Row) -> str:
    ts = row["req_ts"] if row["req_ts"] is not None else row["resp_ts"]
    return instant(ts)[11:-1] if isinstance(ts, int) else ""


def _connection(outcome: Outcome) -> str:
    flow = getattr(outcome, "flow", None)
    return "" if flow is None else conn_id(flow)


def _api(row: Row) -> str:
    if row["api_name"] is None:
        return "" if row["api_key"] is None else f"API {row['api_key']} v{row['api_version']}"
    return str(row["api_name"]) + ("" if row["api_version"] is None else f" v{row['api_version']}")


def _latency(row: Row) -> str:
    latency = row["latency_us"]
    return f"{latency / 1000:.3f} ms" if isinstance(latency, int) else ""


def _result(row: Row) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    return str(row["error_name"]) if row["error_code"] else "ok"


def _about(outcome: Outcome, row: Row, names: TopicNames) -> str:
    text = summarize(outcome, names) if isinstance(outcome, Exchange) else ""
    issues = row["issues"]
    assert isinstance(issues, list)
    return "  ".join(filter(None, [text, *(f"! {_issue(issue)}" for issue in issues)]))


def _issue(issue: dict[str, object]) -> str:
    where = "" if issue["at"] is None else f" at byte {issue['at']}"
    path = f"{issue['path']}: " if issue["path"] else ""
    return f"{issue['side']} {issue['kind']}{where}: {path}{issue['detail']}"
