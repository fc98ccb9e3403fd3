"""Impaired copies of real captures, what is read from them, and what tshark matches in them.

python -m tests.kwire.capture.impaired      writes down anew what tests/kwire/capture/impaired.json holds
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from tests import needs
from tests.kwire.capture.wire import CAPTURES, Wire, ip_packets, pcap

PINNED = Path(__file__).with_suffix(".json")
FILES = ("aio", "ck", "ckz", "jshare", "kpy", "share", "tlskey", "txn")
#: Those in the clear; tshark is asked about them in one capture, one behind the other.
CLEAR = tuple(name for name in FILES if name != "tlskey")
PARTS = 3

Parts = list[list[Wire]]


def whole(wires: list[Wire], chance: random.Random) -> Parts:
    """As it was recorded."""
    return [wires]


def lossy(wires: list[Wire], chance: random.Random) -> Parts:
    """One packet in twenty was not captured."""
    return [[wire for wire in wires if chance.random() >= 0.05]]


def reordered(wires: list[Wire], chance: random.Random) -> Parts:
    """Packets were captured up to 4 ms late, and so in another order."""
    return [sorted(wire._replace(ts=wire.ts + chance.randrange(4_000_000)) for wire in wires)]


def doubled(wires: list[Wire], chance: random.Random) -> Parts:
    """Every third packet was captured twice."""
    return [[each for wire in wires for each in [wire] * chance.choice((1, 1, 2))]]


def snaplen(wires: list[Wire], chance: random.Random) -> Parts:
    """128 bytes of each packet were kept; 14 of those are Ethernet's."""
    return [[wire._replace(kept=114) for wire in wires]]


def midstream(wires: list[Wire], chance: random.Random) -> Parts:
    """The capture began when a third of the packets were through."""
    return [wires[len(wires) // 3 :]]


def split(wires: list[Wire], chance: random.Random) -> Parts:
    """Several files, each read for itself."""
    size = -(-len(wires) // PARTS)
    return [wires[at : at + size] for at in range(0, len(wires), size)]


WAYS: dict[str, Callable[[list[Wire], random.Random], Parts]] = {
    "whole": whole,
    "lossy": lossy,
    "reordered": reordered,
    "doubled": doubled,
    "snaplen": snaplen,
    "midstream": midstream,
    "split": split,
}


def copies(name: str, way: str) -> list[list[Wire]]:
    """The impaired copy of a capture, in one part or several; the same each time."""
    return WAYS[way](ip_packets(CAPTURES / f"small_{name}.pcap"), random.Random(f"{name} {way}"))


def read(name: str, way: str) -> list[Row]:
    """The rows of the impaired copy."""
    keys = (CAPTURES / "small_tlskey.keys").read_text() if name == "tlskey" else ""
    return [row for part in copies(name, way) for row in rows(pcap(part), "messages", Options(tls_keylog=keys))]


def counted(found: Iterable[Row]) -> dict[str, int]:
    """How many requests have their response, whole or in part, and how many rows each status."""
    told = list(found)
    return {"matched": sum(map(is_matched, told)), **dict(sorted(Counter(str(row["status"]) for row in told).items()))}


def is_matched(row: Row) -> bool:
    """Whether a row has a request, and the response to it."""
    return row["in_flight"] is not None and row["req_ts"] is not None and row["resp_ts"] is not None


def tshark_version(tshark: str) -> str:
    """As "4.0.17"."""
    told = subprocess.run([tshark, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    return told.split()[2].rstrip(".")


def tshark_matched(tshark: str, way: str, folder: Path) -> int:
    """How many responses tshark gives a request to, in the impaired copies of all captures in the clear."""
    parts: list[list[Wire]] = [[] for _ in range(PARTS)]
    for name in CLEAR:
        for at, wires in enumerate(copies(name, way)):
            parts[at] += wires
    # What comes out of order waits only where tshark is told to; with packets missing it then matches less.
    options = ["-o", f"tcp.reassemble_out_of_order:{str(way == 'reordered').upper()}"]
    files = [(folder / f"{way}-{at}.pcap", part) for at, part in enumerate(parts) if part]
    return sum(_matched_by([tshark, *options], path, part) for path, part in files)


def _matched_by(tshark: list[str], path: Path, wires: Sequence[Wire]) -> int:
    path.write_bytes(pcap(wires))
    command = [*tshark, "-r", str(path), "-d", "tcp.port==21092,kafka", "-Y", "kafka.request_frame"]
    command += ["-T", "fields", "-e", "kafka.request_frame"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    return sum(len(line.split(",")) for line in lines)


def all_counts() -> Iterator[tuple[str, dict[str, Any]]]:
    """What we read, by way and capture."""
    for way in WAYS:
        yield way, {name: counted(read(name, way)) for name in FILES}


def main() -> None:
    """Write down what is read now, and what the tshark found here matches."""
    import tempfile

    tshark = needs.tool("tshark")
    with tempfile.TemporaryDirectory() as folder:
        found = {way: tshark_matched(tshark, way, Path(folder)) for way in WAYS}
    tree = {"tshark": {"version": tshark_version(tshark), "matched": found}, "ours": dict(all_counts())}
    PINNED.write_text(json.dumps(tree, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
