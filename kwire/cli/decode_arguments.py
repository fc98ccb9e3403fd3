"""The arguments of ``kwire decode``, and what its help says of them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kwire import registry
from kwire.capture.rows import STATUSES
from kwire.capture.schemas import LEVELS
from kwire.cli.terminal import AUTO, COLOUR_CHOICES

if TYPE_CHECKING:
    from fractions import Fraction

FORMATS = ("table", "jsonl", "tree", "pcapng")
_SPANS = "ms, s, m or h"

_USAGE = """\
%(prog)s [OPTION]... CAPTURE...
       %(prog)s [OPTION]... -i INTERFACE"""

_ABOUT = """\
Show every Kafka request of a capture with its response, latency and outcome.

Captures are pcap or pcapng, plain or packed by gzip or zstd. Kafka is found on
any port, by looking. Credentials are shown as ***, and keys and values of
records as their sizes, unless they are asked for.
"""

_EXAMPLES = """\
filters:
  FIELD OPERATOR VALUE, joined by and, or, not and ( ).
  FIELD is a column of the level, or short: api, error, client, group, member,
  topic, conn, latency, time, packet, issue, ack, deliveries and more.
  OPERATOR is = != < <= > >= ~ (finds a pattern) !~ contains in (VALUE, ...).
  VALUE is a word or "quoted": 20ms for a span of time, 64KiB for a size,
  08:59:24.5 for a time (UTC), names or numbers for errors and APIs.
  A comparison with nothing is false; '= null' asks for nothing.

examples:
  a table, and only some of it
  kwire decode trace.pcapng
  kwire decode trace.pcapng -Y 'api=ShareFetch and error!=0'

  every field with its bytes; acknowledgements, for a program
  kwire decode trace.pcapng -Y 'latency>20ms' --format tree
  kwire decode trace.pcapng --level share_acks --format jsonl

  the packets of one topic, for Wireshark (they are whole: nothing is hidden)
  kwire decode trace.pcapng -Y 'topic=t-share' --format pcapng -o topic.pcapng

  as it is written; as it passes by; from another program
  kwire decode --follow /var/log/captures/
  kwire decode -i eth0 -Y error --duration 10m
  tcpdump -i any -U -w - tcp port 9092 | kwire decode -

Exit codes: 0 good; 1 no capture, no Kafka in it, or Kafka that cannot be
decoded; 2 wrong use; 130 interrupted. More: docs/captures.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare them all."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage, parser.description, parser.epilog = _USAGE, _ABOUT, _EXAMPLES
    parser.add_argument(
        "captures",
        nargs="*",
        metavar="CAPTURE",
        help="file to read, - for stdin; with --follow a folder or 'pattern' too",
    )
    _add_input(parser.add_argument_group("input"))
    _add_choice(parser.add_argument_group("what to show"))
    _add_output(parser.add_argument_group("output"))


def _add_input(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-r", "--read", action="append", default=[], metavar="CAPTURE", help="the same as CAPTURE")
    group.add_argument(
        "-f", "--follow", action="store_true", help="go on as the capture grows or is replaced (Ctrl-C ends)"
    )
    group.add_argument(
        "-i", "--interface", metavar="INTERFACE", help="read this network interface, or any (Linux, as root)"
    )
    group.add_argument("--duration", type=_span, metavar="SPAN", help=f"with -f or -i: end after so long ({_SPANS})")
    group.add_argument("--count", type=_count, metavar="N", help="with -i: end after N packets")
    group.add_argument(
        "--port", action="append", type=_port, default=[], help="a broker's port; may be repeated (default: any port)"
    )
    group.add_argument("--edition", default=registry.DEFAULT_EDITION, help="of the messages (default: %(default)s)")
    group.add_argument(
        "--tls-keylog", action="append", default=[], metavar="FILE", help="secrets of TLS connections (SSLKEYLOGFILE)"
    )
    group.add_argument(
        "--topics",
        metavar="FILE",
        help="names of topic ids: JSON, lines 'ID NAME', or what kafka-topics.sh --describe prints",
    )


def _add_choice(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-Y", "--filter", metavar="FILTER", help="only rows for which this holds (see below)")
    group.add_argument(
        "--api", action="extend", type=_apis, default=[], metavar="A,B,...", help="only these APIs; may be repeated"
    )
    group.add_argument("--client-id", action="append", default=[], metavar="ID", help="only this client id")
    group.add_argument("--error", action="store_true", help="only what was answered with an error")
    group.add_argument(
        "--status",
        action="append",
        choices=STATUSES,
        default=[],
        metavar="STATUS",
        help=f"only this status: {', '.join(STATUSES)}",
    )
    group.add_argument("-c", "--limit", type=_count, metavar="N", help="end after N rows")
    group.add_argument(
        "--level",
        choices=tuple(LEVELS),
        default="messages",
        metavar="LEVEL",
        help=f"what a row is: {', '.join(LEVELS)}",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-T", "--format", choices=FORMATS, metavar="FORMAT", help=f"{', '.join(FORMATS)} (default: table)"
    )
    group.add_argument("-o", "--output", metavar="FILE", help="write there instead of stdout")
    group.add_argument("-w", "--write", metavar="FILE", help="write packets: --format pcapng --output FILE")
    group.add_argument(
        "--columns",
        type=_names,
        default=[],
        metavar="A,B,...",
        help="columns of the level to show, in a table or jsonl",
    )
    group.add_argument(
        "--color",
        choices=COLOUR_CHOICES,
        default=AUTO,
        metavar="WHEN",
        help="auto (a terminal, and NO_COLOR is not set), always or never",
    )
    group.add_argument(
        "--slow", type=_span, default=10**8, metavar="SPAN", help="mark longer latencies (default: 100ms)"
    )
    group.add_argument("--show-secrets", action="store_true", help="show credentials instead of ***")
    group.add_argument("--payload", action="store_true", help="show keys and values of records")


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < len(text) < 19 or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count")
    return int(text)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _span(text: str) -> Fraction:
    """A span of time in nanoseconds."""
    from kwire.capture.where.operands import span_ns

    found = span_ns(text)
    if found is None or found < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a span of time, as 100ms or 30s")
    return found


def _apis(text: str) -> list[str]:
    names: Mapping[str, str] = {registry.api_name(key).lower(): registry.api_name(key) for key in registry.API_KEYS}
    found = []
    for word in _names(text):
        if word.lower() not in names:
            from kwire.capture.where.operands import nearest

            near = nearest(word, names.values()) or ", as Fetch or ShareFetch"
            raise argparse.ArgumentTypeError(f"{word!r} is not an API{near}")
        found.append(names[word.lower()])
    return found
