"""Measures the code of two commits in turns: this checkout, and a worktree of another commit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.bench.compare.decision import Line, join_rounds

ROOT = Path(__file__).parents[3]
_NATIVE = "kwire/accelerator/native*.so"
_TIMEOUT_S = 600
_NO_VARIABLES: Mapping[str, str] = {}


class MeasureError(Exception):
    """A measure that failed; the message has the last line of its output."""


def find_commit(name: str) -> str | None:
    """The hash of a commit; None if the repository does not have it."""
    command = ["git", "rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@contextmanager
def checkout_base(commit: str) -> Iterator[Path]:
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


def measure_both(name: str, base: Path, rounds: int, *, variables: Mapping[str, str] = _NO_VARIABLES) -> list[Line]:
    """The lines of a measure. variables: of the environment. Raises: MeasureError if it fails in this checkout."""
    values: dict[Path, list[dict[str, float]]] = {base: [], ROOT: []}
    unavailable: set[Path] = set()
    for number in range(rounds):
        # Each is the first one in every second round.
        for tree in (base, ROOT) if number % 2 else (ROOT, base):
            if tree in unavailable:
                continue
            try:
                values[tree].append(_run_round(name, tree, variables))
            except MeasureError as error:
                if tree is ROOT:
                    raise
                print(f"not measured in the base: {error}", file=sys.stderr)
                unavailable.add(tree)
    return join_rounds(values[base], values[ROOT])


def _run_round(name: str, tree: Path, variables: Mapping[str, str] = _NO_VARIABLES) -> dict[str, float]:
    command = [sys.executable, "-m", "tools.bench.compare.own_measures", name, str(ROOT / "tests" / "captures")]
    environment = {**os.environ, **variables, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise MeasureError(f"{name}: exit code {done.returncode}: {last[0]}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured
