"""`python -m tools.bench.compare --base COMMIT`: what this checkout takes beside another commit.

Both are measured in turns, each round in a process of its own. Exit codes: 0 nothing is slower, 1 something is,
2 wrong usage, 3 a measure failed in this checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.bench.compare.decision import Line, Verdict, join_rounds
from tools.bench.compare.own_measures import MEASURES
from tools.bench.page import markdown_table, spread_text

ROOT = Path(__file__).parents[3]
SLOWER, WRONG_USAGE, FAILED = 1, 2, 3
_ROUNDS_MIN = 5
_NATIVE = "kwire/accelerator/native*.so"
_TIMEOUT_S = 600


class MeasureError(Exception):
    """A measure that failed; the message has the last line of its output."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both commits, and print what moved. Returns: the exit code."""
    args = _parse(arguments)
    commit = _find_commit(args.base)
    if commit is None:
        print(f"compare: {args.base!r} is no commit of this repository", file=sys.stderr)
        return WRONG_USAGE
    with _checkout(commit) as base:
        try:
            lines = [line for name in args.measure or MEASURES for line in _measure(name, base, args.rounds)]
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


def _find_commit(name: str) -> str | None:
    command = ["git", "rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    """A worktree of the commit with the tools of this one, and with its accelerator if this one has it."""
    with tempfile.TemporaryDirectory(prefix="kwire-compare-") as folder:
        base = Path(folder, "base")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(base), commit], cwd=ROOT, check=True)
        try:
            # The same code measures both: that of the older commit may lack a measure, or measure in another way.
            shutil.rmtree(base / "tools", ignore_errors=True)
            shutil.copytree(ROOT / "tools", base / "tools", ignore=shutil.ignore_patterns("__pycache__"))
            is_compiled = any(ROOT.glob(_NATIVE))
            if is_compiled and any(base.glob("kwire/accelerator/src/*.c")):
                build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
                subprocess.run(build, cwd=base, check=True, timeout=_TIMEOUT_S)
            subprocess.run([sys.executable, "-m", "compileall", "-q", "kwire", "mockbroker"], cwd=base, check=True)
            compiled = ["compiled" if any(tree.glob(_NATIVE)) else "pure Python" for tree in (base, ROOT)]
            print(f"base {commit[:10]} ({compiled[0]}), here ({compiled[1]})", file=sys.stderr)
            yield base
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(base)], cwd=ROOT, check=True)


def _measure(name: str, base: Path, rounds: int) -> list[Line]:
    """The lines of a measure. Raises: MeasureError if it fails in this checkout."""
    values: dict[Path, list[dict[str, float]]] = {base: [], ROOT: []}
    unavailable: set[Path] = set()
    for number in range(rounds):
        # Each is the first one in every second round.
        for tree in (base, ROOT) if number % 2 else (ROOT, base):
            if tree in unavailable:
                continue
            try:
                values[tree].append(_run_round(name, tree))
            except MeasureError as error:
                if tree is ROOT:
                    raise
                print(f"not measured in the base: {error}", file=sys.stderr)
                unavailable.add(tree)
    return join_rounds(values[base], values[ROOT])


def _run_round(name: str, tree: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tools.bench.compare.own_measures", name, str(ROOT / "tests" / "captures")]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise MeasureError(f"{name}: exit code {done.returncode}: {last[0]}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


if __name__ == "__main__":
    sys.exit(main())
