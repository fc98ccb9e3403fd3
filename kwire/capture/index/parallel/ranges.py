"""The first stage of an index made by several: the packets of one range of the file, as columns in a file.

Nothing goes from range to range but what `Place` has, and fragments: those are left to the join. Numbers of packets
and flows are the range's own until then.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kwire.capture.blocks import Interface
from kwire.capture.index.building.ids import FlowIds
from kwire.capture.index.columns import Columns, fresh
from kwire.capture.index.model import PACKETS
from kwire.capture.index.walking.files import File, Source
from kwire.capture.index.walking.head_pass import HeadPass
from kwire.capture.index.walking.heads import Heads
from kwire.capture.index.walking.spans import Place, Walked
from kwire.capture.index.walking.walk import walk
from kwire.capture.values import CaptureError, Trouble

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_DEFERRED_WIDTH = 6


class Range(NamedTuple):
    """The records that begin from one offset up to another; both are of the grid of spans, or the file's end."""

    start: int
    stop: int


class Head(NamedTuple):
    """What a range tells beside its packets.

    begin: where its first record is believed to be, None for nowhere. mtime_ns: of the file, when it was read.
    """

    begin: Place | None
    walked: Walked
    first_ts: int
    last_ts: int
    spans: list[tuple[int, int]]
    troubles: list[tuple[int, Trouble]]
    mtime_ns: int


def cut(size: int, range_size: int, span_size: int) -> list[Range]:
    """The ranges of a file of this size, each as large as asked, in whole spans; one range at least."""
    step = max(1, range_size // span_size) * span_size
    starts = range(0, max(size, 1), step)
    return [Range(start, min(start + step, max(size, 1))) for start in starts]


def read_range(source: Source, own: Range, begin: Place | None, path: str | os.PathLike[str]) -> None:
    """Write the packets of a range to a file.

    Args: begin: its first record; None where that must be guessed. What a wrong guess meets is no error: then there is
    no beginning in the file.
    Raises: NotIndexed, CaptureError for what begins where it was told; OSError.
    """
    with fresh(path) as columns, File(source) as file:
        try:
            head = _read(source, file, own, begin, columns)
        except CaptureError:
            if begin is not None:
                raise
            head = None
        columns.about = _told(head or Head(None, Walked(Place(0)), 0, 0, [], [], file.mtime_ns))


def _read(source: Source, file: File, own: Range, begin: Place | None, columns: Columns) -> Head | None:
    way = walk(file, source)
    place = begin or (way.first if own.start == 0 else way.guess(own.start, own.stop))
    if place is None:
        return None
    walked, passing, ids = Walked(place), HeadPass(defers=True), FlowIds()
    firsts, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    extents: list[tuple[int, int]] = []
    first_ts, last_ts = 2**63 - 1, 0
    for number, span in enumerate(way.spans(own.stop, walked)):
        first_ts, last_ts = min(first_ts, int(span.ts.min())), max(last_ts, int(span.ts.max()))
        extents.append((span.base, span.extent))
        heads = passing.heads(span)
        flow = ids.of(heads.ends)
        counts = np.append(counts, np.zeros(len(ids) - len(counts), dtype=np.int64))
        counts += np.bincount(flow, minlength=len(counts))
        new, at = np.unique(flow, return_index=True)
        is_new = new >= len(firsts)
        firsts = np.append(firsts, heads.number[at[is_new]])
        for name, kind in PACKETS.items():
            column = flow if name == "flow" else getattr(heads, name)
            columns.add(f"{number}.{name}", column.astype(kind))
        columns.add(f"{number}.deferred", np.array(passing.deferred, dtype=np.int64).reshape(-1))
        passing.deferred.clear()
    columns.add("flow.words", ids.table().reshape(-1))
    columns.add("flow.firsts", firsts)
    columns.add("flow.counts", counts)
    # What waits for fragments is none of a range; what was counted over all its packets is.
    passing.close(walked.packet_count)
    return Head(place, walked, first_ts, last_ts, extents, passing.troubles, file.mtime_ns)


class RangeFile:
    """A range, read back."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises: OSError, BadColumnsError."""
        with open(path, "rb") as file:
            self._columns = Columns.read(file, checks=False)
        about = self._columns.about
        walked = about["walked"]
        self.head = Head(
            None if about["begin"] is None else _place(about["begin"]),
            Walked(
                _place(walked["place"]),
                walked["packet_count"],
                walked["is_ended"],
                walked["last_ts"],
                [Trouble(*each) for each in walked["troubles"]],
                [(at, size) for at, size in walked["secrets"]],
            ),
            about["first_ts"],
            about["last_ts"],
            [(base, size) for base, size in about["spans"]],
            [(number, Trouble(*each)) for number, each in about["troubles"]],
            about["mtime_ns"],
        )

    def flows(self) -> tuple[npt.NDArray[np.uint64], Ints, Ints]:
        """By flow: its words, the number of its first packet, and how many packets it has."""
        columns = self._columns
        return columns["flow.words"].reshape(-1, 5), columns["flow.firsts"], columns["flow.counts"]

    def packets(self, span: int) -> dict[str, Ints]:
        """The columns of the packets of a span."""
        return {name: self._columns[f"{span}.{name}"] for name in PACKETS}

    def deferred(self, span: int) -> list[tuple[int, ...]]:
        """Its fragments, as `HeadPass.deferred` has them."""
        return [tuple(row) for row in self._columns[f"{span}.deferred"].reshape(-1, _DEFERRED_WIDTH).tolist()]


def heads_of(packets: dict[str, Any], chosen: Ints | None = None) -> Heads:
    """Heads of columns, or of some of their rows; they name no ends."""
    wide: dict[str, Any] = {name: packets[name] if chosen is None else packets[name][chosen] for name in PACKETS}
    wide["ends"] = np.zeros((len(wide["number"]), 0), dtype=np.int64)
    return Heads(*(wide[name].astype(np.int64) for name in Heads._fields))


def _told(head: Head) -> dict[str, Any]:
    walked = head.walked
    return {
        **head._asdict(),
        "walked": {name: getattr(walked, name) for name in Walked.__slots__},
    }


def _place(tree: list[Any]) -> Place:
    at, order, interfaces = tree
    return Place(at, order, tuple(Interface(*each) for each in interfaces))
