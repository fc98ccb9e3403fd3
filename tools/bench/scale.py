"""Spark on many captures: `python -m tools.bench.scale --size 10` generates 10 GB, reads 1x, 2x and 4x, and plots.

It prints the needed disk space first and stops if there is less; the generated files are always deleted at the end.
With `--write` the plot and the figures are written to docs/.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tools.bench.capture_traffic import write_capture
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
_MEMORY_SAMPLE_S = 0.5


class Measurement(NamedTuple):
    """One query on one set of files."""

    query: str
    size: int
    packets: int
    files: int
    rows: int
    seconds: float
    memory: int


def latency(rows: DataFrame) -> DataFrame:
    """A query that needs headers only."""
    return rows.groupBy("api_name").agg({"latency_us": "max", "*": "count"}).withColumnRenamed("count(1)", "count")


def errors(rows: DataFrame) -> DataFrame:
    """A query that needs every body."""
    return rows.groupBy("api_name", "error_name").count()


QUERIES: dict[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
    "latency by API": ("api_name,latency_us", latency),
    "errors by API, every body decoded": ("api_name,error_name,n_partitions", errors),
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


def _run(spark: SparkSession, query: str, files: list[tuple[Path, int]]) -> Measurement:
    columns, build = QUERIES[query]
    started = time.monotonic()
    with _memory() as peak:
        reader = spark.read.format("kafka_capture").option("columns", columns).option("index", "none")
        rows = reader.load([str(path) for path, _ in files])
        counted = sum(row["count"] for row in build(rows).collect())
    seconds = time.monotonic() - started
    size = sum(path.stat().st_size for path, _ in files)
    return Measurement(query, size, sum(count for _, count in files), len(files), counted, seconds, max(peak))


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


@contextmanager
def _memory() -> Iterator[list[int]]:
    """Sample the memory of this process and its children, in bytes (proportional set size)."""
    peak, is_over = [0], threading.Event()

    def sample() -> None:
        while not is_over.wait(_MEMORY_SAMPLE_S):
            peak.append(sum(map(_resident, _process_tree(os.getpid()))))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        is_over.set()
        thread.join()


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


def _table(measurements: list[Measurement]) -> str:
    rows = []
    for query, size, packets, files, row_count, seconds, memory in measurements:
        amounts = [f"{size / GB:.1f} GB in {files}", f"{packets / 1e6:.1f} M", f"{row_count / 1e6:.2f} M"]
        rates = [f"{size / seconds / 1e6:.0f} MB/s", f"{packets / seconds / 1e3:.0f} k/s"]
        rows.append([query, *amounts, f"{seconds:.0f} s", *rates, f"{memory / GB:.1f} GB"])
    head = ["query", "captures, files", "packets", "rows", "time", "", "packets", "memory at most"]
    return markdown_table(head, rows)


if __name__ == "__main__":
    sys.exit(main())
