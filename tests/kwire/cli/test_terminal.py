"""What a terminal is given: colours where they are wanted, texts measured and cut by the columns that they take."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.grid import Cell, Column, Grid
from kwire.cli.progress import Progress, size_text, span_text
from kwire.cli.terminal import STYLES, cut, paint, wants_colour, width_for, width_of


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("topic-é", 7), ("日本", 4), ("e\u0301", 1), ("ﾊﾝｶｸ", 4), ("🙂", 2), ("👍\u0335", 2)],
)
def test_a_text_takes_the_columns_that_a_terminal_gives_it(text: str, width: int) -> None:
    assert width_of(text) == width


@given(st.text("ab日é\u0301🙂"), st.integers(0, 12))
def test_a_cut_text_fits_and_says_that_it_was_cut(text: str, width: int) -> None:
    shown = cut(text, width)

    assert width_of(shown) <= width
    assert shown == text or not width or (shown.endswith("…") and text.startswith(shown[:-1]))


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour("auto", Screen())
    assert not wants_colour("auto", io.StringIO())
    assert wants_colour("always", io.StringIO())
    assert not wants_colour("never", Screen())

    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour("auto", Screen())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour("auto", Screen())
    assert wants_colour("always", Screen())
    monkeypatch.setenv("NO_COLOR", "")
    assert wants_colour("auto", Screen())


def test_only_a_terminal_has_an_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")

    assert width_for(Screen()) == 77
    assert width_for(io.StringIO()) is None


def test_every_style_ends_where_its_text_does() -> None:
    for style, codes in STYLES.items():
        assert paint("x", style) == (f"\x1b[{codes}mx\x1b[0m" if codes else "x")
        assert paint("", style) == ""


COLUMNS = (
    Column("NAME", gives=((1, 8),)),
    Column("TIME", short=0),
    Column("COUNT", is_right=True),
    Column("WHAT", gives=((0, 12), (2, 4))),
)


def lines(rows: list[tuple[str, str, str, str]], *, width: int | None, is_coloured: bool = False) -> list[str]:
    grid = Grid(COLUMNS, width=width, is_coloured=is_coloured)
    made = [[Cell(name, "bad"), Cell(time, "", time[:5]), Cell(count), Cell(what)] for name, time, count, what in rows]
    return [*(text for line in made for text in grid.add(line)), *grid.settle()]


ROWS = [("a" * 14, "08:59:24.987", "1", "short"), ("b", "08:59:25.000", "12345", "日本" * 8)]


def test_cells_stand_under_their_heads() -> None:
    assert lines(ROWS, width=None) == [
        "NAME            TIME          COUNT  WHAT",
        "aaaaaaaaaaaaaa  08:59:24.987      1  short",
        f"b               08:59:25.000  12345  {'日本' * 8}",
    ]


@pytest.mark.parametrize("width", [20, 30, 38, 45, 60, 71, 72, 200])
def test_no_line_is_longer_than_the_terminal_is_wide(width: int) -> None:
    assert max(map(width_of, lines(ROWS, width=width))) <= width


def test_columns_give_up_room_in_their_turn() -> None:
    assert lines(ROWS, width=60)[1:] == [
        "aaaaaaaaaaaaaa  08:59      1  short",
        f"b               08:59  12345  {'日本' * 7}…",
    ]
    assert lines(ROWS, width=40)[1:] == [
        "aaaaaaaaaaa…  08:59      1  short",
        "b             08:59  12345  日本日本日…",
    ]


def test_colours_change_nothing_but_colours() -> None:
    plain, coloured = (lines(ROWS, width=40, is_coloured=each) for each in (False, True))

    assert [line.replace("\x1b[1;31m", "").replace("\x1b[1m", "").replace("\x1b[0m", "") for line in coloured] == plain
    assert coloured != plain


def test_a_wider_cell_that_comes_later_pushes_its_line_as_far_as_the_edge() -> None:
    grid = Grid(COLUMNS, width=30, is_coloured=False)
    first = [*grid.add([Cell("a"), Cell("1"), Cell("1"), Cell("x")]), *grid.settle()]
    later = [*grid.add([Cell("a" * 9), Cell("1"), Cell("1"), Cell("what is long")])]
    again = [*grid.add([Cell("b"), Cell("1"), Cell("1"), Cell("x")])]

    assert first == ["NAME  TIME  COUNT  WHAT", "a     1         1  x"]
    assert later == ["aaaaaaaaa  1         1  what …"]
    assert again == ["b     1         1  x"]


def test_columns_begin_with_their_usual_width_where_more_is_to_come() -> None:
    def settled(*, is_early: bool) -> list[str]:
        grid = Grid((Column("A", usual=5), Column("B")), width=None, is_coloured=False)
        return [*grid.add([Cell("x"), Cell("y")]), *grid.settle(is_early=is_early)]

    assert settled(is_early=True) == ["A      B", "x      y"]
    assert settled(is_early=False) == ["A  B", "x  y"]


def test_nothing_at_all_has_no_head() -> None:
    assert lines([], width=80) == []


def test_progress_is_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    now, screen = [0.0], Screen()
    progress = Progress("trace.pcap", 4_000_000, screen, clock=lambda: now[0])
    progress.at(10)
    assert screen.getvalue() == ""

    now[0] = 2.0
    progress.at(1_000_000)
    assert screen.getvalue() == "\r\x1b[K█████░░░░░░░░░░░░░░░  25%  1.0 MB of 4.0 MB  500 kB/s  6 s left  trace.pcap"
    progress.at(1_000_001)
    assert screen.getvalue().count("\r") == 1
    progress.hide()
    progress.hide()
    assert screen.getvalue().endswith("\r\x1b[K")
    assert screen.getvalue().count("\r") == 2


def test_sizes_and_spans_are_said_as_people_say_them() -> None:
    assert [size_text(each) for each in (0, 999, 1_500, 123_456, 7 * 10**9)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "123 kB",
        "7.0 GB",
    ]
    assert [span_text(each) for each in (0, 59.4, 61, 3_725)] == ["0 s", "59 s", "1:01 min", "1:02 h"]
