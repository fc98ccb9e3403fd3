"""Conformance notes about small captures, as rows of the table of breaches: the rules of `kwire conformance`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from kwire.capture.rows.columns import arrow_schema
from kwire.conformance import Level, Note, find_capture_notes
from kwire.spark.source.options import parse_reader_options

#: Rules that the issues of messages have, for clients and brokers.
_IN_ISSUES = frozenset({"correlation-id-in-flight", "malformed-request"})
_COLUMNS = {
    **{name: name for name in ("file", "conn_id", "client_id", "api_name", "correlation_id", "req_packet")},
    "resp_packet": "resp_packet",
    "ts": "req_ts",
}


def read_notes(files: Sequence[str], options: Mapping[str, str] | None) -> pa.Table:
    """The notes about each file, without those of level `info`. options: of the data source."""
    reader_options = parse_reader_options(options or {})
    rows = [_make_row(file, note) for file in files for note in find_capture_notes(file, reader_options)]
    kept = [row for row in rows if row is not None]
    messages = arrow_schema("messages")
    fields = [pa.field(name, messages.field(source).type) for name, source in _COLUMNS.items()]
    return pa.Table.from_pylist(
        kept, pa.schema([pa.field("rule", pa.string()), *fields, pa.field("detail", pa.string())])
    )


def _make_row(file: str, note: Note) -> dict[str, object] | None:
    if note.level is Level.INFO or note.rule in _IN_ISSUES:
        return None
    return {
        "rule": note.rule,
        "file": file,
        "conn_id": str(note.connection),
        "client_id": note.client_id,
        "req_packet": note.packets[-1] if note.packets else None,
        "ts": note.at_ns // 1000,
        "detail": note.text,
    }
