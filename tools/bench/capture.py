"""`python -m tools.bench.capture`: tshark, dpkt and kwire over the same captures; writes its section of the page.

The captures are made first, by real clients against the broker (`capture_traffic`), and made larger (`capture_copies`).
What counts is the CPU time of whole processes on one core, less what each takes for a capture without packets.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.bench.capture_copies import write_copies
from tools.bench.capture_tools import (
    TSHARK_FIELDS,
    Tool,
    dpkt,
    most_memory,
    ours,
    run,
    tshark,
    tshark_version,
    use_one_core,
)
from tools.bench.capture_traffic import write_capture
from tools.bench.page import machine, table, write_section

_FIELDS = tuple(part for field in TSHARK_FIELDS for part in ("-e", field))
_EMPTY = bytes.fromhex("4d3cb2a10200040000000000000000000000040065000000")


class Capture(NamedTuple):
    """A capture to read."""

    path: Path
    port: int
    packets: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.path.stat().st_size


def main() -> None:
    """Make captures, measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.capture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20_000, help="produced for each capture of small packets")
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="keep the captures here, and take those that are there already")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()

    use_one_core()
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as made:
        text = _section(args.folder or Path(made), args.rounds, args.messages, args.copies)
    print(text)
    if not args.dry_run:
        write_section("capture", text)


def _section(folder: Path, rounds: int, messages: int, copies: int) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    empty = Capture(folder / "empty.pcap", 9092, 0)
    empty.path.write_bytes(_EMPTY)
    one, small = _made(folder, "small", messages, copies)
    _, old = _made(folder, "old", messages, copies)
    large, _ = _made(folder, "large", messages, 1)
    fields = tshark("six fields; it dissects each packet for them", "-T", "fields", *_FIELDS)
    reading = [
        fields,
        tshark("all it knows, as text", "-V"),
        ours("the same six columns, every answer decoded for its error", "few"),
        ours("every body decoded, all columns but JSON", "decoded"),
        ours("the same, and the checksum of each record batch", "checked"),
        ours("headers and latency", "headers"),
        *filter(None, [dpkt()]),
    ]
    texts = [tshark("all it knows, as JSON", "-T", "json"), ours("all columns, bodies as JSON", "json")]
    bulk = [each for each in reading if each.command[-1] != "-V"]
    return _TEXT.format(
        version=tshark_version(),
        machine=machine(),
        rounds=rounds,
        small=_rates(small, empty, [each for each in reading if each.command[-1] != "-V"], rounds),
        small_mean=small.size // small.packets,
        small_packets=small.packets,
        old=_rates(old, empty, reading, rounds),
        old_packets=old.packets,
        json=_rates(one, empty, texts, rounds),
        large=_rates(large, empty, bulk, rounds, by_size=True),
        large_mean=large.size // large.packets,
        memory=_memory([small, _larger(folder, one, 4 * copies), large]),
    )


def _made(folder: Path, kind: str, messages: int, copies: int) -> tuple[Capture, Capture]:
    """A capture of this kind, and one of so many copies."""
    first, many, about = folder / f"{kind}.pcap", folder / f"{kind}-{copies}.pcap", folder / f"{kind}-{copies}.txt"
    if not about.exists():
        recorded = folder / f"{kind}.pcapng"
        port = write_capture(kind, recorded, messages=messages)
        packets = write_copies(recorded, first, copies=1, port=port)
        write_copies(recorded, many, copies=copies, port=port)
        recorded.unlink()
        about.write_text(f"{port} {packets}", encoding="ascii")
    port, packets = map(int, about.read_text(encoding="ascii").split())
    return Capture(first, port, packets), Capture(many, port, packets * copies)


def _larger(folder: Path, one: Capture, copies: int) -> Capture:
    """More copies than are read for their speed."""
    path = folder / "larger.pcap"
    return Capture(path, one.port, write_copies(one.path, path, copies=copies, port=one.port))


def _rates(capture: Capture, empty: Capture, tools: Sequence[Tool], rounds: int, *, by_size: bool = False) -> str:
    """A table: what each tool reads in a second of CPU time, and how that compares with the first."""
    seconds: list[list[float]] = [[] for _ in tools]
    for _ in range(rounds):
        for tool, own in zip(tools, seconds, strict=True):
            start = run(tool.on(empty.path, capture.port))
            own.append(max(run(tool.on(capture.path, capture.port)) - start, 0.001))
    unit = "MB/s" if by_size else "packets/s"
    amount = capture.size / 1e6 if by_size else capture.packets
    rows = []
    for tool, own in zip(tools, seconds, strict=True):
        rates = sorted(amount / each for each in own)
        ratio = statistics.median(first / each for first, each in zip(seconds[0], own, strict=True))
        spread = f"{statistics.median(rates):,.0f} [{rates[0]:,.0f} … {rates[-1]:,.0f}]"
        rows.append([f"{tool.name}: {tool.does}", spread, f"{ratio:.1f}"])
    return table(["reader", unit, "to the first"], rows)


def _memory(captures: Sequence[Capture]) -> str:
    rows = []
    for capture in captures:
        rows.append([f"{capture.size / 1e6:,.0f} MB, {capture.packets:,} packets", f"{most_memory(capture.path):,.0f}"])
    return table(["capture", "most memory, MiB"], rows)


_TEXT = """## Captures

The same captures read by tshark {version}, dpkt and kwire: CPU time of whole processes on one core, less what each
takes for a capture without packets; median [least … most] of {rounds} interleaved runs. {machine}.
Real clients made the captures on the broker, which wrote them (`--capture`); `tools.bench.capture_copies` made them
larger.

Small packets, confluent-kafka of 2026 ({small_packets:,} packets of {small_mean} bytes): producers that wait for every
message, a group and a share group. tshark {version} knows Produce up to version 8, Fetch up to 11 and no share groups;
it gives up on nearly all of these bodies, and with them on most responses ("Request missing"). kwire decodes all of
them.

{small}

The same by aiokafka ({old_packets:,} packets), in versions of 2019, which tshark decodes too:

{old}

Everything as JSON, the first capture in one copy:

{json}

Large packets ({large_mean:,} bytes):

{large}

kwire keeps an index of columns, about 130 bytes a packet, in a temporary file beyond 48 MiB, and reads spans of 24 MiB.
That file grows with the packets; memory grows with the connections and client ids alone:

{memory}
"""


if __name__ == "__main__":
    main()
