"""The command `mockbroker replay`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kwire.capture.model import CaptureError
from kwire.capture.options import Options
from kwire.cli.unpacking import add_unpacked_argument
from kwire.client import ClientError
from kwire.client.address import parse_bootstrap
from kwire.errors import MissingExtra, UnsupportedVersion
from kwire.escape import one_line
from kwire.registry import DEFAULT_EDITION, EDITIONS, require_edition
from mockbroker.replay.captured import Conversation, ReplayError, read_conversation
from mockbroker.replay.replayer import ReplayedExchange, ReplayOptions, replay

_EQUAL, _DIFFERENT, _USAGE = 0, 1, 2
_SHOWN_MAX = 20
_VALUE_MAX = 100


def main(arguments: Sequence[str]) -> int:
    """Run the command. Exit codes: 0 equal, 1 different, 2 wrong usage or a capture that cannot be replayed."""
    parsed = create_parser().parse_args(arguments)
    try:
        return _run(parsed)
    except CaptureError as error:
        print(f"mockbroker replay: {one_line(parsed.capture)}: {one_line(str(error))}", file=sys.stderr)
        return _USAGE
    except (ReplayError, ClientError, OSError, ValueError, MissingExtra, UnsupportedVersion) as error:
        print(f"mockbroker replay: {one_line(str(error))}", file=sys.stderr)
        return _USAGE


def _run(parsed: argparse.Namespace) -> int:
    require_edition(parsed.edition)
    parse_bootstrap(parsed.to)
    keys = []
    for path in parsed.tls_keylog:
        with open(path, encoding="utf-8", errors="replace") as file:
            keys.append(file.read())
    ports = frozenset(parsed.port)
    conversation = read_conversation(
        parsed.capture,
        Options(
            edition=parsed.edition,
            ports=ports,
            tls_keylog="\n".join(keys),
            unpacked_size_max=parsed.unpacked_max,
        ),
    )
    _report_unreadable(conversation, is_partial=parsed.partial)
    sent = different = 0
    for exchange in replay(conversation, ReplayOptions(parsed.to, parsed.speed, parsed.timeout)):
        sent += 1
        if exchange.differences:
            different += 1
            _print_differences(exchange)
    print(f"{sent} of {len(conversation.exchanges)} requests compared, {different} different")
    return _DIFFERENT if different else _EQUAL


def _report_unreadable(conversation: Conversation, *, is_partial: bool) -> None:
    """Name what cannot be sent. Raises: ReplayError if there is any, unless the rest is to be sent."""
    texts = [f"{count} times {what}" if count > 1 else what for what, count in conversation.unreadable.items()]
    if not conversation.exchanges:
        raise ReplayError("; ".join(["no request that can be sent", *texts[:_SHOWN_MAX]]))
    if texts and not is_partial:
        raise ReplayError("; ".join([*texts[:_SHOWN_MAX], "--partial sends the rest"]))
    for text in texts[:_SHOWN_MAX]:
        print(f"mockbroker replay: not sent: {one_line(text)}", file=sys.stderr)


def _print_differences(exchange: ReplayedExchange) -> None:
    captured = exchange.captured
    client = captured.client_id or "without a client id"
    print(one_line(f"packet {captured.packet} {captured.api_name} v{captured.version} ({client}):"))
    for difference in exchange.differences[:_SHOWN_MAX]:
        expected, got = _shorten(difference.expected), _shorten(difference.got)
        print(one_line(f"  {difference.path or '/'}: captured {expected}, now {got}"))
    if len(exchange.differences) > _SHOWN_MAX:
        print(f"  ... {len(exchange.differences) - _SHOWN_MAX} more")


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}..."


def _parse_positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def create_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="mockbroker replay",
        description="Send the requests of a capture to a broker, and compare its responses with the captured ones.",
        epilog="Exit codes: 0 all responses are equal, 1 some are different, 2 wrong usage.",
    )
    add = parser.add_argument
    add("capture", metavar="CAPTURE", help="pcap or pcapng, plain or compressed")
    add("--to", required=True, metavar="HOST:PORT", help="a broker, mock or real; the others of its cluster are found")
    add("--speed", type=_parse_positive, metavar="X", help="1: as captured, 2: twice as fast (default: without pauses)")
    add("--timeout", type=_parse_positive, default=30.0, metavar="S", help="seconds for each response (default 30)")
    add("--partial", action="store_true", help="send what can be read of a capture that has more")
    add("--port", action="append", type=int, default=[], help="a broker's port in the capture; repeatable")
    add("--tls-keylog", action="append", default=[], metavar="FILE", help="secrets of TLS connections (SSLKEYLOGFILE)")
    add_unpacked_argument(parser)
    editions = f"whose messages the capture has: {', '.join(EDITIONS)} (default {DEFAULT_EDITION})"
    add("--edition", default=DEFAULT_EDITION, metavar="E", help=editions)
    return parser
