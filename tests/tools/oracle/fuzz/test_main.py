"""The command `python -m tools.oracle.fuzz`: its options and exit codes."""

from __future__ import annotations

import pytest

from tools.oracle.fuzz.__main__ import parse_options


def test_options_have_defaults_and_a_new_seed() -> None:
    first, second = parse_options([]), parse_options([])

    assert (first.pairs, first.apis, first.within_s) == (1000, (), float("inf"))
    assert first.seed != second.seed


def test_apis_are_names() -> None:
    assert parse_options(["--api", "Fetch", "ListOffsets", "--seed", "0"]).apis == ("Fetch", "ListOffsets")


@pytest.mark.parametrize("arguments", [["--api", "Nosuch"], ["--release", "3.9"], ["--pairs", "0"], ["extra"]])
def test_wrong_usage_ends_with_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(arguments)

    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err
