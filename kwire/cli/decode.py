"""``kwire decode``: captures as a table, JSON lines, or a tree with byte ranges.

Exit code 1 when a file is no capture, when no Kafka is found in it, or when something in it cannot be decoded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kwire import registry
from kwire.capture.options import Options
from kwire.capture.rows import STATUSES
from kwire.capture.schemas import LEVELS
from kwire.capture.values import CaptureError
from kwire.cli.wrong_use import WrongUseError
from kwire.escape import one_line

if TYPE_CHECKING:
    from kwire.capture.exchange import Outcome
    from kwire.cli.decode_view import View

GOOD, FOUND_WRONG = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``kwire decode``."""
    parser.add_argument("captures", nargs="+", metavar="CAPTURE", help="pcap or pcapng, plain or packed; - is stdin")
    parser.add_argument("--format", choices=("table", "jsonl", "tree"), default="table", help="default: table")
    parser.add_argument("--level", choices=tuple(LEVELS), default="messages", help="what a row is (default: messages)")
    parser.add_argument(
        "--port", action="append", type=_port, default=[], help="a broker's port (default: find Kafka by looking)"
    )
    parser.add_argument("--api", action="append", type=_api, default=[], help="only this API, as ShareFetch")
    parser.add_argument("--client-id", action="append", default=[], metavar="ID", help="only this client id")
    parser.add_argument("--error", action="store_true", help="only what was answered with an error")
    parser.add_argument("--status", action="append", choices=STATUSES, default=[], help="only this status")
    parser.add_argument("--edition", default=registry.DEFAULT_EDITION, help="of the messages (default: %(default)s)")
    parser.add_argument(
        "--tls-keylog", action="append", default=[], metavar="FILE", help="secrets of TLS connections (SSLKEYLOGFILE)"
    )
    parser.add_argument("--show-secrets", action="store_true", help="show credentials instead of ***")
    parser.add_argument("--payload", action="store_true", help="show keys and values of records")


def run(args: argparse.Namespace) -> int:
    """Decode every capture to stdout; what concerns a whole file goes to stderr."""
    registry.require_edition(args.edition)
    if args.format == "tree" and args.level != "messages":
        raise WrongUseError("--format tree shows whole messages; --level goes with table and jsonl")
    options = Options(
        edition=args.edition,
        ports=frozenset(args.port),
        apis=frozenset(args.api),
        show_secrets=args.show_secrets,
        payload=args.payload,
        tls_keylog=_key_logs(args.tls_keylog),
    )
    view = _view(args)
    worst = GOOD
    for capture in args.captures:
        try:
            worst = max(worst, _decode(capture, view, options, args))
        except CaptureError as error:
            sys.stdout.flush()
            print(f"kwire: {one_line(str(capture))}: {one_line(str(error))}", file=sys.stderr)
            worst = FOUND_WRONG
    return worst


def _decode(capture: str, view: View, options: Options, args: argparse.Namespace) -> int:
    from kwire.capture.pipeline import ordered, outcomes
    from kwire.cli.decode_filter import Filter, Tally

    tally = Tally()
    source = sys.stdin.buffer if capture == "-" else capture
    chosen = Filter(options, client_ids=args.client_id, only_errors=args.error, statuses=args.status)
    make: Callable[[Outcome], list[str]] = view.maker(capture, options, chosen)
    lines: Iterator[str] = ordered(tally.counted(outcomes(source, options, args.level)), make)
    # Several files are told apart by a head line; JSON lines have a column for that.
    head = len(args.captures) > 1 and args.format != "jsonl"
    for line in view.laid_out(lines):
        if head:
            print(f"== {one_line(capture)}")
            head = False
        print(line)
    for note in tally.notes():
        print(f"kwire: {one_line(capture)}: {note}", file=sys.stderr)
    return FOUND_WRONG if tally.found_wrong else GOOD


def _view(args: argparse.Namespace) -> View:
    from kwire.cli import decode_view

    if args.format == "jsonl":
        return decode_view.JsonLines(args.level)
    if args.format == "tree":
        return decode_view.Trees()
    return decode_view.Table() if args.level == "messages" else decode_view.LevelTable(args.level)


def _key_logs(paths: list[str]) -> str:
    from kwire.capture.keylog import read_key_logs

    try:
        return read_key_logs(paths)
    except ValueError as error:
        raise WrongUseError(str(error)) from error


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _api(text: str) -> str:
    names = {registry.api_name(key).lower(): registry.api_name(key) for key in registry.API_KEYS}
    found = names.get(text.lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an API, as Fetch or ShareFetch")
    return found
