"""Spark on many captures: `python -m tools.bench.scale --size 10` generates 10 GB, reads 1x, 2x and 4x, and plots.

It prints the needed disk space first and stops if there is less; the generated files are always deleted at the end.
With `--write` the plot and the figures are written to docs/, and to the history.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tools.bench.capture_traffic import write_capture
from tools.bench.history import Result, append_results, summarize
from tools.bench.page import describe_machine, markdown_table, write_section
from tools.bench.scale_copies import Template, write_files
from tools.bench.scale_plot import plot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DOCS = Path(__file__).parents[2] / "docs"
GB = 1_000_000_000
SHARES = (4, 2, 1)
# Disk space for Spark's scratch files and the templates.
_SPARE_SIZE = 2 * GB
_SAMPLE_S = 0.5


class Measurement(NamedTuple):
    """One query on one set of files; CPU seconds of Spark with all its processes, and of the library without Spark."""

    query: str
    size: int
    packets: int
    files: int
    rows: int
    seconds: float
    memory: int
    cpu_seconds: float
    library_cpu_seconds: float


class Query(NamedTuple):
    """A query: the level and the columns that it reads, and what it groups by."""

    level: str
    columns: str
    build: Callable[[DataFrame], DataFrame]


def latency(rows: DataFrame) -> DataFrame:
    """A query that needs headers only."""
    return rows.groupBy("api_name").agg({"latency_us": "max", "*": "count"}).withColumnRenamed("count(1)", "count")


def errors(rows: DataFrame) -> DataFrame:
    """A query that needs every body."""
    return rows.groupBy("api_name", "error_name").count()


def topics(rows: DataFrame) -> DataFrame:
    """A query that needs every partition of every body, and the names of topics."""
    return (
        rows.groupBy("api_name", "topic")
        .agg({"batch_bytes": "sum", "*": "count"})
        .withColumnRenamed("count(1)", "count")
    )


QUERIES = {
    "latency by API": Query("messages", "api_name,latency_us", latency),
    "errors by API, every body decoded": Query("messages", "api_name,error_name,n_partitions", errors),
    "bytes by topic, level `partitions`": Query("partitions", "api_name,topic,batch_bytes", topics),
}


def main() -> int:
    """Generate, measure and clean up. Returns 1 if there is not enough disk space."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.scale", description=__doc__)
    parser.add_argument("--size", type=float, default=1, metavar="GB", help="the largest set (default: %(default)s)")
    parser.add_argument(
        "--file-size", type=float, default=0.125, metavar="GB", help="of one file (default: %(default)s)"
    )
    parser.add_argument("--folder", type=Path, help="where the files go (default: a temporary folder)")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--write", action="store_true", help="write docs/planning.md and its plot")
    args = parser.parse_args()
    size = int(args.size * GB)
    with _folder(args.folder) as folder:
        free = shutil.disk_usage(folder).free
        needed = size + _SPARE_SIZE
        print(f"needs {needed / GB:.1f} GB of disk in {folder}, where {free / GB:.1f} GB are free", flush=True)
        if free < needed:
            print("not enough: choose a smaller --size, or another --folder", file=sys.stderr)
            return 1
        measurements = _measure(folder, size, int(args.file_size * GB), args.master)
    print(_table(measurements))
    print(json.dumps([measurement._asdict() for measurement in measurements]))
    if args.write:
        (DOCS / "scale.svg").write_text(plot(measurements), encoding="utf-8")
        write_section("scale", f"{_table(measurements)}\n\n{describe_machine()}.", DOCS / "planning.md")
        append_results("scale", results_of(measurements), describe_machine())
    return 0


