"""The history of measurements, docs/performance-history.jsonl: a line for each case of each run of a benchmark."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tools.bench.rounds import Timing

ROOT = Path(__file__).parents[2]
HISTORY = ROOT / "docs" / "performance-history.jsonl"
#: By the name in tables: the installed distribution whose version is that of the peer.
_DISTRIBUTIONS = {"mockbroker": "kwire", "pure Python": "kwire", "librdkafka": "confluent-kafka"}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One case by one library or broker, in `unit`: median, least and most of the rounds.

    ratio: as in the tables of the page: of times, that of this peer divided by ours; of rates, ours divided by that of
    this peer; of readers of captures, to the first one. None for ours. version: of the peer, "" if its name has it.
    """

    case: str
    peer: str
    version: str
    unit: str
    median: float
    least: float
    most: float
    ratio: float | None = None


class Entry(Result, frozen=True, kw_only=True):
    """A result with its benchmark, the commit (with "+" if files were changed), the UTC time and the machine."""

    benchmark: str
    commit: str
    date: str
    machine: str


def summarize(
    case: str,
    peer: str,
    unit: str,
    values: Sequence[float],
    *,
    ratio: float | None = None,
    peer_version: str | None = None,
) -> Result:
    """The result of some rounds. peer_version: the installed one by default."""
    return Result(
        case=case,
        peer=peer,
        version=find_version(peer) if peer_version is None else peer_version,
        unit=unit,
        median=_rounded(median(values)),
        least=_rounded(min(values)),
        most=_rounded(max(values)),
        ratio=None if ratio is None else _rounded(ratio),
    )


def summarize_timing(case: str, peer: str, timing: Timing, *, is_ours: bool) -> Result:
    """The result of a candidate that was compared with ours, in microseconds."""
    values = [seconds * 1e6 for seconds in (timing.seconds, timing.least, timing.most)]
    middle, least, most = map(_rounded, values)
    ratio = None if is_ours else _rounded(timing.ratio)
    found = find_version(peer)
    return Result(case=case, peer=peer, version=found, unit="us", median=middle, least=least, most=most, ratio=ratio)


def find_version(peer: str) -> str:
    """The installed version of a peer, "" if it is no Python distribution."""
    try:
        return version(_DISTRIBUTIONS.get(peer, peer))
    except PackageNotFoundError:
        return ""


def append_results(benchmark: str, results: Iterable[Result], machine: str, *, path: Path = HISTORY) -> None:
    """Append a line for each result; the lines before stay as they are."""
    run: dict[str, Any] = {
        "benchmark": benchmark,
        "commit": describe_commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "machine": machine,
    }
    lines = [msgspec.json.encode(Entry(**msgspec.structs.asdict(result), **run)) for result in results]
    with path.open("ab") as file:
        file.writelines(line + b"\n" for line in lines)


def read_history(path: Path = HISTORY) -> list[Entry]:
    """All lines. Raises: ValueError that names the line that is no entry."""
    entries = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            entries.append(msgspec.json.decode(line, type=Entry))
        except msgspec.MsgspecError as error:
            raise ValueError(f"{path.name}, line {number}: {error}") from error
    return entries


def describe_commit(root: Path = ROOT) -> str:
    """The commit of this checkout, 12 digits, with "+" if tracked files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def _rounded(value: float) -> float:
    """Four digits: the rest is noise."""
    return float(f"{value:.4g}")
