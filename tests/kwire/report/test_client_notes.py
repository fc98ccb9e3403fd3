"""Conformance notes as rows of a report."""

from __future__ import annotations

from kwire.capture.rows.columns import arrow_schema
from kwire.conformance import Level, find_capture_notes
from kwire.report.client_notes import read_notes
from tests.support.captures.capture_files import CAPTURES

PATH = str(CAPTURES / "kafka_play.pcap")


def test_the_notes_of_a_capture_are_rows_of_breaches() -> None:
    rows = read_notes([PATH], None).to_pylist()
    notes = [note for note in find_capture_notes(PATH) if note.level is not Level.INFO]

    assert len(rows) == len(notes) == 14
    assert [(row["rule"], row["detail"], row["req_packet"]) for row in rows] == [
        (note.rule, note.text, note.packets[-1]) for note in notes
    ]
    assert {row["file"] for row in rows} == {PATH}


def test_a_capture_without_notes_gives_a_table_without_rows() -> None:
    table = read_notes([str(CAPTURES / "small_ck.pcap")], {"ports": "21092"})

    assert table.num_rows == 0
    assert table.schema.field("ts").type == arrow_schema("messages").field("req_ts").type
    assert table.schema.names[0] == "rule"
    assert table.schema.names[-1] == "detail"
