"""`python -m tools.bench.capture`: compare tshark, dpkt and kwire on the same captures; writes a section of the page.

The captures are made first, by real clients against the broker (`capture_traffic`), and copied to make them larger
(`capture_copies`). Measured is the CPU time of whole processes on one core, minus the time for an empty capture.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tools.bench import capture_tools
from tools.bench.capture_copies import write_copies
from tools.bench.capture_damage import write_damaged
from tools.bench.capture_tools import Tool, kwire_tool, tshark_tool
from tools.bench.capture_traffic import write_capture
from tools.bench.history import Result, summarize
from tools.bench.page import describe_machine, markdown_table, publish_section, spread_text

_FIELDS = tuple(part for field in capture_tools.TSHARK_FIELDS for part in ("-e", field))
_LEVELS = ("partitions", "share_acquired", "share_acks", "records")
#: More kinds of traffic, for the levels.
_TRAFFIC = {
    "pipelined": "several requests a packet",
    "connections": "many small connections",
    "share": "a share group",
}
#: The number of messages is divided by this: each has a connection of its own.
_FEWER = {"connections": 10}
_DEPTH = 8
#: Damages of captures, with what they are called in tables.
_DAMAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "lossy": ("1 % of packets lost", {"lost": 0.01}),
    "cut": ("packets cut at 256 bytes", {"snaplen": 256}),
}
_DAMAGE_READERS = {"headers": "headers and latency", "decoded": "all columns but JSON", "lines": "JSON lines"}
_FEW_SIZE = 20_000
_EMPTY = bytes.fromhex("4d3cb2a10200040000000000000000000000040065000000")


class Capture(NamedTuple):
    """A capture to read."""

    path: Path
    port: int
    packets: int

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self.path.stat().st_size


def main() -> None:
    """Make the captures, measure, print, and write the section."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.capture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20_000, help="produced for each capture of small packets")
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="store the captures here, and use those that exist")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()

    capture_tools.use_one_core()
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as temporary_folder:
        results: list[Result] = []
        text = _section(args.folder or Path(temporary_folder), args.rounds, args.messages, args.copies, results)
    publish_section("capture", text, results, write=not args.dry_run)


