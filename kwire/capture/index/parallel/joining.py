"""The ranges of a file joined: each must begin where the one before ends, or it is read again from there.

Behind this everything is exact, whatever was guessed: packets have their numbers of the file, flows are numbered by
their first packet and shared out, and fragments are put together.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kwire.capture.index.columns import Columns, fresh
from kwire.capture.index.model import PACKETS
from kwire.capture.index.parallel.ranges import Range, RangeFile, read_range
from kwire.capture.index.walking.files import File, Source
from kwire.capture.index.walking.head_pass import HeadPass, refuse_too_much
from kwire.capture.index.walking.heads import Heads
from kwire.capture.index.walking.spans import Walked
from kwire.capture.index.walking.walk import walk
from kwire.capture.values import Packet, Trouble

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

# So many flows are shared out one by one, the largest first; of the others there are so many that it does not matter.
_WEIGHED_MAX = 10_000
# Packets inside a tunnel that is not read are counted, over all ranges.
_COUNTED = "encapsulated"


class _Joint(NamedTuple):
    """A range in its place: its number among the ranges, and how many packets are in front of it."""

    number: int
    told: RangeFile
    before: int


class Folder:
    """Where the files of an index are that several make."""

    def __init__(self, path: Path) -> None:
        """It exists."""
        self.path = path

    def range(self, number: int) -> Path:
        """The packets of a range."""
        return self.path / f"range-{number}"

    @property
    def joined(self) -> Path:
        """What the join has found."""
        return self.path / "joined"

    def shard(self, number: int) -> Path:
        """What was built of some flows."""
        return self.path / f"shard-{number}"


def join(source: Source, folder: Folder, ranges: Sequence[Range], shards: int) -> int:
    """Join the ranges, whose files are in the folder, and share the flows out among so many shards.

    Returns: how many ranges had to be read again.
    Raises: NotIndexed, CaptureError; OSError.
    """
    again: list[int] = []
    with fresh(folder.joined) as columns, File(source) as file:
        # A file may grow meanwhile; and an index of one that has changed fits it no more.
        file.size = min(file.size, ranges[-1].stop)
        way = walk(file, source)
        walked = Walked(way.first)
        joints = list(_chained(source, folder, ranges, walked, again))
        late = _Late(file, columns)
        spans: list[tuple[int, int, int, int]] = []
        for number, told, before in joints:
            for span, (base, size) in enumerate(told.head.spans):
                late.take(len(spans), told.deferred(span), before)
                spans.append((number, span, base, size))
        flows = _Flows(joints, late)
        flows.write(columns, joints, shards)
        late.write(flows.numbers)
        way.close(walked)
        columns.about = {
            "ranges": ranges,
            "spans": spans,
            "before": {str(number): before for number, _, before in joints},
            "late": sorted(late.heads),
            "loose": len(late.passing.loose),
            "shards": shards,
            "index": {
                "size": file.size,
                "mtime_ns": min([file.mtime_ns, *(told.head.mtime_ns for _, told, _ in joints)]),
                "packet_count": walked.packet_count,
                "first_ts": min((told.head.first_ts for _, told, _ in joints if told.head.spans), default=0),
                "last_ts": max((told.head.last_ts for _, told, _ in joints), default=0),
                "secrets_at": walked.secrets,
                "may_have_secrets": way.may_have_secrets,
                "troubles": _troubles(joints, late.passing, walked),
            },
        }
    return len(again)


def _chained(
    source: Source, folder: Folder, ranges: Sequence[Range], walked: Walked, again: list[int]
) -> Iterator[_Joint]:
    """The ranges that have a record, each begun where the one before has ended; `walked` goes along."""
    for number, own in enumerate(ranges):
        if walked.is_ended:
            return
        if walked.place.at >= own.stop:
            continue
        told = RangeFile(folder.range(number))
        if told.head.begin != walked.place:
            again.append(number)
            read_range(source, own, walked.place, folder.range(number))
            told = RangeFile(folder.range(number))
        yield _Joint(number, told, walked.packet_count)
        found = told.head.walked
        walked.place, walked.is_ended = found.place, found.is_ended
        walked.last_ts = found.last_ts if found.packet_count else walked.last_ts
        walked.packet_count += found.packet_count
        walked.troubles += found.troubles
        walked.secrets += found.secrets


class _Late:
    """Fragments, put together in the order of the file, and the packets that they make."""

    def __init__(self, file: File, columns: Columns) -> None:
        self.passing = HeadPass()
        self.heads: dict[int, Heads] = {}
        self._file = file
        self._columns = columns

    def take(self, span: int, deferred: list[tuple[int, ...]], before: int) -> None:
        """Those of a span; `before`: how many packets are in front of their range."""
        if deferred:
            heads = self.passing.exact(self._packets(deferred, before))
            if len(heads.number):
                self.heads[span] = heads

    def write(self, numbers: dict[tuple[int, ...], int]) -> None:
        """Keep the packets; their flows have these numbers."""
        for span, heads in self.heads.items():
            flow = np.array([numbers[tuple(words)] for words in heads.ends.tolist()], dtype=np.int64)
            for name, kind in PACKETS.items():
                column = flow if name == "flow" else getattr(heads, name)
                self._columns.add(f"{span}.late.{name}", column.astype(kind))
        for number, payload in enumerate(self.passing.loose):
            self._columns.add(f"loose.{number}", np.frombuffer(payload, dtype=np.uint8))

    def _packets(self, deferred: list[tuple[int, ...]], before: int) -> Iterator[tuple[Packet, int]]:
        for number, ts, link, at, kept, size in deferred:
            yield Packet(number + before, ts, link, self._file.read(at, kept), size), at


class _Flows:
    """The flows of all ranges, numbered by their first packets."""

    def __init__(self, joints: Sequence[_Joint], late: _Late) -> None:
        firsts: dict[tuple[int, ...], int] = {}
        counts: dict[tuple[int, ...], int] = {}
        for _, told, before in joints:
            words, first, count = told.flows()
            for key, own, packets in zip(map(tuple, words.tolist()), first.tolist(), count.tolist(), strict=True):
                firsts.setdefault(key, own + before)
                counts[key] = counts.get(key, 0) + packets
        for heads in late.heads.values():
            for key, number in zip(map(tuple, heads.ends.tolist()), heads.number.tolist(), strict=True):
                firsts[key] = min(firsts.get(key, number), number)
                counts[key] = counts.get(key, 0) + 1
        ordered = sorted(firsts, key=firsts.__getitem__)
        self.numbers = {key: number for number, key in enumerate(ordered)}
        self._counts = np.array([counts[key] for key in ordered], dtype=np.int64)

    def write(self, columns: Columns, joints: Sequence[_Joint], shards: int) -> None:
        """Keep their names, who has which, and the numbers that each range's own have here."""
        columns.add("flow.words", np.array(list(self.numbers), dtype=np.uint64).reshape(-1))
        columns.add("flow.shards", shared(self._counts, shards).astype("i4"))
        for number, told, _ in joints:
            words = told.flows()[0].tolist()
            columns.add(f"numbers.{number}", np.array([self.numbers[tuple(key)] for key in words], dtype="i4"))


