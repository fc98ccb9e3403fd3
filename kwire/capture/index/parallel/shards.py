"""The second stage of an index made by several: the builder over the packets of all ranges, but of some flows only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.index.building.beginnings import Begun, LostRow
from kwire.capture.index.building.builder import LIMITS, Builder
from kwire.capture.index.building.hop import Held, Places
from kwire.capture.index.building.pairing import Exchanges
from kwire.capture.index.columns import Columns, fresh
from kwire.capture.index.keeping import add_exchanges
from kwire.capture.index.model import BEGUN, FLOWS, exchanges_in
from kwire.capture.index.parallel.joining import Folder, Joined
from kwire.capture.index.parallel.ranges import heads_of
from kwire.capture.index.walking.files import File, Source

if TYPE_CHECKING:
    import numpy.typing as npt

    from kwire.capture.index.walking.heads import Heads

    Ints = npt.NDArray[np.int64]

# As much behind a payload as headers are looked for.
_ROOM = 64


def build_shard(source: Source, folder: Folder, shard: int) -> None:
    """Build the flows of a shard of ranges that are joined, and write what they tell to its file."""
    joined = Joined(folder)
    flows = joined.flows(shard)
    own = np.full(len(joined.words), -1, dtype=np.int64)
    own[flows] = np.arange(len(flows))
    with fresh(folder.shard(shard)) as columns, File(source) as file:
        # What counts over all flows is added up by the merge.
        builder = Builder(file.read, is_limited=joined.shards == 1)
        counted, begun_counts = [], []
        for span in range(len(joined.extents)):
            packets = joined.packets(span)
            flow = own[packets["flow"]]
            chosen = np.nonzero(flow >= 0)[0]
            heads = heads_of(packets, chosen)
            part = builder.part(heads, flow[chosen], _held(file, heads))
            counted.append(part.counted)
            begun_counts.append(part.begun_count)
            add_exchanges(columns, span, _moved(part.exchanges, flows))
            _add_places(columns, f"{span}.pieces", part.places, flows)
        add_exchanges(columns, -1, _moved(builder.close(), flows))
        for name in FLOWS:
            columns.add(f"flow.{name}", getattr(builder.flows, name)[: len(flows)])
        columns.add("counted", np.array(counted, dtype=np.int64).reshape(-1))
        columns.add("begun.counts", np.array(begun_counts, dtype=np.int64))
        begun = builder.begun()
        add_exchanges(columns, BEGUN, _moved(begun.exchanges, flows))
        _add_places(columns, "begun.pieces", begun.pieces, flows)
        lost = [each._replace(flow=int(flows[each.flow])) for each in begun.lost]
        columns.about = {"client_ids": builder.client_ids, "lost": lost}


class ShardFile:
    """A shard, read back. Flows have the numbers of the index."""

    def __init__(self, folder: Folder, shard: int) -> None:
        """Raises: OSError, BadColumnsError."""
        with open(folder.shard(shard), "rb") as file:
            self._columns = Columns.read(file, checks=False)
        self.client_ids: list[str] = self._columns.about["client_ids"]
        self.counted: Ints = self._columns["counted"].reshape(-1, len(LIMITS))
        """By span, what is limited for all shards together."""

    def exchanges(self, span: int) -> Exchanges:
        """What a span completes; -1: what waits at the end."""
        return exchanges_in(self._columns, span)

    def places(self, span: int) -> Places:
        """The pieces of bodies of a span."""
        return Places(*(self._columns[f"{span}.pieces.{name}"] for name in Places._fields))

    def begun(self) -> Begun:
        """What beginnings tell."""
        places = Places(*(self._columns[f"begun.pieces.{name}"] for name in Places._fields))
        return Begun(exchanges_in(self._columns, BEGUN), places, [LostRow(*row) for row in self._columns.about["lost"]])

    def begun_spans(self) -> Ints:
        """The span in which each of their pieces came."""
        counts = self._columns["begun.counts"]
        return np.repeat(np.arange(len(counts)), np.diff(counts, prepend=0))

    def flow(self, name: str) -> Ints:
        """A column of its flows."""
        return self._columns[f"flow.{name}"]


def _add_places(columns: Columns, name: str, places: Places, flows: Ints) -> None:
    for each, column in places._replace(side=_sides(places.side, flows))._asdict().items():
        columns.add(f"{name}.{each}", column)


def _held(file: File, heads: Heads) -> Held:
    """The stretch of the file in which the payloads of these packets are."""
    lies = np.nonzero((heads.at >= 0) & (heads.kept > 0))[0]
    if not len(lies):
        return Held(0, b"")
    base = int(heads.at[lies].min())
    end = int((heads.at[lies] + heads.kept[lies]).max())
    return Held(base, file.read(base, end - base + _ROOM))


def _moved(found: Exchanges, flows: Ints) -> Exchanges:
    """The same with the numbers that flows have in the index."""
    request, response = found.request, found.response
    request = request._replace(frame=request.frame._replace(side=_sides(request.frame.side, flows)))
    response = response._replace(frame=response.frame._replace(side=_sides(response.frame.side, flows)))
    return Exchanges(request, response, found.done)


def _sides(side: Ints, flows: Ints) -> Ints:
    """Numbers of sides; -1, where there is none, stays."""
    if not len(flows):
        return side
    return np.where(side < 0, side, 2 * flows[side >> 1] + (side & 1))
