"""The command line of `python -m tests.foreign`, with a suite of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.foreign import __main__ as command
from tests.foreign.results import Result, Status
from tests.foreign.suites import Runner


class FakeSuite:
    """Tests that pass, except those of `failing`: the first so many times. Selects two of them together."""

    name = "kgo"

    def __init__(self, failing: dict[str, int] | None = None, *, broken: str = "") -> None:
        self.failing = failing or {}
        self.broken = broken
        self.ran: list[str] = []
        self.is_closed = False

    def selectors(self, names: Sequence[str]) -> list[str]:
        return ["|".join(names[at : at + 2]) for at in range(0, len(names), 2)]

    @contextmanager
    def prepare(self) -> Iterator[Runner]:
        if self.broken:
            raise RuntimeError(self.broken)
        try:
            yield self
        finally:
            self.is_closed = True

    def run(self, selector: str) -> Iterator[Result]:
        for name in selector.split("|"):
            self.ran.append(name)
            left = self.failing.get(name, 0)
            self.failing[name] = left - 1
            yield Result(name, Status.FAILED if left > 0 else Status.PASSED)

    def close(self) -> None:
        """Nothing was started."""


def run(suite: FakeSuite, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(command, "KgoSuite", lambda: suite)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return command.main(["--suite", "kgo", *arguments])


def test_a_test_that_fails_once_is_run_again_and_counts_as_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = FakeSuite({"TestTxnEtl": 1})

    assert run(suite, "TestTxnEtl", monkeypatch=monkeypatch) == 0
    assert suite.ran == ["TestTxnEtl", "TestTxnEtl"]


def test_a_test_that_fails_twice_ends_the_command_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = FakeSuite({"TestTxnEtl": 2})

    assert run(suite, "TestTxn*", monkeypatch=monkeypatch) == 1
    assert capsys.readouterr().out.endswith("  failed: TestTxnEtl\n")
    assert suite.is_closed


def test_a_suite_that_cannot_be_prepared_ends_the_command_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(FakeSuite(broken="no jars"), monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err == "tests.foreign: no jars\n"


def test_a_pattern_that_matches_no_test_ends_the_command_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(FakeSuite(), "TestOfNothing", monkeypatch=monkeypatch) == 2


def test_wrong_usage_ends_the_command_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as ended:
        run(FakeSuite(), "--record", monkeypatch=monkeypatch)

    assert ended.value.code == 2


def test_a_seed_repeats_the_order_of_a_limited_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = []
    for seed in ("7", "7", "8"):
        suite = FakeSuite()
        run(suite, "--within", "60", "--seed", seed, monkeypatch=monkeypatch)
        orders.append(suite.ran)

    assert orders[0] == orders[1] != orders[2]
    assert "seed 8" in capsys.readouterr().out


def test_after_the_time_limit_no_test_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = FakeSuite()
    run(suite, "--within", "-1", monkeypatch=monkeypatch)

    assert suite.ran == []
    assert ", 150 not run" in capsys.readouterr().out
