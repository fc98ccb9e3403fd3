"""`python -m tools.bench.compare --base COMMIT`: what this checkout takes beside another commit.

Both are measured in turns, each round in a process of its own. Exit codes: 0 nothing is slower, 1 something is,
2 wrong usage, 3 a measure failed in this checkout.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tools.bench.compare.checkouts import MeasureError, checkout_base, find_commit, measure_both
from tools.bench.compare.decision import Line, Verdict
from tools.bench.compare.own_measures import MEASURES
from tools.bench.page import markdown_table, spread_text

SLOWER, WRONG_USAGE, FAILED = 1, 2, 3
_ROUNDS_MIN = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both commits, and print what moved. Returns: the exit code."""
    args = _parse(arguments)
    commit = find_commit(args.base)
    if commit is None:
        print(f"compare: {args.base!r} is no commit of this repository", file=sys.stderr)
        return WRONG_USAGE
    with checkout_base(commit) as base:
        try:
            lines = [line for name in args.measure or MEASURES for line in measure_both(name, base, args.rounds)]
        except MeasureError as error:
            print(f"compare: {error}", file=sys.stderr)
            return FAILED
    print(render(lines))
    return exit_code(lines)


def exit_code(lines: Sequence[Line]) -> int:
    """1 if something is slower."""
    return SLOWER if any(line.verdict is Verdict.SLOWER for line in lines) else 0


def render(lines: Sequence[Line]) -> str:
    """A table of all lines, and the names of those that moved."""
    rows = []
    for line in lines:
        values = [spread_text(values, digits=1) if values else "-" for values in (line.base, line.here)]
        ratio = "-" if line.ratio is None else f"{line.ratio:.2f}"
        rows.append([line.name, *values, ratio, line.verdict.value])
    moved = [line for line in lines if line.verdict in (Verdict.SLOWER, Verdict.FASTER)]
    texts = [f"{line.verdict.value}: {line.name}, {line.ratio:.2f} times" for line in moved]
    head = ["microseconds of CPU", "base", "here", "here / base", ""]
    return "\n".join([markdown_table(head, rows), "", *(texts or ["nothing moved beyond the noise"])])


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.compare", description=__doc__)
    parser.add_argument("--base", required=True, metavar="COMMIT", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=7, help="processes for each measure and commit, at least 5")
    parser.add_argument("--measure", action="append", choices=MEASURES, help="only this one; repeatable")
    args = parser.parse_args(arguments)
    if args.rounds < _ROUNDS_MIN:
        parser.error(f"--rounds: {args.rounds} is below {_ROUNDS_MIN}")
    return args


if __name__ == "__main__":
    sys.exit(main())
