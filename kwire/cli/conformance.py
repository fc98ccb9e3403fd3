"""``kwire conformance``: what clients did wrong in captures, by the rules of docs/conformance.md."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from kwire.capture.model import CaptureError
from kwire.capture.options import Options
from kwire.cli.edition import add_edition_arguments
from kwire.cli.exit_codes import PROBLEM_FOUND, SUCCESS
from kwire.cli.unpacking import add_unpacked_argument, open_with_progress
from kwire.cli.usage_error import UsageError
from kwire.escape import one_line, safe_json
from kwire.registry import require_edition

if TYPE_CHECKING:
    from kwire.conformance.model import Note

FORMATS = ("text", "jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``kwire conformance``."""
    parser.epilog = "Exit codes: 0 no notes; 1 notes, or a capture that cannot be read; 2 usage error."
    add = parser.add_argument
    add("captures", nargs="+", metavar="CAPTURE", help="pcap or pcapng, plain or compressed; - for stdin")
    add("--ignore", action="append", default=[], metavar="RULE", help="a rule to leave out; may be repeated")
    add("--client-id", action="append", default=[], metavar="ID", help="only clients with this id; may be repeated")
    add("--port", action="append", type=int, default=[], help="a broker's port; may be repeated (default: any port)")
    keylog_help = "secrets of TLS connections (SSLKEYLOGFILE); may be repeated"
    add("--tls-keylog", action="append", default=[], metavar="FILE", help=keylog_help)
    add("-T", "--format", choices=FORMATS, default="text", help=f"{' or '.join(FORMATS)} (default: text)")
    add_unpacked_argument(parser)
    add_edition_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the notes about every capture to stdout, one line each, and what could not be read to stderr."""
    from kwire.conformance.rules import check_rule_ids

    require_edition(args.edition)
    try:
        ignored = check_rule_ids(args.ignore)
    except ValueError as error:
        raise UsageError(f"--ignore: {error}") from error
    keys = []
    for path in args.tls_keylog:
        with open(path, encoding="utf-8", errors="replace") as file:
            keys.append(file.read())
    options = Options(
        edition=args.edition,
        ports=frozenset(args.port),
        tls_keylog="\n".join(keys),
        unpacked_size_max=args.unpacked_max,
    )
    exit_code = SUCCESS
    for capture in args.captures:
        try:
            notes = _judge(capture, options)
        except CaptureError as error:
            sys.stdout.flush()
            print(f"kwire: {one_line(capture)}: {one_line(str(error))}", file=sys.stderr)
            exit_code = PROBLEM_FOUND
            continue
        shown = [
            note
            for note in notes
            if note.rule not in ignored and (not args.client_id or note.client_id in args.client_id)
        ]
        for note in shown:
            print(_format_note(note, capture if len(args.captures) > 1 else None, args.format))
        if shown:
            exit_code = PROBLEM_FOUND
    return exit_code


def _judge(capture: str, options: Options) -> list[Note]:
    from kwire.conformance.capture_exchanges import CaptureObserver
    from kwire.conformance.checker import find_notes

    observer = CaptureObserver()
    with ExitStack() as stack:
        source = sys.stdin.buffer if capture == "-" else open_with_progress(capture, stack)
        notes = find_notes(observer.observe(source, options))
    for detail, count in observer.unread.items():
        times = f" ({count} times)" if count > 1 else ""
        print(f"kwire: {one_line(capture)}: {one_line(detail)}{times}", file=sys.stderr)
    if not observer.exchanges:
        raise CaptureError("no Kafka request that can be read")
    return notes


def _format_note(note: Note, capture: str | None, output_format: str) -> str:
    if output_format == "jsonl":
        fields = {"file": capture} if capture is not None else {}
        return safe_json({**fields, **msgspec.to_builtins(note)})
    seconds, nanoseconds = divmod(note.at_ns, 1_000_000_000)
    time = f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}.{nanoseconds // 1_000_000:03d}"
    packets = f"packet{'s' if len(note.packets) > 1 else ''} {', '.join(map(str, note.packets))}"
    client = repr(note.client_id) if note.client_id else "without an id"
    prefix = f"{capture}: " if capture is not None else ""
    place = f"client {client}, {note.connection}, {packets}"
    return one_line(f"{prefix}{time} {note.level} {note.rule}: {note.text} ({place}; {note.source})")
