"""``kwire decode``: print captures as a table, JSON lines or a tree with byte ranges, or extract packets.

Exit code 1 when a file is no capture, when no Kafka is found in it, or when something in it cannot be decoded.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from kwire import registry
from kwire.capture.model import CaptureError, LiveError
from kwire.capture.options import Options
from kwire.capture.rows.columns import LEVELS, level_columns
from kwire.cli.decode.arguments import add_arguments
from kwire.cli.exit_codes import INTERRUPTED, PROBLEM_FOUND, SUCCESS, USAGE_ERROR
from kwire.cli.usage_error import UsageError
from kwire.escape import escape, one_line

if TYPE_CHECKING:
    from kwire.capture.display_filter.display_filter import DisplayFilter
    from kwire.capture.display_filter.tokenizer import FilterError

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Decode every capture to stdout; notes about a whole file are printed to stderr."""
    _check_arguments(args)
    from kwire.capture.display_filter.tokenizer import FilterError

    try:
        display_filter = _parse_filter(args)
    except FilterError as error:
        _print_filter_error(error)
        return USAGE_ERROR
    options = _capture_options(args)
    from kwire.cli.decode.run import DecodeRun

    with _open_output(args) as out, _rare_collections():
        decoding = DecodeRun(args, options, display_filter, out)
        exit_code = SUCCESS
        for capture in args.captures or [args.interface]:
            try:
                exit_code = max(exit_code, decoding.decode(capture))
            except LiveError as error:
                raise UsageError(str(error)) from error
            except CaptureError as error:
                out.flush()
                print(f"kwire: {one_line(str(capture))}: {one_line(str(error))}", file=sys.stderr)
                exit_code = max(exit_code, PROBLEM_FOUND)
            if exit_code == INTERRUPTED:
                break
        decoding.close()
    return exit_code


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Search for reference cycles less often: rows have none, and each search reads all of those that are buffered."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _check_arguments(args: argparse.Namespace) -> None:
    """Check arguments that depend on each other."""
    registry.require_edition(args.edition)
    _normalize_arguments(args)
    _check_input(args)
    if args.format in {"tree", "pcapng"} and args.level != "messages":
        raise UsageError(f"--format {args.format} shows whole messages; --level requires table or jsonl")
    if args.columns and args.format not in {"table", "jsonl"}:
        raise UsageError("--columns requires table or jsonl")
    args.columns = [_find_column(name, args.level) for name in args.columns]
    if args.format == "pcapng" and args.output is None and sys.stdout.isatty():
        raise UsageError("pcapng is not printed to a terminal: name a file with -o, or use a pipe")


def _normalize_arguments(args: argparse.Namespace) -> None:
    """Replace the alternative forms of arguments."""
    args.captures = [*args.captures, *args.read]
    if args.write is not None:
        if args.output is not None or args.format not in {None, "pcapng"}:
            raise UsageError("-w means --format pcapng -o, and cannot be combined with another format or output")
        args.format, args.output = "pcapng", args.write
    args.format = args.format or "table"


def _find_column(name: str, level: str) -> str:
    """A column by its name, or by its short name in filters and tables."""
    from kwire.capture.display_filter.fields import filter_fields
    from kwire.capture.display_filter.operands import suggest_name

    columns = [column.name for column in level_columns(level)]
    short_names = {
        short: field.columns[0] for short, field in filter_fields(level).items() if field.columns[0] in columns
    }
    column_name = short_names.get(name, name)
    if column_name in columns:
        return column_name
    levels = [other for other in LEVELS if any(column.name == name for column in level_columns(other))]
    if levels:
        hint = f"; --level {' or '.join(levels)} has it"
    else:
        hint = suggest_name(name, [*short_names, *columns]) or f"; it has {', '.join(columns)}"
    raise UsageError(f"--columns: {name!r} is no column of {level}{hint}")


