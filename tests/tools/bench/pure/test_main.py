"""The comparison of pure Python with the commit before the accelerator."""

from __future__ import annotations

import pytest

from tools.bench.compare.decision import Line
from tools.bench.pure import BASE, PEER
from tools.bench.pure import __main__ as pure

LINES = [Line("decode a", base=(40.0, 10.0, 12.0), here=(5.0, 30.0)), Line("encode a", base=(8.0,), here=(16.0,))]


def test_the_fastest_rounds_are_compared() -> None:
    assert [pure.speed_ratio(line) for line in LINES] == [2.0, 0.5]


def test_the_page_has_each_case_and_their_geometric_mean() -> None:
    text = pure.render_section(LINES, 3)

    assert "| decode a | 10.0 | 5.0 | 2.00 |" in text
    assert "| **geometric mean** |  |  | **1.00** |" in text


def test_the_history_has_both_commits_and_the_ratio_at_the_older_one() -> None:
    ours, theirs, *_ = pure.list_results(LINES)

    assert (ours.peer, ours.ratio) == ("pure Python", None)
    assert (theirs.peer, theirs.version, theirs.ratio) == (PEER, BASE, 2.0)


def test_a_repository_without_the_older_commit_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pure, "BASE", "0" * 40)

    assert pure.main(["--dry-run"]) == 2
    assert f"no commit {'0' * 40}" in capsys.readouterr().err
