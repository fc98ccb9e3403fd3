"""Results compared with a pinned list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.foreign.results import (
    Expectation,
    PinnedTest,
    Result,
    Status,
    Summary,
    Verdict,
    judge,
    read_pinned,
    write_pinned,
)
from tests.foreign.suites import PINNED_FOLDER

PINNED = {
    "pass": PinnedTest("pass", Expectation.PASS),
    "text": PinnedTest("text", Expectation.TEXT, "compares the text of an error"),
    "inside": PinnedTest("inside", Expectation.INTERNAL, "the inside of a server"),
}


@pytest.mark.parametrize("suite", ["kafka", "kgo"])
def test_the_pinned_lists_can_be_read_and_are_sorted(suite: str, tmp_path: Path) -> None:
    path = PINNED_FOLDER / f"{suite}.tsv"
    pinned = read_pinned(path)
    write_pinned(tmp_path / "sorted.tsv", pinned.values())

    assert len(pinned) > 100
    assert (tmp_path / "sorted.tsv").read_text("utf-8") == path.read_text("utf-8")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("pass\ta\nunknown\tb\n", "unknown"),
        ("pass\ta\npass\ta\n", "2: a is listed twice"),
        ("text\ta\n", "1: a reason"),
        ("pass\ta\ta reason\n", "1: a reason"),
    ],
)
def test_an_invalid_pinned_list_is_refused_with_the_reason(row: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "list.tsv"
    path.write_text(row, "utf-8")

    with pytest.raises(ValueError, match=problem):
        read_pinned(path)


@pytest.mark.parametrize(
    ("name", "status", "verdict", "real_verdict"),
    [
        ("pass", Status.PASSED, Verdict.PASSED, Verdict.PASSED),
        ("pass", Status.FAILED, Verdict.FAILED, Verdict.FAILED),
        ("pass", Status.SKIPPED, Verdict.FAILED, Verdict.FAILED),
        ("text", Status.FAILED, Verdict.SKIPPED, Verdict.FAILED),
        ("text", Status.PASSED, Verdict.UNEXPECTED_PASS, Verdict.PASSED),
        ("inside", Status.FAILED, Verdict.SKIPPED, Verdict.SKIPPED),
        ("inside", Status.PASSED, Verdict.UNEXPECTED_PASS, Verdict.PASSED),
        ("not listed", Status.FAILED, Verdict.FAILED, Verdict.FAILED),
    ],
)
def test_a_result_is_compared_with_its_row(name: str, status: Status, verdict: Verdict, real_verdict: Verdict) -> None:
    result = Result(name, status)

    assert judge(result, PINNED) is verdict
    assert judge(result, PINNED, is_real=True) is real_verdict


def test_the_summary_names_failures_and_unexpected_passes_and_counts_reasons() -> None:
    summary = Summary("suite", PINNED)
    summary.add(Result("pass", Status.FAILED, 1.0, "expected: 1"))
    summary.add(Result("text", Status.PASSED))
    summary.add(Result("inside", Status.FAILED))

    assert summary.lines([*PINNED, "later"], seed=7) == [
        "suite: 0 passed, 1 failed, 1 skipped, 1 unexpected pass, 1 not run, seed 7",
        "  skipped 1: the inside of a server",
        "  unexpected pass: text",
        "  failed: pass",
    ]


def test_a_second_result_of_a_test_replaces_the_first() -> None:
    summary = Summary("suite", PINNED)
    summary.add(Result("pass", Status.FAILED))
    summary.add(Result("pass", Status.PASSED))

    assert summary.failed() == []
