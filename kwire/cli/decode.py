"""``kwire decode``: captures as a table, JSON lines, a tree with byte ranges, or the packets that matter.

Exit code 1 when a file is no capture, when no Kafka is found in it, or when something in it cannot be decoded.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from kwire import registry
from kwire.capture.options import Options
from kwire.capture.schemas import columns
from kwire.capture.values import CaptureError, LiveError
from kwire.cli.decode_arguments import add_arguments
from kwire.cli.exit_codes import FOUND_WRONG, GOOD, INTERRUPTED, WRONG_USE
from kwire.cli.wrong_use import WrongUseError
from kwire.escape import escape, one_line

if TYPE_CHECKING:
    from kwire.capture.where.tokens import FilterError
    from kwire.capture.where.where import Where

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Decode every capture to stdout; what concerns a whole file goes to stderr."""
    _check(args)
    from kwire.capture.where.tokens import FilterError

    try:
        where = _where(args)
    except FilterError as error:
        _point_at(error)
        return WRONG_USE
    options = _options(args)
    from kwire.cli.decode_run import Decoding

    with _output(args) as out:
        decoding = Decoding(args, options, where, out)
        worst = GOOD
        for capture in args.captures or [args.interface]:
            try:
                worst = max(worst, decoding.decode(capture))
            except LiveError as error:
                raise WrongUseError(str(error)) from error
            except CaptureError as error:
                out.flush()
                print(f"kwire: {one_line(str(capture))}: {one_line(str(error))}", file=sys.stderr)
                worst = max(worst, FOUND_WRONG)
            if worst == INTERRUPTED:
                break
        decoding.close()
    return worst


def _check(args: argparse.Namespace) -> None:
    """What one argument cannot know of the others."""
    registry.require_edition(args.edition)
    _settle(args)
    _check_input(args)
    if args.format in {"tree", "pcapng"} and args.level != "messages":
        raise WrongUseError(f"--format {args.format} shows whole messages; --level goes with table and jsonl")
    if args.columns and args.format not in {"table", "jsonl"}:
        raise WrongUseError("--columns goes with table and jsonl")
    args.columns = [_column(name, args.level) for name in args.columns]
    if args.format == "pcapng" and args.output is None and sys.stdout.isatty():
        raise WrongUseError("pcapng is not for a terminal: name a file with -o, or write into a pipe")


def _settle(args: argparse.Namespace) -> None:
    """What may be said in two ways is said in one from here on."""
    args.captures = [*args.captures, *args.read]
    if args.write is not None:
        if args.output is not None or args.format not in {None, "pcapng"}:
            raise WrongUseError("-w is short for --format pcapng -o, and goes with no other of them")
        args.format, args.output = "pcapng", args.write
    args.format = args.format or "table"


def _column(name: str, level: str) -> str:
    """A column by its name, or by the short one that filters and tables have for it."""
    from kwire.capture.where.fields import fields
    from kwire.capture.where.operands import nearest

    there = [column.name for column in columns(level)]
    field = fields(level).get(name)
    found = name if field is None else field.columns[0]
    if found not in there:
        near = nearest(name, [*fields(level), *there])
        raise WrongUseError(f"--columns: {name!r} is no column of {level}{near or '; it has ' + ', '.join(there)}")
    return found


def _check_input(args: argparse.Namespace) -> None:
    if args.interface is not None and (args.captures or args.follow):
        raise WrongUseError("-i reads an interface, and no files beside it")
    if args.interface is None and not args.captures:
        raise WrongUseError("which capture? A file, - for stdin, or -i and the name of an interface")
    for capture in args.captures if not args.follow else ():
        if os.path.isdir(capture):
            raise WrongUseError(
                f"{capture}: is a folder; name the files in it, or follow what is written there with -f"
            )
    if args.follow and len(args.captures) > 1:
        raise WrongUseError("--follow goes with one file, folder or pattern in quotes")
    if args.duration is not None and not (args.follow or args.interface):
        raise WrongUseError("--duration goes with --follow and -i")
    if args.count is not None and not args.interface:
        raise WrongUseError("--count goes with -i; --limit counts rows")


def _where(args: argparse.Namespace) -> Where | None:
    if args.filter is None:
        return None
    from kwire.capture.where.where import Where

    where = Where(args.filter, args.level)
    if not args.payload and not where.columns.isdisjoint({"key", "value"}):
        raise WrongUseError("--filter asks for keys or values of records: it takes --payload")
    return where


def _point_at(error: FilterError) -> None:
    """Say what is wrong with a filter, and show where."""
    from kwire.cli.terminal import width_of

    before = escape(error.text[max(error.at - 60, 0) : error.at])
    there = escape(error.text[error.at : error.at + error.size])
    after = escape(error.text[error.at + error.size :], limit=60)
    print(f"kwire: --filter: {one_line(str(error))}", file=sys.stderr)
    print(f"  {before}{there}{after}", file=sys.stderr)
    print(f"  {' ' * width_of(before)}{'^' * max(width_of(there), 1)}", file=sys.stderr)


def _options(args: argparse.Namespace) -> Options:
    return Options(
        edition=args.edition,
        ports=frozenset(args.port),
        apis=frozenset(args.api),
        show_secrets=args.show_secrets,
        payload=args.payload,
        tls_keylog=_key_logs(args.tls_keylog),
        topics=_topics(args.topics) if args.topics is not None else {},
    )


def _topics(path: str) -> dict[str, str]:
    from kwire.capture.topic_map import read_topics

    try:
        return read_topics(path)
    except ValueError as error:
        raise WrongUseError(str(error)) from error


def _key_logs(paths: list[str]) -> str:
    if not paths:
        return ""
    from kwire.capture.keylog import read_key_logs

    try:
        return read_key_logs(paths)
    except ValueError as error:
        raise WrongUseError(str(error)) from error


@contextmanager
def _output(args: argparse.Namespace) -> Iterator[TextIO]:
    """Stdout, or the file that was named; nothing that is read must be written over."""
    if args.output is None:
        yield sys.stdout
        return
    _check_output(args)
    with open(args.output, "w", encoding="utf-8", errors="backslashreplace") as text:
        yield text


def _check_output(args: argparse.Namespace) -> None:
    from kwire.cli.feeds import is_followed

    output: str = args.output
    for capture in args.captures:
        if _is_one_file(capture, output):
            raise WrongUseError(f"{output}: is the capture that is read")
        if args.follow and is_followed(capture, output):
            raise WrongUseError(f"{output}: is among the captures that --follow reads; write it somewhere else")
    for read in (*args.tls_keylog, *([] if args.topics is None else [args.topics])):
        if _is_one_file(read, output):
            raise WrongUseError(f"{output}: is read too, and would be written over")


def _is_one_file(path: str, other: str) -> bool:
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)
