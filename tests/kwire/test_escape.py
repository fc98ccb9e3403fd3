"""Escaped text cannot affect a terminal, and different texts stay different."""

from __future__ import annotations

import json
import sys

import pytest

from kwire.escape import escape, one_line, printable_lines, safe_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, quotes \"' and käse 日本", "plain text, quotes \"' and käse 日本"),
        ("\x1b[2J\r\n\t\x00\x7f\x9b", "\\x1b[2J\\r\\n\\t\\x00\\x7f\\x9b"),
        ("a\u202eb\u200bc\ufeff", "a\\u202eb\\u200bc\\ufeff"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\ud800\ue000\U0010ffff\U000e0041", "\\ud800\\ue000\\U0010ffff\\U000e0041"),
        ("\\x1b", "\\\\x1b"),
    ],
)
def test_unsafe_characters_are_escaped(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_different_texts_are_escaped_differently() -> None:
    every = [chr(code) for code in range(0x3000)] + ["\\x1b", "\\\\", "\\u202e", "\\n"]

    assert len({escape(text) for text in every}) == len(every)


def test_every_character_becomes_printable() -> None:
    for start in range(0, sys.maxunicode, 0x1000):
        assert escape("".join(map(chr, range(start, start + 0x1000)))).isprintable()


def test_a_long_text_is_truncated_before_it_is_escaped() -> None:
    assert escape("\x1b" * 5, limit=2) == "\\x1b\\x1b... (3 more characters)"
    assert escape("ab", limit=2) == "ab"


def test_one_line_keeps_backslashes_and_removes_line_breaks() -> None:
    assert one_line("a\\x1b\nb") == "a\\x1b\\nb"


def test_safe_json_is_valid_json_and_keeps_printable_characters() -> None:
    tree = {"käse": ["日本", "\x1b\x7f\x9b\u202e\u2028\U000e0041\ud800", '"\\'], "n": 1}

    text = safe_json(tree, indent=2)

    assert json.loads(text) == tree
    assert "käse" in text
    assert "日本" in text
    assert all(line.isprintable() for line in text.split("\n"))


def test_lines_are_kept_and_each_is_printable() -> None:
    assert printable_lines("a\n\tb\x1b[2J\r\n\u2028c") == "a\n    b\\x1b[2J\\r\n\\u2028c"
