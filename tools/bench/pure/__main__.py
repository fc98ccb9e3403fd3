"""`python -m tools.bench.pure`: the codec in pure Python beside the last commit that had no accelerator.

Both are measured in turns, each round in a process of its own, without the accelerator. Exit code 2 where the
repository does not have that commit, as in a clone without history.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from statistics import geometric_mean

from tools.bench.compare.checkouts import checkout_base, find_commit, measure_both
from tools.bench.compare.decision import Line
from tools.bench.history import Result, summarize
from tools.bench.page import describe_machine, markdown_table, publish_section
from tools.bench.pure import BASE, LIMIT, PEER

_MEASURES = ("codec", "records")
_PURE = {"KWIRE_PURE": "1"}


def speed_ratio(line: Line) -> float:
    """How much faster this checkout is, by the fastest rounds: what disturbs a round makes it slower, never faster."""
    return min(line.base) / min(line.here)


def list_results(lines: Sequence[Line]) -> list[Result]:
    """The results for the history, of both commits."""
    results = []
    for line in lines:
        results.append(summarize(line.name, "pure Python", "us", line.here))
        ratio = speed_ratio(line)
        results.append(summarize(line.name, PEER, "us", line.base, ratio=ratio, peer_version=BASE))
    return results


def render_section(lines: Sequence[Line], rounds: int) -> str:
    """The section of the page."""
    rows = [
        [line.name, f"{min(line.base):,.1f}", f"{min(line.here):,.1f}", f"{speed_ratio(line):.2f}"] for line in lines
    ]
    mean = geometric_mean(map(speed_ratio, lines))
    rows.append(["**geometric mean**", "", "", f"**{mean:.2f}**"])
    text = (
        f"## Pure Python\n\nThe code that is used without the accelerator (`KWIRE_PURE=1`), beside commit {BASE}, the "
        f"last one that had\nno accelerator: microseconds of CPU for a call, the fastest of {rounds} interleaved "
        "rounds, each in a process of its own.\nAbove 1 today's code is faster."
    )
    table = markdown_table(["work", "before, us", "today, us", "before / today"], rows)
    return f"{text}\n\n{table}\n\n{describe_machine()}."


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write. Returns: the exit code, 1 if the code has become slower."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.pure", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="processes for each measure and commit")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    commit = find_commit(BASE)
    if commit is None:
        print(f"pure: this repository has no commit {BASE}", file=sys.stderr)
        return 2
    with checkout_base(commit) as base:
        lines = [line for name in _MEASURES for line in measure_both(name, base, options.rounds, variables=_PURE)]
    lines = [line for line in lines if line.base and line.here]
    publish_section("pure", render_section(lines, options.rounds), list_results(lines), write=not options.dry_run)
    return int(geometric_mean(map(speed_ratio, lines)) < LIMIT)


if __name__ == "__main__":
    sys.exit(main())
