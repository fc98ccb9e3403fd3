"""Spark over many captures: `python -m tools.bench.scale --size 10` generates 10 GB, reads 1x, 2x and 4x, and plots.

It says first how much disk it needs, and stops where there is not so much; what it generated is deleted in the end,
however that comes. With `--write` the plot and the figures go to docs/.
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
from tools.bench.page import machine, table, write_section
from tools.bench.scale_copies import Template, write_files
from tools.bench.scale_plot import plot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DOCS = Path(__file__).parents[2] / "docs"
GB = 1_000_000_000
SHARES = (4, 2, 1)
# Room for Spark's own scratch files and the templates.
_SPARE = 2 * GB
_MEMORY_SAMPLE_S = 0.5


class Measured(NamedTuple):
    """One query over one set."""

    query: str
    size: int
    packets: int
    files: int
    rows: int
    seconds: float
    memory: int


def latency(rows: DataFrame) -> DataFrame:
    """What heads alone tell."""
    return rows.groupBy("api_name").agg({"latency_us": "max", "*": "count"}).withColumnRenamed("count(1)", "count")


def errors(rows: DataFrame) -> DataFrame:
    """Every body decoded."""
    return rows.groupBy("api_name", "error_name").count()


QUERIES: dict[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
    "latency by API": ("api_name,latency_us", latency),
    "errors by API, every body decoded": ("api_name,error_name,n_partitions", errors),
}


def main() -> int:
    """Generate, measure, clean up; 1 when there is not enough disk, or when counts disagree."""
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
        print(f"needs {(size + _SPARE) / GB:.1f} GB of disk in {folder}, where {free / GB:.1f} GB are free", flush=True)
        if free < size + _SPARE:
            print("that is not enough: choose a smaller --size, or another --folder", file=sys.stderr)
            return 1
        measured = _measure(folder, size, int(args.file_size * GB), args.master)
    print(_table(measured))
    print(json.dumps([each._asdict() for each in measured]))
    if args.write:
        (DOCS / "scale.svg").write_text(plot(measured), encoding="utf-8")
        write_section("scale", f"{_table(measured)}\n\n{machine()}.", DOCS / "planning.md")
    return 0


def _measure(folder: Path, size: int, file_size: int, master: str) -> list[Measured]:
    import kwire.spark

    files = list(write_files(_templates(folder), folder, size=size, file_size=file_size))
    print(f"{len(files)} files, {sum(count for _, count in files):,} packets", flush=True)
    spark = kwire.spark.session(master, app_name="scale", settings={"spark.driver.memory": "2g"})
    try:
        # The first query pays for starting workers and for compiling.
        _run(spark, "latency by API", files[:1])
        found = []
        for share in SHARES:
            part = files[: max(len(files) // share, 1)]
            for query in QUERIES:
                found.append(_run(spark, query, part))
                print(found[-1], flush=True)
        return found
    finally:
        kwire.spark.end(spark)


def _run(spark: SparkSession, query: str, files: list[tuple[Path, int]]) -> Measured:
    columns, build = QUERIES[query]
    begun = time.monotonic()
    with _memory() as peak:
        reader = spark.read.format("kafka_capture").option("columns", columns).option("index", "none")
        rows = reader.load([str(path) for path, _ in files])
        counted = sum(row["count"] for row in build(rows).collect())
    seconds = time.monotonic() - begun
    size = sum(path.stat().st_size for path, _ in files)
    return Measured(query, size, sum(count for _, count in files), len(files), counted, seconds, max(peak))


def _templates(folder: Path) -> list[Template]:
    """Small packets and large ones, of real clients."""
    made = []
    for kind, messages in (("small", 20_000), ("large", 2_000)):
        capture = folder / f"{kind}.pcapng"
        port = write_capture(kind, capture, messages=messages)
        made.append(Template(capture, port))
        print(f"{kind}: {made[-1].packet_count:,} packets, {made[-1].size / 1e6:.1f} MB", flush=True)
        capture.unlink()
    return made


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    """A folder that is not there afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="kwire-scale-", dir=chosen))
    # A signal to end must not leave gigabytes behind.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _memory() -> Iterator[list[int]]:
    """The memory of this process and its children, sampled: bytes, as Linux counts them (shared pages by share)."""
    peak, is_over = [0], threading.Event()

    def sample() -> None:
        while not is_over.wait(_MEMORY_SAMPLE_S):
            peak.append(sum(map(_resident, _family(os.getpid()))))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        is_over.set()
        thread.join()


def _family(pid: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except OSError:
        return []
    return [pid, *(each for child in children for each in _family(child))]


def _resident(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def _table(measured: list[Measured]) -> str:
    rows = [
        [
            each.query,
            f"{each.size / GB:.1f} GB in {each.files}",
            f"{each.packets / 1e6:.1f} M",
            f"{each.rows / 1e6:.2f} M",
            f"{each.seconds:.0f} s",
            f"{each.size / each.seconds / 1e6:.0f} MB/s",
            f"{each.packets / each.seconds / 1e3:.0f} k/s",
            f"{each.memory / GB:.1f} GB",
        ]
        for each in measured
    ]
    return table(["query", "captures, files", "packets", "rows", "time", "", "packets", "memory at most"], rows)


if __name__ == "__main__":
    sys.exit(main())
