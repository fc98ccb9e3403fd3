"""``kwire report``: one HTML page about captures, or about what changed between two, computed by Spark."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kwire.cli.exit_codes import FOUND_WRONG, GOOD
from kwire.cli.wrong_use import WrongUseError
from kwire.registry import DEFAULT_EDITION

# Bytes of captures from which Spark works long enough to be worth a slower start.
LARGE = 256 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``kwire report``."""
    parser.add_argument(
        "captures", nargs="+", metavar="CAPTURE", help="pcap or pcapng file, pattern, or directory of such files"
    )
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="FILE", help="the page to write, as report.html"
    )
    parser.add_argument("--compare", action="store_true", help="show what changed from the first CAPTURE to the second")
    parser.add_argument(
        "--payload", action="store_true", help="show how the keys and values of poison records begin (default: hidden)"
    )
    parser.add_argument("--parquet", metavar="DIR", help="write each table as Parquet too, into this new directory")
    parser.add_argument("--edition", default=DEFAULT_EDITION, help="edition of the protocol (default: %(default)s)")
    parser.add_argument(
        "--port",
        action="append",
        type=int,
        default=[],
        help="a broker's port; may be repeated (default: find Kafka by looking)",
    )
    parser.add_argument("--tls-keylog", metavar="FILE", help="secrets of TLS connections (SSLKEYLOGFILE)")
    parser.add_argument("--master", default="local[*]", help="the Spark to run on (default: %(default)s, this machine)")


def run(args: argparse.Namespace) -> int:
    """Write the page; its path goes to stdout, the progress to stderr."""
    # The cheap ways to fail come before Spark, which takes seconds to start.
    from kwire import spark

    spark.require()
    from kwire.spark import engine, paths, report

    sides = _sides(args, paths.expand)
    files = [file for side in sides for file in side]
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
    _check(files, options)
    progress = _clocked()
    progress("starting Spark")
    found_running = engine.is_running()
    session = spark.session(args.master, is_short=sum(map(os.path.getsize, files)) < LARGE)
    try:
        if args.compare:
            changes = report.write_changes(session, sides[0], sides[1], args.output, options=options, progress=progress)
            requests = [changes.before.requests, changes.after.requests]
        else:
            found = report.write(session, files, args.output, options=options, progress=progress, parquet=args.parquet)
            requests = [found.requests]
    finally:
        if not found_running:
            spark.end(session)
    progress(f"done: {sum(requests):,} requests")
    print(args.output)
    return GOOD if all(requests) else FOUND_WRONG


def _sides(args: argparse.Namespace, expand: Callable[[Sequence[str]], list[str]]) -> list[list[str]]:
    """The files of one report, or of the two captures to compare."""
    if not args.compare:
        return [expand(args.captures)]
    if len(args.captures) != 2:
        raise WrongUseError(f"--compare takes two captures, not {len(args.captures)}; quote a pattern")
    if args.parquet is not None:
        raise WrongUseError("--parquet writes the tables of one report, not of two")
    return [expand([capture]) for capture in args.captures]


def _check(files: Sequence[str], options: Mapping[str, str]) -> None:
    from kwire.capture.packets import packets
    from kwire.capture.values import CaptureError
    from kwire.spark.options import parse

    try:
        parse(options)
    except ValueError as error:
        raise WrongUseError(str(error)) from error
    for file in files:
        try:
            next(packets(file), None)
        except CaptureError as error:
            raise WrongUseError(f"{file}: {error}") from error


def _clocked() -> Callable[[str], None]:
    start = time.monotonic()

    def say(step: str) -> None:
        """One line of progress."""
        print(f"[{time.monotonic() - start:5.1f} s] {step}", file=sys.stderr, flush=True)

    return say
