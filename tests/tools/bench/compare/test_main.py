"""The command that compares two commits: usage, exit codes and output."""

from __future__ import annotations

import pytest

from tools.bench.compare import __main__ as compare
from tools.bench.compare import checkouts
from tools.bench.compare.decision import Line

SAME = Line("a", [1.0, 1.1, 1.2], [1.0, 1.1, 1.3])
FASTER = Line("b", [4.0, 4.1, 4.2], [1.0, 1.1, 1.2])
SLOWER = Line("c", [10.0, 11.0, 12.0], [20.0, 22.0, 24.0])


@pytest.mark.parametrize("words", [[], ["--base", "HEAD", "--rounds", "4"], ["--base", "HEAD", "--measure", "luck"]])
def test_wrong_usage_ends_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        compare.main(words)

    assert stop.value.code == 2


@pytest.mark.parametrize("name", ["no-such-commit", "--upload-pack=x", ""])
def test_a_name_that_is_no_commit_is_wrong_usage(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main([f"--base={name}"]) == 2
    assert f"{name!r} is no commit of this repository" in capsys.readouterr().err


@pytest.mark.parametrize(("lines", "code"), [([SAME, FASTER], 0), ([SAME, SLOWER, FASTER], 1), ([], 0)])
def test_the_exit_code_says_whether_something_is_slower(lines: list[Line], code: int) -> None:
    assert compare.exit_code(lines) == code


def test_the_lines_that_moved_are_named_below_the_table() -> None:
    text = compare.render([SAME, FASTER, SLOWER])

    assert "| c | 11.0 [10.0 … 12.0] | 22.0 [20.0 … 24.0] | 2.00 | slower |" in text
    assert text.splitlines()[-2:] == ["faster: b, 0.27 times", "slower: c, 2.00 times"]
    assert compare.render([SAME]).endswith("nothing moved beyond the noise")


def test_a_measure_that_fails_in_a_checkout_is_an_error_with_its_last_line(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    empty = tmp_path_factory.mktemp("empty")

    with pytest.raises(checkouts.MeasureError, match=r"codec: exit code 1: .*tools"):
        checkouts._run_round("codec", empty)
