"""Results of tests, the pinned list of expected ones, and the summary of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple


class Status(Enum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Result(NamedTuple):
    """The result of one test. message: why it failed or was skipped."""

    name: str
    status: Status
    duration_s: float = 0.0
    message: str = ""


class Expectation(Enum):
    """What is expected of a test on mockbroker.

    PASS: a real Kafka passes it. TEXT: a real Kafka passes it, but it compares texts of errors.
    UNSUPPORTED: a real Kafka passes it, but it needs what docs/not-supported.md lists. INTERNAL: it needs the inside of
    a server, or fails on a real Kafka for another reason.
    """

    PASS = "pass"
    TEXT = "text"
    UNSUPPORTED = "unsupported"
    INTERNAL = "internal"


class PinnedTest(NamedTuple):
    """A row of a pinned list; every row except those with PASS has a reason."""

    name: str
    expectation: Expectation
    reason: str = ""


class Verdict(Enum):
    """A result compared with the pinned list."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNEXPECTED_PASS = "unexpected pass"


def read_pinned(path: Path) -> dict[str, PinnedTest]:
    """Read a pinned list: expectation, name and reason, separated by tabs. Raises: ValueError for an invalid row."""
    pinned: dict[str, PinnedTest] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        expectation, name, reason = (*line.split("\t"), "")[:3]
        row = PinnedTest(name, Expectation(expectation), reason)
        if name in pinned:
            raise ValueError(f"{path.name}:{number}: {name} is listed twice")
        if (row.expectation is Expectation.PASS) == bool(reason):
            raise ValueError(
                f"{path.name}:{number}: a reason stands beside each test that is not to pass, and no other"
            )
        pinned[name] = row
    return pinned


def write_pinned(path: Path, rows: Iterable[PinnedTest]) -> None:
    """Write a pinned list, sorted by name."""
    lines = [
        "\t".join([row.expectation.value, row.name, *([row.reason] if row.reason else [])]) for row in sorted(rows)
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def judge(result: Result, pinned: Mapping[str, PinnedTest], *, is_real: bool = False) -> Verdict:
    """Compare a result with the pinned list. A test that is not listed must pass.

    is_real: of a real Kafka, which passes all tests but some of those with INTERNAL.
    """
    row = pinned.get(result.name)
    expectation = Expectation.PASS if row is None else row.expectation
    has_passed = result.status is Status.PASSED
    if expectation is Expectation.PASS or (is_real and expectation is not Expectation.INTERNAL):
        return Verdict.PASSED if has_passed else Verdict.FAILED
    if not has_passed:
        return Verdict.SKIPPED
    return Verdict.PASSED if is_real else Verdict.UNEXPECTED_PASS


class Summary:
    """Counts verdicts and prints one line for each test, and a summary at the end."""

    def __init__(self, suite: str, pinned: Mapping[str, PinnedTest], *, is_real: bool = False) -> None:
        self._suite = suite
        self._pinned = pinned
        self._is_real = is_real
        self._results: dict[str, Result] = {}

    def add(self, result: Result) -> Verdict:
        """Count a result and print its line; a later result of the same test replaces the earlier one."""
        self._results[result.name] = result
        verdict = self._judge(result)
        print(f"{verdict.value} {result.name} ({result.duration_s:.1f} s)", flush=True)
        if verdict is Verdict.FAILED:
            print("".join(f"    {line}\n" for line in result.message.splitlines()), end="", flush=True)
        return verdict

    def failed(self) -> list[str]:
        """The tests that were to pass and did not."""
        return self._named(Verdict.FAILED)

    def lines(self, names: Collection[str], *, seed: int | None) -> list[str]:
        """The summary. names: of the tests that were to run. seed: of their order, or None."""
        verdicts = Counter(self._judge(result) for result in self._results.values())
        counts = ", ".join(f"{verdicts[verdict]} {verdict.value}" for verdict in Verdict)
        order = "" if seed is None else f", seed {seed}"
        not_run = [name for name in names if name not in self._results]
        lines = [f"{self._suite}: {counts}, {len(not_run)} not run{order}"]
        reasons = Counter(self._pinned[name].reason for name in self._named(Verdict.SKIPPED))
        lines += [f"  skipped {count}: {reason}" for reason, count in sorted(reasons.items())]
        lines += [f"  unexpected pass: {name}" for name in self._named(Verdict.UNEXPECTED_PASS)]
        lines += [f"  failed: {name}" for name in self.failed()]
        return lines

    def _named(self, verdict: Verdict) -> list[str]:
        return sorted(name for name, result in self._results.items() if self._judge(result) is verdict)

    def _judge(self, result: Result) -> Verdict:
        return judge(result, self._pinned, is_real=self._is_real)
