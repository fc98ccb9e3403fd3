"""The arguments of ``kwire decode`` and their help texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kwire import registry
from kwire.capture.rows.columns import LEVELS
from kwire.capture.rows.message_rows import STATUSES
from kwire.cli.edition import add_edition_arguments
from kwire.cli.terminal import AUTO, COLOUR_CHOICES
from kwire.cli.unpacking import add_unpacked_argument

if TYPE_CHECKING:
    from fractions import Fraction

FORMATS = ("table", "jsonl", "tree", "pcapng")
_SPANS = "ms, s, m or h"

_USAGE = """\
%(prog)s [OPTION]... CAPTURE...
       %(prog)s [OPTION]... -i INTERFACE"""

_ABOUT = """\
Show every Kafka request of a capture with its response, latency and outcome.

Captures are pcap or pcapng, plain or compressed by gzip or zstd. Kafka is
detected on any port. Credentials are shown as ***, and keys and values of
records as their sizes, unless --show-secrets or --payload is given.
"""

_EXAMPLES = """\
filters:
  FIELD OPERATOR VALUE, joined by and, or, not and ( ).
  FIELD is a column of the level, or short: api, error, client, group, member,
  topic, conn, latency, time, packet, issue, ack, deliveries and more.
  OPERATOR is = != < <= > >= ~ (matches a pattern) !~ contains in (VALUE, ...).
  VALUE is a word or "quoted": 20ms for a duration, 64KiB for a size,
  08:59:24.5 for a time (UTC), names or numbers for errors and APIs.
  A comparison with a missing value is false; '= null' matches missing values.

examples:
  a table, and selected rows of it
  kwire decode trace.pcapng
  kwire decode trace.pcapng -Y 'api=ShareFetch and error!=0'

  every field with its bytes; acknowledgements, for a program
  kwire decode trace.pcapng -Y 'latency>20ms' --format tree
  kwire decode trace.pcapng --level share_acks --format jsonl

  the packets of one topic, for Wireshark (complete: no secrets are hidden)
  kwire decode trace.pcapng -Y 'topic=t-share' --format pcapng -o topic.pcapng

  a growing capture; live traffic; output of another program
  kwire decode --follow /var/log/captures/
  kwire decode -i eth0 -Y error --duration 10m
  tcpdump -i any -U -w - tcp port 9092 | kwire decode -

Exit codes: 0 success; 1 no capture, no Kafka in it, or Kafka that cannot be
decoded; 2 usage error; 130 interrupted. More: docs/captures.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare all arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage, parser.description, parser.epilog = _USAGE, _ABOUT, _EXAMPLES
    captures_help = "file to read, - for stdin; with --follow a folder or 'pattern' too"
    parser.add_argument("captures", nargs="*", metavar="CAPTURE", help=captures_help)
    inputs = parser.add_argument_group("input")
    _add_input(inputs.add_argument)
    add_unpacked_argument(inputs)
    add_edition_arguments(inputs)
    _add_selection(parser.add_argument_group("what to show").add_argument)
    _add_output(parser.add_argument_group("output").add_argument)


def _add_input(add: Callable[..., argparse.Action]) -> None:
    add("-r", "--read", action="append", default=[], metavar="CAPTURE", help="the same as CAPTURE")
    add("-f", "--follow", action="store_true", help="continue as the capture grows or is replaced (Ctrl-C ends)")
    add("-i", "--interface", metavar="INTERFACE", help="read this network interface, or any (Linux, as root)")
    add("--duration", type=_parse_span, metavar="SPAN", help=f"with -f or -i: end after this time ({_SPANS})")
    add("--count", type=_parse_count, metavar="N", help="with -i: end after N packets")
    port_help = "a broker's port; may be repeated (default: any port)"
    add("--port", action="append", type=_parse_port, default=[], help=port_help)
    keylog_help = "secrets of TLS connections (SSLKEYLOGFILE); with -f or -i, read as it grows"
    add("--tls-keylog", action="append", default=[], metavar="FILE", help=keylog_help)
    topics_help = "names of topic ids: JSON, lines 'ID NAME', or what kafka-topics.sh --describe prints"
    add("--topics", metavar="FILE", help=topics_help)


def _add_selection(add: Callable[..., argparse.Action]) -> None:
    add("-Y", "--filter", metavar="FILTER", help="only rows that match (see below)")
    api_help = "only these APIs; may be repeated"
    add("--api", action="extend", type=_parse_apis, default=[], metavar="A,B,...", help=api_help)
    add("--client-id", action="append", default=[], metavar="ID", help="only this client id")
    add("--error", action="store_true", help="only responses with an error")
    status_help = f"only this status: {', '.join(STATUSES)}"
    add("--status", action="append", choices=STATUSES, default=[], metavar="STATUS", help=status_help)
    add("-c", "--limit", type=_parse_count, metavar="N", help="end after N rows")
    level_help = f"what a row is: {', '.join(LEVELS)}"
    add("--level", choices=tuple(LEVELS), default="messages", metavar="LEVEL", help=level_help)


def _add_output(add: Callable[..., argparse.Action]) -> None:
    add("-T", "--format", choices=FORMATS, metavar="FORMAT", help=f"{', '.join(FORMATS)} (default: table)")
    add("-o", "--output", metavar="FILE", help="write there instead of stdout")
    add("-w", "--write", metavar="FILE", help="write packets: --format pcapng --output FILE")
    columns_help = "columns of the level to show, in a table or jsonl"
    add("--columns", type=_parse_names, default=[], metavar="A,B,...", help=columns_help)
    color_help = "auto (a terminal, and NO_COLOR is not set), always or never"
    add("--color", choices=COLOUR_CHOICES, default=AUTO, metavar="WHEN", help=color_help)
    add("--slow", type=_parse_span, default=10**8, metavar="SPAN", help="mark longer latencies (default: 100ms)")
    add("--show-secrets", action="store_true", help="show credentials instead of ***")
    add("--payload", action="store_true", help="show keys and values of records")


def _parse_port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _parse_count(text: str) -> int:
    if not text.isdecimal() or not 0 < len(text) < 19 or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count")
    return int(text)


def _parse_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _parse_span(text: str) -> Fraction:
    """A duration in nanoseconds."""
    from kwire.capture.display_filter.operands import parse_duration_ns

    duration = parse_duration_ns(text)
    if duration is None or duration < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration, as 100ms or 30s")
    return duration


def _parse_apis(text: str) -> list[str]:
    names: Mapping[str, str] = {
        registry.api_name(key).lower(): registry.api_name(key) for key in registry.known_api_keys()
    }
    apis = []
    for word in _parse_names(text):
        if word.lower() not in names:
            from kwire.capture.display_filter.operands import suggest_name

            suggestion = suggest_name(word, names.values()) or ", as Fetch or ShareFetch"
            raise argparse.ArgumentTypeError(f"{word!r} is not an API{suggestion}")
        apis.append(names[word.lower()])
    return apis
