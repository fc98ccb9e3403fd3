"""`python -m tools.bench.capture_reader WHAT FILE`: read a capture once and keep nothing; what `capture` measures."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.bench.capture_tools import FEW, HEADERS


def main() -> None:
    """Read."""
    what, file, *rest = sys.argv[1:]
    if what == "dpkt":
        print(_dpkt(file, rest[0]))
    elif what == "memory":
        _ours(file, "decoded")
        print(_most_memory())
    else:
        print(_ours(file, what))


def _ours(file: str, what: str) -> int:
    from kwire.capture import arrow, lane
    from kwire.capture.schemas import MESSAGES

    every = [column.name for column in MESSAGES]
    choices = {
        "headers": list(HEADERS),
        "few": list(FEW),
        "decoded": [name for name in every if name in lane.COLUMNS and name != "issues"],
        "checked": [name for name in every if name in lane.COLUMNS],
        "json": every,
    }
    return sum(batch.num_rows for batch in arrow.batches(file, "messages", columns=choices[what]))


def _most_memory() -> float:
    """MiB. What the system tells of a process that has ended counts what its parent had when it began."""
    told = Path("/proc/self/status").read_text(encoding="ascii")
    return int(told.partition("VmHWM:")[2].split()[0]) / 1024


def _dpkt(file: str, folder: str) -> int:
    sys.path.insert(0, folder)
    import dpkt  # type: ignore[import-not-found]

    count = 0
    with open(file, "rb") as source:
        # Raw IP, as the captures have it.
        for _, data in dpkt.pcap.UniversalReader(source):
            packet = dpkt.ip.IP(data)
            count += isinstance(packet.data, dpkt.tcp.TCP)
    return count


if __name__ == "__main__":
    main()
