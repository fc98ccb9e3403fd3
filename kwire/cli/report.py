"""``kwire report``: an HTML page about captures, or about the changes between two, computed by Spark."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cli.edition import add_edition_arguments
from kwire.cli.exit_codes import PROBLEM_FOUND, SUCCESS
from kwire.cli.unpacking import add_unpacked_argument
from kwire.cli.usage_error import UsageError
from kwire.escape import one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kwire.report.levels import Decoded

Progress = Callable[[str], None]

# Without it PySpark asks the JVM for the caller of each expression, which takes a tenth of a small report's time.
SETTINGS = {"spark.python.sql.dataFrameDebugging.enabled": "false"}

# Size of captures, bytes, from which a slower start of Spark is worth its higher throughput.
LARGE_SIZE = 256 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``kwire report``."""
    add = parser.add_argument
    add("captures", nargs="+", metavar="CAPTURE", help="pcap or pcapng file, pattern, or directory of such files")
    add("-o", "--output", required=True, type=Path, metavar="FILE", help="the page to write, as report.html")
    add("--compare", action="store_true", help="show what changed from the first CAPTURE to the second")
    payload_help = "show the first bytes of keys and values of poison records (default: hidden)"
    add("--payload", action="store_true", help=payload_help)
    add("--parquet", metavar="DIR", help="also write each table as Parquet, into this new directory")
    add_edition_arguments(parser)
    port_help = "a broker's port; may be repeated (default: detect Kafka on any port)"
    add("--port", action="append", type=int, default=[], help=port_help)
    add("--tls-keylog", metavar="FILE", help="secrets of TLS connections (SSLKEYLOGFILE)")
    add_unpacked_argument(parser)
    add("--master", default="local[*]", help="Spark master to run on (default: %(default)s, this machine)")


def run(args: argparse.Namespace) -> int:
    """Write the page; its path is printed to stdout, progress to stderr."""
    # Arguments are checked before Spark is started, which takes seconds.
    from kwire import spark

    spark.require()
    from kwire.spark import paths

    captures = _report_files(args, paths.expand_names)
    files = [file for side in captures for file in side]
    if not args.output.parent.is_dir():
        raise FileNotFoundError(2, "No such directory", str(args.output.parent))
    if args.output.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(args.output))
    if args.parquet is not None and Path(args.parquet).exists():
        raise FileExistsError(17, "Exists already", args.parquet)
    options = {"edition": args.edition, "ports": ",".join(map(str, args.port))}
    if args.payload:
        options["payload"] = "true"
    if args.tls_keylog is not None:
        options["tls_keylog"] = args.tls_keylog
    if args.unpacked_max is not None:
        options["unpacked_size_max"] = str(args.unpacked_max)
    _check_inputs(files, options)
    progress = _progress_printer()
    is_short = sum(map(os.path.getsize, files)) < LARGE_SIZE
    # PySpark's modules import each other in circles, so they are imported before two threads use them.
    from kwire.spark import spark_session

    # A session that runs already may be that of a cluster; the report then asks it.
    is_local = args.master.split("[")[0] == "local" and not spark_session.is_running()
    with ThreadPoolExecutor(1) as pool:
        decoding = pool.submit(_decode_captures, captures, options, progress, is_local=is_local)
        try:
            with _report_session(args.master, is_short=is_short, progress=progress) as session:
                decoded = decoding.result()
                if None in decoded:
                    spark_session.register(session)
                requests = _write_page(session, args, captures, decoded, options=options, progress=progress)
                progress(f"done: {sum(requests):,} requests")
                print(args.output, flush=True)
        except BaseException:
            _end_decoding()  # Which the end of the pool would wait for.
            raise
    return SUCCESS if all(requests) else PROBLEM_FOUND


def _end_decoding() -> None:
    from kwire.report.level_files import end_decoding

    end_decoding()


def _decode_captures(
    captures: Sequence[Sequence[str]], options: Mapping[str, str], progress: Progress, *, is_local: bool
) -> list[Decoded | None]:
    """The levels of captures on this machine; None where a cluster reads them. It runs while the JVM starts."""
    from kwire.report import formats, write  # noqa: F401
    from kwire.report.levels import decode_levels, is_small

    decoded = []
    for files in captures:
        if is_local or is_small(files):
            progress(f"decoding {formats.plural(len(files), 'capture file')}")
        decoded.append(decode_levels(files, options, is_local=is_local))
    return decoded


def _write_page(
    session: SparkSession,
    args: argparse.Namespace,
    captures: Sequence[Sequence[str]],
    decoded: Sequence[Decoded | None],
    *,
    options: Mapping[str, str],
    progress: Progress,
) -> list[int]:
    """Write the page of one report, or of two. Returns: the number of requests of each."""
    from kwire.report.write import write_changes, write_report

    if args.compare:
        before, after = captures
        changes = write_changes(
            session, before, after, args.output, options=options, progress=progress, decoded=decoded
        )
        return [changes.before.requests, changes.after.requests]
    report = write_report(
        session,
        captures[0],
        args.output,
        options=options,
        progress=progress,
        parquet=args.parquet,
        decoded=decoded[0],
    )
    return [report.requests]


@contextmanager
def _report_session(master: str, *, is_short: bool, progress: Progress) -> Iterator[SparkSession]:
    """The session of a report: a running one, or one that ends with the context.

    The first short one leaves an archive of Spark's classes, with which later ones start sooner.
    """
    from kwire.spark import class_archive, java, spark_session

    if spark_session.is_running():
        yield spark_session.start(master)
        return
    progress("starting Spark")
    archive = class_archive.find_archive(java.find_java()) if is_short and master.startswith("local[") else None
    java_options = archive.writing_options() if archive is not None else ""
    # More tasks than cores only cost time here.
    local_settings = {"spark.sql.shuffle.partitions": str(min(4, os.cpu_count() or 1))}
    settings = {**SETTINGS, **(local_settings if master.startswith("local[") else {})}
    session = spark_session.start(master, settings=settings, is_short=is_short, java_options=java_options)
    try:
        yield session
    finally:
        if archive is not None and java_options:
            progress(
                f"storing the classes of Spark, about 170 MB, in {archive.path}, once, so that the next report starts "
                "sooner; kwire cache --clear removes them"
            )
        spark_session.end(session)
        if archive is not None:
            archive.complete()


def _report_files(args: argparse.Namespace, expand: Callable[[Sequence[str]], list[str]]) -> list[list[str]]:
    """The files of one report, or of the two captures to compare."""
    if not args.compare:
        return [expand(args.captures)]
    if len(args.captures) != 2:
        raise UsageError(f"--compare takes two captures, not {len(args.captures)}; quote a pattern")
    if args.parquet is not None:
        raise UsageError("--parquet writes the tables of one report, not of two")
    return [expand([capture]) for capture in args.captures]


def _check_inputs(files: Sequence[str], options: Mapping[str, str]) -> None:
    from kwire.capture.files.packet_reader import read_packets
    from kwire.capture.model import CaptureError
    from kwire.spark.source.options import parse_reader_options

    try:
        parse_reader_options(options)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for file in files:
        try:
            next(read_packets(file), None)
        except CaptureError as error:
            raise UsageError(f"{file}: {error}") from error


def _progress_printer() -> Progress:
    start = time.monotonic()

    def print_progress(step: str) -> None:
        """Print one line of progress."""
        print(f"[{time.monotonic() - start:5.1f} s] {one_line(step)}", file=sys.stderr, flush=True)

    return print_progress
