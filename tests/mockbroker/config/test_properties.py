"""Java's syntax of .properties files."""

from __future__ import annotations

from mockbroker.config.properties import parse_properties


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# a comment\n! another\n\n  a = 1\nb:2\nc 3\r\nd=x\\\n    y\\\\\ne\\ f\\=g=h\\u0041\\t\\q\nempty\na=4\n"

    assert parse_properties(text) == {
        "a": "4", "b": "2", "c": "3", "d": "xy\\", "e f=g": "hA\tq", "empty": "",
    }  # fmt: skip
