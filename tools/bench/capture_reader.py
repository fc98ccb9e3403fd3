"""`python -m tools.bench.capture_reader WHAT FILE`: read a capture once and discard the rows, for `capture`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.bench.capture_tools import FEW, HEADERS

#: What `kwire decode` prints, with its options.
_DECODE = {"lines": ["--format", "jsonl"], "table": []}


def main() -> None:
    """Read the capture; print the number of rows or packets, or the peak memory."""
    what, file, *rest = sys.argv[1:]
    if what in _DECODE:
        _decode(file, _DECODE[what])
    elif what == "first":
        print(*_first_table(file))
    elif what == "memory":
        _read_with_kwire(file, "decoded")
        print(_peak_memory())
    else:
        print(_read_with_dpkt(file, rest[0]) if what == "dpkt" else _read_with_kwire(file, what))


def _decode(file: str, options: Sequence[str]) -> None:
    """`kwire decode`, as a process; its exit code for a capture without Kafka is no failure of the measurement."""
    from kwire.cli.main import main as run_kwire

    sys.argv = ["kwire", "decode", *options, file]
    run_kwire()


def _first_table(file: str) -> tuple[float, float]:
    """CPU seconds of importing Arrow with what its functions import on first use, and of the first table after that."""
    start = time.process_time()
    import pyarrow as pa
    import pyarrow.compute as pc

    pc.sum(pa.array([1]))
    ready = time.process_time()
    import kwire

    kwire.read_capture(file)
    return ready - start, time.process_time() - ready


def _read_with_kwire(file: str, what: str) -> int:
    from kwire.capture import columnar
    from kwire.capture.reader import read_batches
    from kwire.capture.rows.columns import LEVELS, MESSAGES

    names = [column.name for column in MESSAGES]
    choices = {
        "headers": list(HEADERS),
        "few": list(FEW),
        "decoded": [name for name in names if name in columnar.COLUMNS and name != "issues"],
        "checked": [name for name in names if name in columnar.COLUMNS],
        "json": names,
    }
    level, columns = ("messages", choices[what]) if what in choices else (what, None)
    assert level in LEVELS
    return sum(batch.num_rows for batch in read_batches(file, level, columns=columns))


def _peak_memory() -> float:
    """MiB. The usage of an ended process would include the memory of its parent at the fork."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _read_with_dpkt(file: str, folder: str) -> int:
    sys.path.insert(0, folder)
    import dpkt  # type: ignore[import-not-found]

    with open(file, "rb") as source:
        # Raw IP, the link type of these captures.
        packets = (dpkt.ip.IP(data) for _, data in dpkt.pcap.UniversalReader(source))
        return sum(isinstance(packet.data, dpkt.tcp.TCP) for packet in packets)


if __name__ == "__main__":
    main()
