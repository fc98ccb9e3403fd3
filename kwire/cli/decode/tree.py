"""The tree view of frames: every field with its byte range, from the codec's own description."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.kafka.message_decoder import Message, Request
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.model import Row, connection_id
from kwire.capture.options import Options
from kwire.capture.rows.exchange_summary import format_session
from kwire.cli.decode.cells import api_text, issue_text, latency_cell, result_style, result_text, time_text
from kwire.cli.table import Cell, Line
from kwire.cli.terminal import Screen
from kwire.errors import UnsupportedVersion
from kwire.escape import escape
from kwire.layout import describe_request, describe_response, render_tree

_UNKNOWN_SHOWN = 64
# A line of `render_tree`: bytes, name, type, value, note.
_FIELD = re.compile(
    r"(?P<place>\s*\d+-\d+\s+)(?P<name>[^:=(]+)(?P<type>: [^=(]*)?(?P<value>[=(].*?)?(?P<note>   ! .*)?"
)


def tree_lines(outcome: Outcome, row: Row, names: TopicNames, options: Options, screen: Screen) -> Iterator[Line]:
    """A header line, the issues, the fetch session, the trees of request and response, and an empty line."""
    flow = getattr(outcome, "flow", None)
    parts = [
        Cell(time_text(row), "dim"),
        Cell("" if flow is None else connection_id(flow)),
        Cell(api_text(row), "head"),
        latency_cell(row, outcome, screen.slow_us),
        Cell(result_text(row), result_style(row)),
    ]
    head: list[Cell] = []
    for cell in parts:
        if cell.text:
            head += [Cell(" ")] if head else []
            head.append(cell._replace(text=escape(cell.text)))
    yield head
    issues = row["issues"]
    assert isinstance(issues, list)
    for issue in issues:
        yield (Cell("  ! " + escape(issue_text(issue)), "warn"),)
    if isinstance(outcome, Exchange):
        for text in format_session(outcome, names):
            yield (Cell("  " + escape(text)),)
        for side, message in (("request", outcome.request), ("response", outcome.response)):
            for number, line in enumerate(_frame_lines(side, message, outcome.request, options)):
                if not screen.is_coloured:
                    yield (Cell(line),)
                else:
                    yield (Cell(line, "head"),) if number == 0 else _coloured(line)
    yield (Cell(""),)


def _frame_lines(side: str, message: Message | None, request: Request | None, options: Options) -> list[str]:
    if message is None:
        return []
    frame = message.frame
    lines = [f"  {side}: {frame.size} bytes after the length field, at byte {frame.offset} of its stream"]
    if request is None or request.is_token or request.api_key is None:
        # Unknown content: it may be a token, or a response with secrets.
        return [*lines, f"    {frame.data[:_UNKNOWN_SHOWN].hex(' ') if options.show_secrets else '***'}"]
    try:
        if message is request:
            tree = describe_request(frame.data, edition=options.edition)
        else:
            tree = describe_response(frame.data, request.api_key, message.version, edition=options.edition)
    except UnsupportedVersion as error:
        return [*lines, f"    {escape(str(error))}"]
    text = render_tree(tree, show_secrets=options.show_secrets, payload=options.payload)
    return [*lines, *(f"    {line}" for line in text.splitlines())]


def _coloured(line: str) -> Line:
    """The parts of a tree line with their styles."""
    match = _FIELD.fullmatch(line)
    if match is None or match["name"].startswith("!!"):
        return (Cell(line, "bad" if "!!" in line else ""),)
    name, value = match["name"], match["value"] or ""
    is_error = name.strip().endswith("error_code") and value != "= 0 (NONE)"
    # A line without a type is a message or a structure.
    return (
        Cell(match["place"], "dim"),
        Cell(name, "name" if match["type"] else "head"),
        Cell(match["type"] or "", "dim"),
        Cell(value, "bad" if is_error else ""),
        Cell(match["note"] or "", "warn"),
    )
