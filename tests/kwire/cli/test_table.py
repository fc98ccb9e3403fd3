"""Layout of tables: alignment, widths on a terminal, and shrinking of columns."""

from __future__ import annotations

import pytest

from kwire.cli.table import Cell, Column, TableLayout
from kwire.cli.terminal import text_width

COLUMNS = (
    Column("NAME", shrinks=((1, 8),)),
    Column("TIME", short=0),
    Column("COUNT", is_right=True),
    Column("WHAT", shrinks=((0, 12), (2, 4))),
)


def lines(rows: list[tuple[str, str, str, str]], *, width: int | None, is_coloured: bool = False) -> list[str]:
    grid = TableLayout(COLUMNS, width=width, is_coloured=is_coloured)
    made = [[Cell(name, "bad"), Cell(time, "", time[:5]), Cell(count), Cell(what)] for name, time, count, what in rows]
    return [*(text for line in made for text in grid.add(line)), *grid.flush()]


ROWS = [("a" * 14, "08:59:24.987", "1", "short"), ("b", "08:59:25.000", "12345", "日本" * 8)]


def test_cells_are_aligned_under_their_headers() -> None:
    assert lines(ROWS, width=None) == [
        "NAME            TIME          COUNT  WHAT",
        "aaaaaaaaaaaaaa  08:59:24.987      1  short",
        f"b               08:59:25.000  12345  {'日本' * 8}",
    ]


@pytest.mark.parametrize("width", [20, 30, 38, 45, 60, 71, 72, 200])
def test_no_line_is_longer_than_the_terminal_is_wide(width: int) -> None:
    assert max(map(text_width, lines(ROWS, width=width))) <= width


def test_columns_shrink_step_by_step() -> None:
    assert lines(ROWS, width=60)[1:] == [
        "aaaaaaaaaaaaaa  08:59      1  short",
        f"b               08:59  12345  {'日本' * 7}…",
    ]
    assert lines(ROWS, width=40)[1:] == ["aaaaaaaaaaa…  08:59      1  short", "b             08:59  12345  日本日本日…"]


def test_colours_do_not_change_the_text() -> None:
    plain, coloured = (lines(ROWS, width=40, is_coloured=each) for each in (False, True))

    assert [line.replace("\x1b[1;31m", "").replace("\x1b[1m", "").replace("\x1b[0m", "") for line in coloured] == plain
    assert coloured != plain


def test_a_wider_cell_later_shifts_its_line_up_to_the_width() -> None:
    grid = TableLayout(COLUMNS, width=30, is_coloured=False)
    first = [*grid.add([Cell("a"), Cell("1"), Cell("1"), Cell("x")]), *grid.flush()]
    later = [*grid.add([Cell("a" * 9), Cell("1"), Cell("1"), Cell("what is long")])]
    again = [*grid.add([Cell("b"), Cell("1"), Cell("1"), Cell("x")])]

    assert first == ["NAME  TIME  COUNT  WHAT", "a     1         1  x"]
    assert later == ["aaaaaaaaa  1         1  what …"]
    assert again == ["b     1         1  x"]


def test_columns_have_their_usual_width_if_more_lines_follow() -> None:
    def settled(*, is_early: bool) -> list[str]:
        grid = TableLayout((Column("A", usual=5), Column("B")), width=None, is_coloured=False)
        return [*grid.add([Cell("x"), Cell("y")]), *grid.flush(is_early=is_early)]

    assert settled(is_early=True) == ["A      B", "x      y"]
    assert settled(is_early=False) == ["A  B", "x  y"]


def test_no_lines_have_no_header() -> None:
    assert lines([], width=80) == []


@pytest.mark.parametrize("is_coloured", [False, True])
@pytest.mark.parametrize("width", [None, 40, 200])
def test_prebuilt_lines_are_formatted_as_others(width: int | None, *, is_coloured: bool) -> None:
    rows = [
        (f"name {number}" + "é" * (number % 7 == 3), "08:59", str(number), "x" * (number % 90))
        for number in range(1200)
    ]
    one, many = (
        TableLayout(COLUMNS, width=width, is_coloured=is_coloured, build_line=lambda row: [Cell(text) for text in row])
        for _ in range(2)
    )
    expected = [text for row in rows for text in one.add([Cell(text) for text in row])]
    parts = [rows[:3], rows[3:700], rows[700:]]
    made = [line for part in parts for text in many.add_prebuilt(part) for line in text.split("\n")]

    assert len(made) == len(rows) + 1
    assert made == expected
