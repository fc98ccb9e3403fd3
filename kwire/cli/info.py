"""``kwire info``: metadata and content of captures, in a few lines each.

Exit code 1 when a file is no capture.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kwire.capture.model import CaptureError
from kwire.capture.options import Options
from kwire.cli.exit_codes import PROBLEM_FOUND, SUCCESS
from kwire.cli.unpacking import add_unpacked_argument, open_with_progress
from kwire.cli.usage_error import UsageError
from kwire.escape import escape, one_line

if TYPE_CHECKING:
    from kwire.capture.files.capture_info import CaptureInfo
    from kwire.capture.files.pcapng_blocks import Interface
    from kwire.capture.files.source import Source

# Names of the kinds of connections, in output order.
_KINDS = {
    "kafka": "Kafka",
    "tls": "TLS (see --tls-keylog of kwire decode)",
    "not_kafka": "not Kafka",
    "no_data": "no data",
}
_BROKERS_SHOWN = 10
_HOSTS_SHOWN = 50
_NAMES_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``kwire info``."""
    parser.add_argument("captures", nargs="+", metavar="CAPTURE", help="pcap or pcapng, plain or compressed")
    add_unpacked_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print a summary of every capture to stdout."""
    if "-" in args.captures:
        raise UsageError("captures are read twice, and stdin can be read only once")
    exit_code = SUCCESS
    for capture in args.captures:
        try:
            for line in _describe_capture(capture, args.unpacked_max):
                print(escape(line))
        except CaptureError as error:
            sys.stdout.flush()
            print(f"kwire: {one_line(capture)}: {one_line(str(error))}", file=sys.stderr)
            exit_code = PROBLEM_FOUND
    return exit_code


def _describe_capture(capture: str, unpacked_max: int | None) -> Iterator[str]:
    from kwire.capture.files.capture_info import read_capture_info

    with ExitStack() as stack:
        info = read_capture_info(open_with_progress(capture, stack), unpacked_max)
    with ExitStack() as stack:
        options = Options(unpacked_size_max=unpacked_max)
        traffic = list(_describe_traffic(open_with_progress(capture, stack), options))
    yield f"{capture}: {info.format}"
    for name, text in (("written by", info.application), ("system", info.system), ("hardware", info.hardware)):
        if text:
            yield f"  {name}: {text}"
    yield from (f"  comment: {comment}" for comment in info.comments)
    for number, interface in enumerate(info.interfaces):
        yield f"  interface {number}: {_describe_interface(interface)}"
    yield from _describe_hosts(info)
    yield from traffic


def _describe_interface(interface: Interface) -> str:
    from kwire.capture.network.packet_dissector import LINKS

    parts = [interface.name or "without a name", interface.description, LINKS.get(interface.link, "unknown link")]
    parts.append(f"snaplen {interface.snaplen}" if interface.snaplen else "")
    parts.append(f"filter {interface.filter}" if interface.filter else "")
    return ", ".join(filter(None, parts))


def _describe_hosts(info: CaptureInfo) -> Iterator[str]:
    for address, names in list(info.hosts.items())[:_HOSTS_SHOWN]:
        others = len(names) - _NAMES_SHOWN
        more_names = f" and {_count_text(others, 'more name')}" if others > 0 else ""
        yield f"  {address}: {', '.join(names[:_NAMES_SHOWN])}{more_names}"
    more = len(info.hosts) - _HOSTS_SHOWN
    if more > 0:
        yield f"  and {more} more addresses with names"


def _describe_traffic(capture: Source, options: Options) -> Iterator[str]:
    """Times, connections by kind, brokers by number of connections, and issues of the file."""
    from kwire.capture.kafka.exchange import TrafficRow
    from kwire.capture.model import CaptureIssue
    from kwire.capture.reader import read_outcomes
    from kwire.capture.rows.json_lines import format_timestamp

    kinds: Counter[str | None] = Counter()
    brokers: Counter[str] = Counter()
    packets = size = 0
    times: list[int] = []
    issues: list[str] = []
    for outcome in read_outcomes(capture, options, "flows"):
        if isinstance(outcome, CaptureIssue):
            issues.append(outcome.detail)
        elif isinstance(outcome, TrafficRow):
            row: dict[str, Any] = outcome.row
            kinds[row["kind"]] += 1
            packets += row["packets_client"] + row["packets_broker"]
            size += row["bytes_client"] + row["bytes_broker"]
            times = [min([row["first_ts"], *times]), max([row["last_ts"], *times])]
            if row["kind"] == "kafka":
                brokers[f"{row['broker_ip']} port {row['broker_port']}"] += 1
    if times:
        yield f"  from {format_timestamp(times[0])} to {format_timestamp(times[1])}"
    totals = [(kinds.total(), "TCP connection"), (packets, "packet"), (size, "byte")]
    yield f"  {', '.join(_count_text(count, noun) for count, noun in totals)} of payload"
    yield from (f"  {kinds[kind]} {text}" for kind, text in _KINDS.items() if kinds[kind])
    broker_counts = brokers.most_common(_BROKERS_SHOWN)
    yield from (f"  broker {broker}: {_count_text(count, 'connection')}" for broker, count in broker_counts)
    if len(brokers) > _BROKERS_SHOWN:
        yield f"  and {len(brokers) - _BROKERS_SHOWN} more brokers"
    yield from (f"  ! {issue}" for issue in issues)


def _count_text(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
