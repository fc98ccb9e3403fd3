"""`kwire report` of large captures: `python -m tools.bench.report`, about two minutes and 4 GB of disk.

Wall and CPU seconds of the command with all its processes: three times for 100 MB of small packets and for 100 MB of
small and large ones, once for 1 GB of the latter. `--folder` says where the captures go; they are deleted at the end.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tools.bench.capture_traffic import write_capture
from tools.bench.history import Result, summarize
from tools.bench.page import describe_machine, markdown_table, publish_section, spread_text
from tools.bench.scale_copies import Template, write_files

MB = 1_000_000
_DISK_NEEDED = 4_000 * MB
_TIMEOUT_S = 900


class Case(NamedTuple):
    """A capture: the messages of each kind of traffic that its templates have, and its size in bytes."""

    name: str
    messages: dict[str, int]
    size: int
    rounds: int
    goal_s: int


# A template is written as a whole: it is small, so that captures have about their size.
_BOTH = {"small": 5_000, "large": 500}
CASES = (
    Case("100 MB, small packets", {"small": 5_000}, 100 * MB, 3, 15),
    Case("100 MB", _BOTH, 100 * MB, 3, 15),
    Case("1 GB", _BOTH, 1_000 * MB, 1, 60),
)


class Round(NamedTuple):
    """One report: wall seconds, and CPU seconds of the command with all processes that it started."""

    seconds: float
    cpu_seconds: float


class Measured(NamedTuple):
    """A case with its rounds."""

    case: Case
    size: int
    packets: int
    rounds: list[Round]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and write. Returns 1 if there is not enough disk space, or a report takes longer than its goal."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.report", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the captures go (default: a temporary folder)")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kwire-report-bench-", dir=options.folder) as name:
        folder = Path(name)
        if shutil.disk_usage(folder).free < _DISK_NEEDED:
            print(f"needs {_DISK_NEEDED / 1e9:.0f} GB of disk in {folder}: choose another --folder", file=sys.stderr)
            return 1
        templates = {kind: _write_template(kind, count, folder) for kind, count in _BOTH.items()}
        # The first report stores the classes of Spark, for all later ones.
        _run_report(_write_case(Case("", _BOTH, MB, 1, 0), templates, folder)[0], folder)
        measured = [_measure_case(case, templates, folder) for case in CASES]
    publish_section("report", render_section(measured), results_of(measured), write=not options.dry_run)
    return 0 if all(_seconds(each) <= each.case.goal_s for each in measured) else 1


def _measure_case(case: Case, templates: dict[str, Template], folder: Path) -> Measured:
    capture, packets = _write_case(case, templates, folder)
    rounds = [_run_report(capture, folder) for _ in range(case.rounds)]
    measured = Measured(case, capture.stat().st_size, packets, rounds)
    capture.unlink()
    print(f"{case.name}: {', '.join(f'{each.seconds:.1f} s' for each in rounds)}", flush=True)
    return measured


def _write_template(kind: str, messages: int, folder: Path) -> Template:
    capture = folder / f"{kind}.pcapng"
    template = Template(capture, write_capture(kind, capture, messages=messages))
    capture.unlink()
    return template


def _write_case(case: Case, templates: dict[str, Template], folder: Path) -> tuple[Path, int]:
    chosen = [templates[kind] for kind in case.messages]
    [(capture, packets)] = write_files(chosen, folder, size=case.size, file_size=case.size)
    return capture, packets


def _run_report(capture: Path, folder: Path) -> Round:
    """One report by the command, in a process of its own."""
    command = [sys.executable, "-m", "kwire", "report", str(capture), "-o", str(folder / "report.html")]
    environ = {key: value for key, value in os.environ.items() if key != "CI"}
    cpu_before, started = _cpu_of_children(), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S, env=environ)
    return Round(time.perf_counter() - started, _cpu_of_children() - cpu_before)


def _cpu_of_children() -> float:
    """CPU seconds of the processes that have ended, with those that they waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _seconds(measured: Measured) -> float:
    return median(each.seconds for each in measured.rounds)


def results_of(measured: Sequence[Measured]) -> list[Result]:
    """The lines of the history: for each case, its wall and its CPU seconds."""
    return [
        summarize(f"{each.case.name}, {name}", "kwire", "s", [getattr(one, field) for one in each.rounds])
        for each in measured
        for name, field in (("wall", "seconds"), ("CPU", "cpu_seconds"))
    ]


def render_section(measured: Sequence[Measured]) -> str:
    """The section of docs/performance.md."""
    rows = []
    for case, size, packets, rounds in measured:
        amounts = [f"{size / MB:,.0f} MB", f"{packets / 1e6:.2f} M"]
        wall = spread_text([each.seconds for each in rounds], 1)
        cpu = spread_text([each.cpu_seconds for each in rounds], 1)
        rows.append([case.name, *amounts, f"{case.goal_s} s", f"{wall} s", f"{cpu} s"])
    head = ["capture", "size", "packets", "goal", "time", "CPU"]
    text = (
        "`kwire report`, from the start of the command to its end, Spark's start included: the goal is for wall time."
        " CPU is that of all processes. Small packets have about 200 bytes; where nothing is said, they are a fifth of"
        " the bytes, and the others have 32 KB."
    )
    return f"## Reports\n\n{text}\n\n{markdown_table(head, rows)}\n\n{describe_machine()}."


if __name__ == "__main__":
    sys.exit(main())
