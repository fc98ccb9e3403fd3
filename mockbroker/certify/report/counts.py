"""Numbers of verdicts by client and family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from mockbroker.certify.results import ResultRecord, RunRecord
from mockbroker.certify.verdicts import BAD, PASSED, Verdict


class VerdictCounts(NamedTuple):
    """How often each verdict was given to one client. duration_ms: of all cases together."""

    counts: Counter[Verdict]
    duration_ms: int

    @property
    def judged(self) -> int:
        """The cases that the client passed or did not pass: those with another verdict are not counted."""
        return self.passed + sum(self.counts[verdict] for verdict in BAD)

    @property
    def passed(self) -> int:
        """The cases in which the client did all that the source demands: OK and NON-STRICT."""
        return sum(self.counts[verdict] for verdict in PASSED)

    @property
    def strict(self) -> int:
        """The cases with the verdict OK."""
        return self.counts[Verdict.OK]


def count_verdicts(results: Iterable[ResultRecord]) -> VerdictCounts:
    """The numbers of these results."""
    counts: Counter[Verdict] = Counter()
    duration_ms = 0
    for result in results:
        counts[result.verdict] += 1
        duration_ms += result.duration_ms
    return VerdictCounts(counts, duration_ms)


def count_by_family(run: RunRecord, driver: int) -> dict[str, VerdictCounts]:
    """The numbers of one client by family, in the order of the families in the run."""
    families = {case.id: case.family for case in run.cases}
    return {
        family: count_verdicts(
            result for result in run.results if result.driver == driver and families[result.case] == family
        )
        for family in dict.fromkeys(families.values())
    }
