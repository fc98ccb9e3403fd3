"""Impaired copies of real captures, the counts of their rows, and the exchanges that tshark matches in them.

python -m tests.support.captures.impaired_captures      writes tests/support/captures/impaired_captures.json
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from tests.support import needs
from tests.support.captures.capture_files import CAPTURES, CapturedPacket, build_pcap, read_ip_packets
from tests.support.captures.index_captures import keep_direction, mirror_packets

PINNED = Path(__file__).with_suffix(".json")
FILES = ("aio", "ck", "ckz", "jshare", "kpy", "share", "tlskey", "txn")
#: Captures without TLS; tshark reads them in one file, one after the other.
UNENCRYPTED_FILES = tuple(name for name in FILES if name != "tlskey")
PARTS = 3

Parts = list[list[CapturedPacket]]


def keep_all(packets: list[CapturedPacket], rng: random.Random) -> Parts:
    """All packets."""
    return [packets]


def drop_packets(packets: list[CapturedPacket], rng: random.Random) -> Parts:
    """One packet in twenty was not captured."""
    return [[packet for packet in packets if rng.random() >= 0.05]]


def delay_packets(packets: list[CapturedPacket], rng: random.Random) -> Parts:
    """Packets were captured up to 4 ms late, and so in another order."""
    return [sorted(packet._replace(ts=packet.ts + rng.randrange(4_000_000)) for packet in packets)]


def duplicate_packets(packets: list[CapturedPacket], rng: random.Random) -> Parts:
    """Every third packet was captured twice."""
    return [[each for packet in packets for each in [packet] * rng.choice((1, 1, 2))]]


def add_copies(packets: list[CapturedPacket], rng: random.Random) -> Parts:
    """Every packet was captured twice, the copy up to 3 ms later."""
    return [mirror_packets(packets, rng)]


def drop_responses(packets: list[CapturedPacket], rng: random.Random) -> Parts:
    """Only what clients sent was captured; brokers have the smaller port."""
    return [keep_direction(packets, from_client=True)]


def cut_packets(packets: list[CapturedPacket], rng: random.Random) -> Parts:
    """128 bytes of each packet were stored, 14 of them for Ethernet."""
    return [[packet._replace(stored_size=114) for packet in packets]]


def drop_beginning(packets: list[CapturedPacket], rng: random.Random) -> Parts:
    """The capture began after a third of the packets."""
    return [packets[len(packets) // 3 :]]


def split_file(packets: list[CapturedPacket], rng: random.Random) -> Parts:
    """Several files that are read separately."""
    size = -(-len(packets) // PARTS)
    return [packets[at : at + size] for at in range(0, len(packets), size)]


IMPAIRMENTS: dict[str, Callable[[list[CapturedPacket], random.Random], Parts]] = {
    "whole": keep_all,
    "lossy": drop_packets,
    "reordered": delay_packets,
    "doubled": duplicate_packets,
    "mirrored": add_copies,
    "one direction": drop_responses,
    "snaplen": cut_packets,
    "midstream": drop_beginning,
    "split": split_file,
}


def impaired_copies(name: str, way: str) -> list[list[CapturedPacket]]:
    """Return the impaired copy of a capture, in one or more parts; the result is always the same."""
    return IMPAIRMENTS[way](read_ip_packets(CAPTURES / f"small_{name}.pcap"), random.Random(f"{name} {way}"))


def read_impaired(name: str, way: str) -> list[Row]:
    """Read the rows of the impaired copy."""
    keys = (CAPTURES / "small_tlskey.keys").read_text() if name == "tlskey" else ""
    return [
        row
        for part in impaired_copies(name, way)
        for row in read_rows(build_pcap(part), "messages", Options(tls_keylog=keys))
    ]


def count_rows(found: Iterable[Row]) -> dict[str, int]:
    """Count the requests with a complete or partial response, and the rows by status."""
    rows = list(found)
    return {"matched": sum(map(is_matched, rows)), **dict(sorted(Counter(str(row["status"]) for row in rows).items()))}


def is_matched(row: Row) -> bool:
    """Whether a row has a request, and the response to it."""
    return row["in_flight"] is not None and row["req_ts"] is not None and row["resp_ts"] is not None


def tshark_version(tshark: str) -> str:
    """Return the version, as "4.0.17"."""
    rows = subprocess.run([tshark, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    return rows.split()[2].rstrip(".")


def count_tshark_matches(tshark: str, way: str, folder: Path) -> int:
    """Count the responses that tshark matches with a request, in the impaired copies of all unencrypted captures."""
    parts: list[list[CapturedPacket]] = [[] for _ in range(PARTS)]
    for name in UNENCRYPTED_FILES:
        for at, packets in enumerate(impaired_copies(name, way)):
            parts[at] += packets
    # tshark buffers segments out of order only with this option; with missing packets it then matches fewer.
    options = ["-o", f"tcp.reassemble_out_of_order:{str(way == 'reordered').upper()}"]
    files = [(folder / f"{way}-{at}.pcap", part) for at, part in enumerate(parts) if part]
    return sum(_matched_by([tshark, *options], path, part) for path, part in files)


def _matched_by(tshark: list[str], path: Path, packets: Sequence[CapturedPacket]) -> int:
    path.write_bytes(build_pcap(packets))
    command = [*tshark, "-r", str(path), "-d", "tcp.port==21092,kafka", "-Y", "kafka.request_frame"]
    command += ["-T", "fields", "-e", "kafka.request_frame"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    return sum(len(line.split(",")) for line in lines)


def all_counts() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield our counts by impairment and capture."""
    for way in IMPAIRMENTS:
        yield way, {name: count_rows(read_impaired(name, way)) for name in FILES}


def main() -> None:
    """Write the current counts, and those of the installed tshark."""
    import tempfile

    tshark = needs.tool("tshark")
    with tempfile.TemporaryDirectory() as folder:
        found = {way: count_tshark_matches(tshark, way, Path(folder)) for way in IMPAIRMENTS}
    tree = {"tshark": {"version": tshark_version(tshark), "matched": found}, "ours": dict(all_counts())}
    PINNED.write_text(json.dumps(tree, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