def _measure(folder: Path, size: int, file_size: int, master: str) -> list[Measurement]:
    import kwire.spark

    files = list(write_files(_templates(folder), folder, size=size, file_size=file_size))
    print(f"{len(files)} files, {sum(count for _, count in files):,} packets", flush=True)
    spark = kwire.spark.session(master, app_name="scale", settings={"spark.driver.memory": "2g"})
    try:
        # The first query includes the start of the workers and compilation.
        _run(spark, "latency by API", files[:1])
        measurements = []
        for share in SHARES:
            part = files[: max(len(files) // share, 1)]
            for query in QUERIES:
                measurements.append(_run(spark, query, part))
                print(measurements[-1], flush=True)
        return measurements
    finally:
        kwire.spark.end(spark)


def _run(spark: SparkSession, name: str, files: list[tuple[Path, int]]) -> Measurement:
    query = QUERIES[name]
    paths = [str(path) for path, _ in files]
    library_cpu_seconds = _library_cpu_seconds(query, paths)
    started = time.monotonic()
    with _usage() as usage:
        reader = spark.read.format("kafka_capture").option("level", query.level).option("index", "none")
        rows = reader.option("columns", query.columns).load(paths)
        counted = sum(row["count"] for row in query.build(rows).collect())
    seconds = time.monotonic() - started
    size = sum(path.stat().st_size for path, _ in files)
    packets = sum(count for _, count in files)
    memory, cpu_seconds = usage.memory_peak, usage.cpu_seconds()
    return Measurement(name, size, packets, len(files), counted, seconds, memory, cpu_seconds, library_cpu_seconds)


def _library_cpu_seconds(query: Query, paths: list[str]) -> float:
    """The CPU time of one process that reads the same columns of the same files, one after another, without Spark."""
    program = (
        "import os, sys; from kwire.capture.reader import read_batches; start = sum(os.times()[:4]); "
        "[batch.num_rows for path in sys.argv[3:] "
        "for batch in read_batches(path, sys.argv[1], columns=sys.argv[2].split(','))]; "
        "print(sum(os.times()[:4]) - start)"
    )
    command = [sys.executable, "-c", program, query.level, query.columns, *paths]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _templates(folder: Path) -> list[Template]:
    """Templates with small and with large packets, made by real clients."""
    templates = []
    for kind, messages in (("small", 20_000), ("large", 2_000)):
        capture = folder / f"{kind}.pcapng"
        template = Template(capture, write_capture(kind, capture, messages=messages))
        print(f"{kind}: {template.packet_count:,} packets, {template.size / 1e6:.1f} MB", flush=True)
        capture.unlink()
        templates.append(template)
    return templates


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    """A temporary folder, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="kwire-scale-", dir=chosen))
    # A termination signal must not leave gigabytes of files.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        signal.signal(signal.SIGTERM, before)


class _Usage:
    """Samples the processes of Spark: their memory in bytes (proportional set size), with this one, and CPU time."""

    def __init__(self) -> None:
        self.memory_peak = 0
        self._ticks_before = {pid: _ticks(pid) for pid in _process_tree(os.getpid())[1:]}
        self._ticks = dict(self._ticks_before)

    def sample(self) -> None:
        """Look at all processes that run now."""
        processes = _process_tree(os.getpid())
        self.memory_peak = max(self.memory_peak, sum(map(_resident, processes)))
        for pid in processes[1:]:
            # A process that ends keeps what was seen last.
            self._ticks[pid] = max(self._ticks.get(pid, 0), _ticks(pid))

    def cpu_seconds(self) -> float:
        """Of all processes but this one, since the start."""
        spent = sum(ticks - self._ticks_before.get(pid, 0) for pid, ticks in self._ticks.items())
        return spent / os.sysconf("SC_CLK_TCK")


@contextmanager
def _usage() -> Iterator[_Usage]:
    """Sample until the end of the block."""
    usage, is_over = _Usage(), threading.Event()

    def sample() -> None:
        while not is_over.wait(_SAMPLE_S):
            usage.sample()

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield usage
    finally:
        is_over.set()
        thread.join()
        usage.sample()


def _ticks(pid: int) -> int:
    """The CPU time of a process in user and kernel mode, in clock ticks; 0 when it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(words[11]) + int(words[12])


def _process_tree(pid: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except OSError:
        return []
    return [pid, *(descendant for child in children for descendant in _process_tree(child))]


def _resident(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def results_of(measurements: Sequence[Measurement]) -> list[Result]:
    """The lines of the history: for each query and size, wall seconds, CPU beside the library, and peak of memory."""
    results = []
    for each in measurements:
        # Files have about the requested size: the name has whole gigabytes, if the set has one.
        size = round(each.size / GB, 0 if each.size >= 0.95 * GB else 2)
        values = {
            "wall": ("s", each.seconds),
            "CPU beside the library": ("x", each.cpu_seconds / each.library_cpu_seconds),
            "memory": ("MB", each.memory / 1e6),
        }
        for name, (unit, value) in values.items():
            results.append(summarize(f"{size:g} GB, {each.query}: {name}", "kwire", unit, [value]))
    return results


def _table(measurements: list[Measurement]) -> str:
    rows = []
    for query, size, packets, files, row_count, seconds, memory, cpu_seconds, library_cpu_seconds in measurements:
        amounts = [f"{size / GB:.1f} GB in {files}", f"{packets / 1e6:.1f} M", f"{row_count / 1e6:.2f} M"]
        rates = [f"{size / seconds / 1e6:.0f} MB/s", f"{packets / seconds / 1e3:.0f} k/s"]
        cpu = [f"{cpu_seconds:.0f} s", f"{cpu_seconds / library_cpu_seconds:.2f}"]
        rows.append([query, *amounts, f"{seconds:.0f} s", *rates, f"{memory / GB:.1f} GB", *cpu])
    head = ["query", "captures, files", "packets", "rows", "time", "", "packets", "memory at most", "CPU", "to library"]
    return markdown_table(head, rows)


if __name__ == "__main__":
    sys.exit(main())
