"""Colours, the width of the terminal, and measuring and cutting of texts."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.terminal import STYLES, paint, terminal_width, text_width, truncate, use_colour
from tests.support.cli.commands import TerminalStream


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("topic-é", 7), ("日本", 4), ("e\u0301", 1), ("ﾊﾝｶｸ", 4), ("🙂", 2), ("👍\u0335", 2)],
)
def test_the_width_of_a_text_is_that_on_a_terminal(text: str, width: int) -> None:
    assert text_width(text) == width


@given(st.text("ab日é\u0301🙂"), st.integers(0, 12))
def test_a_truncated_text_fits_and_ends_with_an_ellipsis(text: str, width: int) -> None:
    shown = truncate(text, width)

    assert text_width(shown) <= width
    assert shown == text or not width or (shown.endswith("…") and text.startswith(shown[:-1]))


def test_colours_are_used_on_terminals_that_allow_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert use_colour("auto", TerminalStream())
    assert not use_colour("auto", io.StringIO())
    assert use_colour("always", io.StringIO())
    assert not use_colour("never", TerminalStream())

    monkeypatch.setenv("TERM", "dumb")
    assert not use_colour("auto", TerminalStream())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not use_colour("auto", TerminalStream())
    assert use_colour("always", TerminalStream())
    monkeypatch.setenv("NO_COLOR", "")
    assert use_colour("auto", TerminalStream())


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")

    assert terminal_width(TerminalStream()) == 77
    assert terminal_width(io.StringIO()) is None


def test_every_style_ends_with_its_text() -> None:
    for style, codes in STYLES.items():
        assert paint("x", style) == (f"\x1b[{codes}mx\x1b[0m" if codes else "x")
        assert paint("", style) == ""