def shared(costs: Ints, shards: int) -> Ints:
    """Which shard has each flow, so that all have about as much to do."""
    out = np.arange(len(costs), dtype=np.int64) % shards
    held = [(0, shard) for shard in range(shards)]
    for flow in np.argsort(-costs, kind="stable")[:_WEIGHED_MAX].tolist():
        cost, shard = heapq.heappop(held)
        out[flow] = shard
        heapq.heappush(held, (cost + int(costs[flow]), shard))
    return out


def _troubles(joints: Sequence[_Joint], passing: HeadPass, walked: Walked) -> list[tuple[int, Trouble]]:
    """All troubles in the order in which one pass over the file finds them."""
    found = list(passing.troubles)
    counted: dict[str, Trouble] = {}
    for _, told, before in joints:
        moved = [(number + before, each._replace(packet=each.packet + before)) for number, each in told.head.troubles]
        found += [each for each in moved if each[1].kind != _COUNTED]
        _count(counted, [each for _, each in moved if each.kind == _COUNTED])
    refuse_too_much(found)
    found.sort(key=lambda each: each[0])
    found += [(walked.packet_count, each) for each in walked.troubles]
    passing.troubles.clear()
    passing.close(walked.packet_count)
    left = [each for _, each in passing.troubles]
    _count(counted, [each for each in left if each.kind == _COUNTED])
    left = [each for each in left if each.kind != _COUNTED]
    left += sorted(counted.values(), key=lambda each: each.packet)
    return found + [(walked.packet_count, each) for each in left]


def _count(counted: dict[str, Trouble], found: list[Trouble]) -> None:
    """Add what was counted; the first packet of all is told."""
    for each in found:
        before = counted.get(each.detail)
        if before is None:
            counted[each.detail] = each
            continue
        first = min(before, each, key=lambda one: one.packet)
        counted[each.detail] = first._replace(packets=before.packets + each.packets)


class Joined:
    """What the join has found, read back, with the packets of the ranges."""

    def __init__(self, folder: Folder) -> None:
        """Raises: OSError, BadColumnsError."""
        with open(folder.joined, "rb") as file:
            self._columns = Columns.read(file, checks=False)
        self._folder = folder
        about = self._columns.about
        self.index: dict[str, Any] = about["index"]
        self.shards: int = about["shards"]
        self.ranges = [Range(start, stop) for start, stop in about["ranges"]]
        self._spans = about["spans"]
        self._before: dict[str, int] = about["before"]
        self._late = frozenset(about["late"])
        self._range: tuple[int, RangeFile, Ints] | None = None

    @property
    def extents(self) -> list[tuple[int, int]]:
        """Place and size of each span."""
        return [(base, size) for _, _, base, size in self._spans]

    @property
    def words(self) -> npt.NDArray[np.uint64]:
        """The ends of each flow."""
        return self._columns["flow.words"].reshape(-1, 5)

    def flows(self, shard: int) -> Ints:
        """The numbers of the flows of a shard."""
        return np.nonzero(self._columns["flow.shards"] == shard)[0]

    def loose(self) -> list[bytes]:
        """The payloads that came in fragments."""
        return [self._columns[f"loose.{number}"].tobytes() for number in range(self._columns.about["loose"])]

    def packets(self, span: int) -> dict[str, Any]:
        """The columns of the packets of a span, as the index has them."""
        number, own, _, _ = self._spans[span]
        if self._range is None or self._range[0] != number:
            self._range = number, RangeFile(self._folder.range(number)), self._columns[f"numbers.{number}"]
        _, told, numbers = self._range
        found: dict[str, Any] = told.packets(own)
        found["number"] = found["number"] + self._before[str(number)]
        found["flow"] = numbers[found["flow"]]
        if span in self._late:
            both = {name: [found[name], self._columns[f"{span}.late.{name}"]] for name in PACKETS}
            whole = {name: np.concatenate(columns) for name, columns in both.items()}
            order = np.argsort(whole["number"], kind="stable")
            found = {name: column[order] for name, column in whole.items()}
        return found