def _check_input(args: argparse.Namespace) -> None:
    if args.interface is not None and (args.captures or args.follow):
        raise UsageError("-i reads an interface, and cannot be combined with files")
    if args.interface is None and not args.captures:
        raise UsageError("a capture is required: a file, - for stdin, or -i and the name of an interface")
    for capture in args.captures if not args.follow else ():
        if os.path.isdir(capture):
            raise UsageError(f"{capture}: is a folder; name the files in it, or read new files with -f")
    if args.follow and len(args.captures) > 1:
        raise UsageError("--follow takes one file, folder or pattern in quotes")
    if args.duration is not None and not (args.follow or args.interface):
        raise UsageError("--duration requires --follow or -i")
    if args.count is not None and not args.interface:
        raise UsageError("--count requires -i; --limit counts rows")


def _parse_filter(args: argparse.Namespace) -> DisplayFilter | None:
    if args.filter is None:
        return None
    from kwire.capture.display_filter.display_filter import DisplayFilter

    display_filter = DisplayFilter(args.filter, args.level)
    if not args.payload and not display_filter.columns.isdisjoint({"key", "value"}):
        raise UsageError("--filter uses keys or values of records: it requires --payload")
    return display_filter


def _print_filter_error(error: FilterError) -> None:
    """Print what is wrong with a filter, and mark the position."""
    from kwire.cli.terminal import text_width

    before = escape(error.text[max(error.at - 60, 0) : error.at])
    marked = escape(error.text[error.at : error.at + error.size])
    after = escape(error.text[error.at + error.size :], limit=60)
    print(f"kwire: --filter: {one_line(str(error))}", file=sys.stderr)
    print(f"  {before}{marked}{after}", file=sys.stderr)
    print(f"  {' ' * text_width(before)}{'^' * max(text_width(marked), 1)}", file=sys.stderr)


def _capture_options(args: argparse.Namespace) -> Options:
    from kwire.cli.inputs import is_stream

    # Clients log secrets as they connect, so the key logs of a live input are read as they grow.
    is_live = args.follow or args.interface is not None or any(map(is_stream, args.captures))
    return Options(
        edition=args.edition,
        ports=frozenset(args.port),
        apis=frozenset(args.api),
        show_secrets=args.show_secrets,
        payload=args.payload,
        tls_keylog="" if is_live else _read_key_logs(args.tls_keylog),
        followed_keylogs=_wait_for_key_logs(args.tls_keylog) if is_live else (),
        topics=_read_topics(args.topics) if args.topics is not None else {},
        unpacked_size_max=args.unpacked_max,
    )


def _read_topics(path: str) -> dict[str, str]:
    from kwire.capture.kafka.topic_map import read_topic_map

    try:
        return read_topic_map(path)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _read_key_logs(paths: list[str]) -> str:
    if not paths:
        return ""
    from kwire.capture.tls.key_log import read_key_logs

    try:
        return read_key_logs(paths)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _wait_for_key_logs(paths: list[str]) -> tuple[str, ...]:
    if not paths:
        return ()
    from kwire.capture.tls.followed_key_log import find_waiting

    try:
        for path in find_waiting(paths):
            print(f"kwire: {one_line(path)}: it has no TLS secrets yet; waiting for them", file=sys.stderr)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return tuple(paths)


@contextmanager
def _open_output(args: argparse.Namespace) -> Iterator[TextIO]:
    """Stdout, or the named file; input files must not be overwritten."""
    if args.output is None:
        yield sys.stdout
        return
    _check_output(args)
    with open(args.output, "w", encoding="utf-8", errors="backslashreplace") as text:
        yield text


def _check_output(args: argparse.Namespace) -> None:
    from kwire.cli.inputs import is_read_by_follow

    output: str = args.output
    for capture in args.captures:
        if _is_same_file(capture, output):
            raise UsageError(f"{output}: is the capture that is read")
        if args.follow and is_read_by_follow(capture, output):
            raise UsageError(f"{output}: is among the captures that --follow reads; write to another place")
    for input_file in (*args.tls_keylog, *([] if args.topics is None else [args.topics])):
        if _is_same_file(input_file, output):
            raise UsageError(f"{output}: is an input too, and would be overwritten")


def _is_same_file(path: str, other: str) -> bool:
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)