def _section(folder: Path, rounds: int, messages: int, copies: int, results: list[Result]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    empty = Capture(folder / "empty.pcap", 9092, 0)
    empty.path.write_bytes(_EMPTY)
    one, small = _create_captures(folder, "small", messages, copies)
    _, old = _create_captures(folder, "old", messages, copies)
    large, _ = _create_captures(folder, "large", messages, 1)
    fields = tshark_tool("six fields, for which it dissects each packet", "-T", "fields", *_FIELDS)
    reading = [
        fields,
        tshark_tool("everything, as text", "-V"),
        kwire_tool("the same six columns, every response decoded for its error", "few"),
        kwire_tool("every body decoded, all columns but JSON", "decoded"),
        kwire_tool("the same, and the checksum of each record batch", "checked"),
        kwire_tool("headers and latency", "headers"),
        *filter(None, [capture_tools.dpkt_tool()]),
    ]
    texts = [tshark_tool("everything, as JSON", "-T", "json"), kwire_tool("all columns, bodies as JSON", "json")]
    lines = [tshark_tool("everything, as JSON lines", "-T", "ek"), kwire_tool("`decode --format jsonl`", "lines")]
    tables = [tshark_tool("a line for each packet"), kwire_tool("`decode`: a line for each exchange", "table")]
    bulk = [tool for tool in reading if tool.command[-1] != "-V"]
    rates = partial(_rates, empty=empty, rounds=rounds, results=results)
    kinds = {"small packets": small, "large packets": large}
    for kind, does in _TRAFFIC.items():
        kinds[does] = _create_captures(folder, kind, messages // _FEWER.get(kind, 1), copies)[1]
    return _TEXT.format(
        version=capture_tools.tshark_version(),
        machine=describe_machine(),
        rounds=rounds,
        small=rates("small packets", small, bulk),
        small_mean=small.size // small.packets,
        small_packets=small.packets,
        old=rates("versions of 2019", old, reading),
        old_packets=old.packets,
        json=rates("JSON", one, texts),
        lines=rates("JSON lines", small, lines),
        table=rates("table", small, tables),
        large=rates("large packets", large, bulk, by_size=True),
        large_mean=large.size // large.packets,
        levels=_level_costs(kinds, empty, rounds, results),
        damaged=_damage_costs(folder, small, empty, rounds, results),
        first=_first_table(one, rounds, results),
        memory=_memory([small, _copy_capture(folder, one, 4 * copies), large]),
    )


def _create_captures(folder: Path, kind: str, messages: int, copies: int) -> tuple[Capture, Capture]:
    """A capture of this kind, and one with this many copies of it."""
    first, many, summary = folder / f"{kind}.pcap", folder / f"{kind}-{copies}.pcap", folder / f"{kind}-{copies}.txt"
    if not summary.exists():
        recorded = folder / f"{kind}.pcapng"
        port = write_capture(kind, recorded, messages=messages)
        depth = _DEPTH if kind == "pipelined" else 1
        packets = write_copies(recorded, first, copies=1, port=port, depth=depth)
        write_copies(recorded, many, copies=copies, port=port, depth=depth)
        recorded.unlink()
        summary.write_text(f"{port} {packets}", encoding="ascii")
    port, packets = map(int, summary.read_text(encoding="ascii").split())
    return Capture(first, port, packets), Capture(many, port, packets * copies)


def _copy_capture(folder: Path, one: Capture, copies: int) -> Capture:
    """A capture with more copies, for the memory measurement."""
    path = folder / "larger.pcap"
    return Capture(path, one.port, write_copies(one.path, path, copies=copies, port=one.port))


def _rates(
    kind: str,
    capture: Capture,
    tools: Sequence[Tool],
    *,
    empty: Capture,
    rounds: int,
    results: list[Result],
    by_size: bool = False,
) -> str:
    """A table of what each tool reads per second of CPU time, and the ratio to the first tool."""
    seconds: list[list[float]] = [[] for _ in tools]
    for _ in range(rounds):
        for tool, tool_seconds in zip(tools, seconds, strict=True):
            tool_seconds.append(_cost(tool, capture, empty))
    unit = "MB/s" if by_size else "packets/s"
    amount = capture.size / 1e6 if by_size else capture.packets
    rows = []
    for tool, tool_seconds in zip(tools, seconds, strict=True):
        values = [amount / seconds_of_round for seconds_of_round in tool_seconds]
        spread = spread_text(values)
        ratio = statistics.median(first / other for first, other in zip(seconds[0], tool_seconds, strict=True))
        results.append(summarize(f"{kind}: {tool.does}", tool.name, unit, values, ratio=ratio, peer_version=""))
        rows.append([f"{tool.name}: {tool.does}", spread, f"{ratio:.1f}"])
    return markdown_table(["reader", unit, "to the first"], rows)


def _level_costs(captures: Mapping[str, Capture], empty: Capture, rounds: int, results: list[Result]) -> str:
    """A table of the CPU time of each level, divided by that of the messages of the same packets."""
    messages = kwire_tool("", "decoded")
    tools = [kwire_tool(level, level) for level in _LEVELS]
    rows = []
    for does, capture in captures.items():
        ratios: list[list[float]] = [[] for _ in tools]
        amounts: list[float] = []
        for _ in range(rounds):
            whole = _cost(messages, capture, empty)
            amounts.append(capture.packets / whole)
            for tool, tool_ratios in zip(tools, ratios, strict=True):
                tool_ratios.append(_cost(tool, capture, empty) / whole)
        for level, values in zip(_LEVELS, ratios, strict=True):
            results.append(summarize(f"{does}: level {level}", "kwire", "x messages", values, peer_version=""))
        rows.append([does, f"{capture.packets:,}", spread_text(amounts), *(spread_text(each, 1) for each in ratios)])
    return markdown_table(["capture", "packets", "messages, packets/s", *(f"`{level}`" for level in _LEVELS)], rows)


def _damage_costs(folder: Path, clean: Capture, empty: Capture, rounds: int, results: list[Result]) -> str:
    """A table of the CPU time of damaged captures, divided by that of the whole one."""
    captures: dict[str, Capture] = {}
    for name, (does, damage) in _DAMAGES.items():
        path = folder / f"{name}.pcap"
        captures[does] = Capture(path, clean.port, write_damaged(clean.path, path, **damage))
    rows = []
    for does, capture in captures.items():
        ratios: dict[str, list[float]] = {what: [] for what in _DAMAGE_READERS}
        for _ in range(rounds):
            for what, values in ratios.items():
                tool = kwire_tool("", what)
                values.append(_cost(tool, capture, empty) / _cost(tool, clean, empty))
        for what, values in ratios.items():
            case = f"{does}: {_DAMAGE_READERS[what]}"
            results.append(summarize(case, "kwire", "x clean", values, peer_version=""))
        rows.append([does, f"{capture.packets:,}", *(spread_text(values, 1) for values in ratios.values())])
    return markdown_table(["capture", "packets", *_DAMAGE_READERS.values()], rows)


def _first_table(capture: Capture, rounds: int, results: list[Result]) -> str:
    """A table of the CPU time of the first table of a process, of a capture of a few packets."""
    path = capture.path.with_name("few.pcap")
    path.write_bytes(capture.path.read_bytes()[:_FEW_SIZE])
    arrow, table = zip(*(capture_tools.first_table(path) for _ in range(rounds)), strict=True)
    results.append(summarize("first table of a process, above Arrow", "kwire", "s", table, peer_version=""))
    rows = [["import of pyarrow, with pandas and compute functions", spread_text(arrow, 2)]]
    rows.append(["the first table, in addition", spread_text(table, 2)])
    return markdown_table(["step", "CPU, s"], rows)


def _cost(tool: Tool, capture: Capture, empty: Capture) -> float:
    """The CPU seconds of a tool for a capture, without those for an empty one."""
    start = capture_tools.run(tool.on(empty.path, capture.port))
    return max(capture_tools.run(tool.on(capture.path, capture.port)) - start, 0.001)


def _memory(captures: Sequence[Capture]) -> str:
    captions = [f"{capture.size / 1e6:,.0f} MB, {capture.packets:,} packets" for capture in captures]
    peaks = [f"{capture_tools.peak_memory(capture.path):,.0f}" for capture in captures]
    return markdown_table(["capture", "most memory, MiB"], list(zip(captions, peaks, strict=True)))


_TEXT = """## Captures

The same captures read by tshark {version}, dpkt and kwire: CPU time of whole processes on one core, minus the time for
an empty capture; median [least … most] of {rounds} interleaved runs. {machine}.
Real clients made the captures on the broker, which wrote them (`--capture`); `tools.bench.capture_copies` made them
larger.

Small packets, confluent-kafka of 2026 ({small_packets:,} packets of {small_mean} bytes): producers that wait for every
message, a group and a share group. tshark {version} supports Produce up to version 8, Fetch up to 11 and no share
groups; it fails to decode nearly all of these bodies and to match most responses ("Request missing"). kwire decodes
all of them.

{small}

The same with aiokafka ({old_packets:,} packets), in versions of 2019, which tshark decodes too:

{old}

Everything as JSON, the first capture in one copy:

{json}

Everything as JSON lines, all copies; the target is 8 times `tshark -T ek`:

{lines}

What both print by default, for the same capture; tshark prints a line for each packet and decodes few bodies, kwire a
line for each exchange, of which it decodes both bodies. The target is 1 at least:

{table}

Large packets ({large_mean:,} bytes):

{large}

The levels below messages, all columns: the CPU time of each, divided by that of messages (every body decoded, all
columns but JSON) of the same packets. The target is 3 at most.

{levels}

Damaged copies of the capture of small packets: the CPU time of each, divided by that of the whole capture. The target
is 2 at most.

{damaged}

The first table of a process, `kwire.read_capture` of a few packets. The target is 0.4 s above the import of Arrow.

{first}

kwire stores an index of columns, about 130 bytes per packet, in a temporary file if it exceeds 48 MiB, and reads spans
of 24 MiB. The file grows with the packets; memory grows only with the connections and client ids:

{memory}
"""


if __name__ == "__main__":
    main()
