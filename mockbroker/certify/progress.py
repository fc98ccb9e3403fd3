"""What the command prints: progress while it runs, and the table at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TextIO

from kwire.escape import one_line, printable_lines
from mockbroker.certify.case import FAMILIES
from mockbroker.certify.results import DriverRecord, ResultRecord, RunRecord
from mockbroker.certify.verdicts import BAD, Verdict

_SEEN_MAX = 300
#: The time between two lines that say how many cases were played, seconds.
COUNTER_S = 15.0


class Progress:
    """Prints each verdict that is not OK or UNIMPLEMENTED as a line, and how many cases were played.

    That is a line that changes on a terminal, and elsewhere a line every 15 seconds. clock: monotonic, seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        total: int,
        drivers: Sequence[DriverRecord],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._total = total
        self._drivers = drivers
        self._done = 0
        self._counts: Counter[Verdict] = Counter()
        self._is_terminal = stream.isatty()
        self._clock = clock
        self._counted_s = clock()

    def add(self, result: ResultRecord) -> None:
        """Show a result."""
        self._done += 1
        self._counts[result.verdict] += 1
        if result.verdict not in (Verdict.OK, Verdict.UNIMPLEMENTED):
            self._print_line(describe_result(result, self._drivers[result.driver]))
        self._print_counter()

    def note(self, text: str) -> None:
        """Show a line about a driver."""
        self._print_line(f"mockbroker certify: {text}")

    def end(self) -> None:
        """Remove the counter."""
        if self._is_terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _print_line(self, text: str) -> None:
        self.end()
        print(printable_lines(text), file=self._stream, flush=True)

    def _print_counter(self) -> None:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self._counts.items()))
        text = f"{self._done} of {self._total}: {counts}"
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()
        elif self._clock() - self._counted_s >= COUNTER_S:
            self._counted_s = self._clock()
            self._print_line(text)


def describe_result(result: ResultRecord, driver: DriverRecord) -> str:
    """A result in one line."""
    why = f": expected {result.expected}; seen: {result.seen}" if result.expected else f": {result.seen}"
    verdict = (
        f"{result.verdict} (a defect of the case, not of the client)"
        if result.verdict is Verdict.ERROR
        else result.verdict
    )
    verdict += f" ({result.instability})" if result.instability else ""
    text = one_line(f"{verdict} {result.case} ({driver.label}){why}")
    return text if len(text) <= _SEEN_MAX else text[:_SEEN_MAX] + "..."


def summary_lines(run: RunRecord) -> list[str]:
    """A line for each driver and family: the counts of verdicts."""
    families = {case.id: case.family for case in run.cases}
    lines = []
    for number, driver in enumerate(run.drivers):
        if driver.error is not None:
            lines.append(f"{driver.label}: not run")
            continue
        lines.append(f"{driver.label}:")
        for family in FAMILIES:
            counts = Counter(
                result.verdict for result in run.results if result.driver == number and families[result.case] == family
            )
            if counts:
                lines.append(f"  {family:<11}" + ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v]))
    return lines


def exit_code(run: RunRecord) -> int:
    """0: nothing FAILED or timed out; 1: something did, a case has a defect, or a driver could not be started."""
    is_bad = any(result.verdict in BAD or result.verdict is Verdict.ERROR for result in run.results)
    return 1 if is_bad or any(driver.error for driver in run.drivers) else 0
