"""The index of one capture: what phase 1 found, as columns in memory, in a temporary file or in a sidecar."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from kwire.capture.index.building.beginnings import LostRow
from kwire.capture.index.building.flows import ENDED, WHY
from kwire.capture.index.building.hop import BEGUN_FIRST, Frames
from kwire.capture.index.building.pairing import Answered, Asked, Exchanges, joined
from kwire.capture.index.columns import Columns, Paged
from kwire.capture.index.walking.files import File
from kwire.capture.index.walking.heads import LINK_NAMES, ends_of
from kwire.capture.keylog import KeyLog
from kwire.capture.source import name_of
from kwire.capture.values import End, Trouble

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

FlowKey = tuple[End, End]
"""The two ends of a flow, the smaller one first. All connections between them are one flow."""

# The narrowest types that hold each column of a packet.
PACKETS = {
    "number": "i8",
    "ts": "i8",
    "link": "u1",
    "side": "u1",
    "seq": "u4",
    "ack": "u4",
    "flags": "u1",
    "window": "u2",
    "at": "i8",
    "kept": "i4",
    "missing": "i4",
    "flow": "i4",
}
FRAME = dict(zip(Frames._fields, ("i4", "i8", "i8", "i8", "i8", "i4", "i8", "i4", "i8"), strict=True))
ASKED = dict(zip(Asked._fields[1:], ("i2", "i2", "i4", "i4", "i4", "i1", "i8", "i4"), strict=True))
ANSWERED = dict(zip(Answered._fields[1:], ("i4", "i1"), strict=True))
# Where what beginnings of flows tell stands in the place of a span's number.
BEGUN = -2
FLOWS = ("first_ts", "last_ts", "packets", "size", "link", "syns", "why", "opener", "ended")


class Packets(NamedTuple):
    """The TCP packets of one span, in packet order. `at`: of the payload in the file; -1 - n: the n-th of `loose`."""

    number: Ints
    ts: Ints
    link: Ints
    side: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    window: Ints
    at: Ints
    kept: Ints
    missing: Ints
    flow: Ints


class Opened(Protocol):
    """What is read by offset."""

    def read(self, at: int, size: int, /) -> bytes:
        """`size` bytes from an offset; fewer at the end."""

    def close(self) -> None:
        """Give it back."""


class FlowInfo(NamedTuple):
    """A flow: times in nanoseconds, `bytes` of payload on the wire, and what it is not clean for (`why`)."""

    key: FlowKey
    link: str
    packets: int
    bytes: int
    first_ts: int
    last_ts: int
    syns: int
    why: str
    ended: str

    @property
    def is_clean(self) -> bool:
        """Whether the fast lane may read it."""
        return self.why == WHY[0]

    @property
    def cost(self) -> int:
        """How much work it is, for those who share it out: its bytes, and for each packet as much as for 512."""
        return self.bytes + 512 * self.packets


class Index:
    """What phase 1 found in a capture. No payload is in it, but for that of fragments."""

    def __init__(self, source: str | os.PathLike[str] | bytes, columns: Columns, sidecar: str | None = None) -> None:
        """Of the columns that `built` made, perhaps in another process. `sidecar` is the file that they are in."""
        self.source = source
        self.sidecar = sidecar
        self.columns = columns
        about = columns.about
        self.size: int = about["size"]
        self.mtime_ns: int = about["mtime_ns"]
        self.packet_count: int = about["packet_count"]
        self.first_ts: int = about["first_ts"]
        self.last_ts: int = about["last_ts"]
        self.client_ids: list[str] = about["client_ids"]
        self.spans: list[tuple[int, int]] = [(base, size) for base, size in about["spans"]]
        self.lost: list[LostRow] = [LostRow(*row) for row in about["lost"]]
        """What was passed over of flows that began before the capture."""
        self.troubles = [(number, Trouble(*trouble)) for number, trouble in about["troubles"]]

    def keys(self, more: str = "") -> KeyLog:
        """The TLS secrets of the file, and more lines of a key log."""
        found = KeyLog(more)
        found.add(self.secrets)
        # What waits for secrets in a file that may have some is told in other words.
        found.may_grow = bool(self.columns.about["may_have_secrets"])
        return found

    @cached_property
    def secrets(self) -> str:
        """The TLS secrets of the file, as lines of a key log. They are read there again: no index keeps them."""
        places = self.columns.about["secrets_at"]
        if not places:
            return ""
        with File(self.source) as file:
            return "\n".join(file.read(at, size).decode("latin-1") for at, size in places)

    @property
    def file(self) -> str:
        """What the column `file` of its rows says."""
        return name_of(self.source)

    @cached_property
    def flows(self) -> list[FlowInfo]:
        """The flows, by number."""
        words = self.columns["flow.words"].reshape(-1, 5).tolist()
        numbers = zip(*(self.columns[f"flow.{name}"].tolist() for name in FLOWS), strict=True)
        out = []
        for own, (first_ts, last_ts, packets, size, link, syns, why, _, ended) in zip(words, numbers, strict=True):
            key = ends_of(tuple(own))
            name = LINK_NAMES[link]
            out.append(FlowInfo(key, name, packets, size, first_ts, last_ts, syns, WHY[why], ENDED[ended]))
        return out

    @cached_property
    def numbers(self) -> dict[FlowKey, int]:
        """The number of each flow."""
        return {flow.key: number for number, flow in enumerate(self.flows)}

    @cached_property
    def files(self) -> list[tuple[int, str]]:
        """Where rows name the file of several in which they begin: the time of the beginning of each, and its name."""
        return []

    @property
    def members(self) -> list[tuple[int, Index]]:
        """The indexes of single files that it is made of, and how many packets are in the files before each."""
        return [(0, self)]

    def opened(self) -> Opened:
        """The bytes of the capture, by the offsets that are in the index; close it."""
        return File(self.source)

    def own_packets(self, numbers: Ints) -> Ints:
        """Numbers of packets as they are in their own file."""
        return numbers

    @property
    def openers(self) -> Ints:
        """By flow, the side that opened the connection; -1 where that was not seen."""
        return self.columns["flow.opener"]

    def packets(self, part: int) -> Packets:
        """The packets of one span."""
        return Packets(*(self.columns[f"{part}.{name}"] for name in PACKETS))

    def exchanges(self, part: int) -> Exchanges:
        """The exchanges that became complete in a span, of flows that were clean then; -1: those without an answer."""
        found, begun = exchanges_in(self.columns, part), self._begun(part)
        if begun.start == begun.stop:
            return found
        both = joined([found, exchanges_in(self.columns, BEGUN).of(np.arange(begun.start, begun.stop))])
        return both.of(np.argsort(both.done, kind="stable"))

    def _begun(self, part: int) -> range:
        """Which exchanges of the beginnings of flows became complete in a span."""
        done, lasts = self.columns[f"{BEGUN}.done"], self.columns["parts.last"]
        if part < 0:
            return range(int(np.searchsorted(done, lasts[-1] if len(lasts) else 0, "right")), len(done))
        first = int(np.searchsorted(done, lasts[part - 1], "right")) if part else 0
        return range(first, int(np.searchsorted(done, lasts[part], "right")))

    def pieces(self) -> tuple[Paged, Paged]:
        """Offset in the file and size of the pieces of bodies that lie in several, by the numbers that frames tell."""
        # Those of beginnings have a page of their own behind all others.
        firsts = np.append(self.columns["pieces.first"], BEGUN_FIRST)
        return Paged(self.columns, "pieces.at", firsts), Paged(self.columns, "pieces.size", firsts)

    def loose(self, number: int) -> bytes:
        """A payload that came in fragments."""
        return self.columns[f"loose.{number}"].tobytes()

    def __reduce__(self) -> tuple[Any, ...]:
        """It travels as the name of its sidecar; without one, as its columns."""
        if self.sidecar is not None and not isinstance(self.source, bytes):
            from kwire.capture.index.sidecar import restored

            return restored, (os.fspath(self.source), self.sidecar)
        held = {name: np.array(self.columns[name]) for name in self.columns}
        return _restored, (self.source, held, self.columns.about)


def _restored(source: str | bytes, held: dict[str, npt.NDArray[Any]], about: dict[str, Any]) -> Index:
    columns = Columns()
    columns.about = about
    for name, column in held.items():
        columns.add(name, column)
    return Index(source, columns)


def _frames(columns: Columns, name: str) -> Frames:
    return Frames(*(columns[f"{name}.{each}"].astype(np.int64) for each in FRAME))


def exchanges_in(columns: Columns, part: int) -> Exchanges:
    """The exchanges that `keeping.add_exchanges` wrote."""

    def wide(name: str) -> Ints:
        return columns[f"{part}.{name}"].astype(np.int64)

    request, response = _frames(columns, f"{part}.request"), _frames(columns, f"{part}.response")
    asked = Asked(request, *(wide(f"asked.{name}") for name in ASKED))
    answered = Answered(response, *(wide(f"answered.{name}") for name in ANSWERED))
    return Exchanges(asked, answered, wide("done"))
