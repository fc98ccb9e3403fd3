"""``kwire about``: what captures say of themselves, and what they hold, in a few lines each.

Exit code 1 when a file is no capture.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kwire.capture.options import Options
from kwire.capture.values import CaptureError
from kwire.cli.exit_codes import FOUND_WRONG, GOOD
from kwire.cli.wrong_use import WrongUseError
from kwire.escape import escape, one_line

if TYPE_CHECKING:
    from kwire.capture.about import About
    from kwire.capture.blocks import Interface

# How the kinds of connections are called, in the order in which they are told.
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
    """Declare the arguments of ``kwire about``."""
    parser.add_argument("captures", nargs="+", metavar="CAPTURE", help="pcap or pcapng, plain or packed")


def run(args: argparse.Namespace) -> int:
    """Tell of every capture on stdout."""
    if "-" in args.captures:
        raise WrongUseError("a capture is read twice, and stdin can be read once only")
    worst = GOOD
    for capture in args.captures:
        try:
            for line in _lines(capture):
                print(escape(line))
        except CaptureError as error:
            sys.stdout.flush()
            print(f"kwire: {one_line(capture)}: {one_line(str(error))}", file=sys.stderr)
            worst = FOUND_WRONG
    return worst


def _lines(capture: str) -> Iterator[str]:
    from kwire.capture.about import about

    found = about(capture)
    held = list(_held(capture))
    yield f"{capture}: {found.format}"
    for name, text in (("written by", found.application), ("system", found.system), ("hardware", found.hardware)):
        if text:
            yield f"  {name}: {text}"
    yield from (f"  comment: {each}" for each in found.comments)
    yield from (f"  interface {number}: {_interface(each)}" for number, each in enumerate(found.interfaces))
    yield from _hosts(found)
    yield from held


def _interface(interface: Interface) -> str:
    from kwire.capture.ip import LINKS

    parts = [interface.name or "without a name", interface.description, LINKS.get(interface.link, "unknown link")]
    parts.append(f"snaplen {interface.snaplen}" if interface.snaplen else "")
    parts.append(f"filter {interface.filter}" if interface.filter else "")
    return ", ".join(filter(None, parts))


def _hosts(found: About) -> Iterator[str]:
    for address, names in list(found.hosts.items())[:_HOSTS_SHOWN]:
        others = len(names) - _NAMES_SHOWN
        more_names = f" and {_many(others, 'more name')}" if others > 0 else ""
        yield f"  {address}: {', '.join(names[:_NAMES_SHOWN])}{more_names}"
    more = len(found.hosts) - _HOSTS_SHOWN
    if more > 0:
        yield f"  and {more} more addresses with names"


def _held(capture: str) -> Iterator[str]:
    """Times, connections by kind, and brokers by how many connections they have; what is wrong with the file."""
    from kwire.capture.pipeline import outcomes
    from kwire.capture.talks import address
    from kwire.capture.text import instant
    from kwire.capture.values import Trouble
    from kwire.capture.watching import Ended

    kinds: Counter[str | None] = Counter()
    brokers: Counter[str] = Counter()
    packets = size = 0
    times: list[int] = []
    troubles: list[str] = []
    for outcome in outcomes(capture, Options(), "flows"):
        if isinstance(outcome, Trouble):
            troubles.append(outcome.detail)
        elif isinstance(outcome, Ended):
            traffic, flow = outcome.traffic, outcome.flow
            kinds[flow.kind] += 1
            packets += sum(side.packets for side in traffic.sides)
            size += sum(side.size for side in traffic.sides)
            times = [min([traffic.first_ts, *times]), max([traffic.last_ts, *times])]
            if flow.kind == "kafka":
                ip, port = flow.ends[1 - flow.client_side]
                brokers[f"{address(ip)} port {port}"] += 1
    if times:
        yield f"  from {instant(times[0])} to {instant(times[1])}"
    yield f"  {_many(kinds.total(), 'TCP connection')}, {_many(packets, 'packet')}, {_many(size, 'byte')} of payload"
    yield from (f"  {kinds[kind]} {text}" for kind, text in _KINDS.items() if kinds[kind])
    shown = brokers.most_common(_BROKERS_SHOWN)
    yield from (f"  broker {broker}: {_many(count, 'connection')}" for broker, count in shown)
    if len(brokers) > _BROKERS_SHOWN:
        yield f"  and {len(brokers) - _BROKERS_SHOWN} more brokers"
    yield from (f"  ! {each}" for each in troubles)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
