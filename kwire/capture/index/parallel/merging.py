"""The last stage of an index made by several: what the shards have found, span by span, as if one had built it all."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from kwire.capture.index.build import renumbered
from kwire.capture.index.building import pairing
from kwire.capture.index.building.beginnings import Begun
from kwire.capture.index.building.builder import LIMITS
from kwire.capture.index.building.hop import BEGUN_FIRST, Frames, Places
from kwire.capture.index.building.pairing import Exchanges
from kwire.capture.index.columns import Columns
from kwire.capture.index.keeping import Keeper
from kwire.capture.index.model import FLOWS
from kwire.capture.index.parallel.joining import Folder, Joined, join
from kwire.capture.index.parallel.shards import ShardFile, build_shard
from kwire.capture.index.walking.files import Source

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


def merge(source: Source, folder: Folder, columns: Columns) -> None:
    """Fill the columns of the index of a file whose shards are all built."""
    joined = Joined(folder)
    shards = [ShardFile(folder, number) for number in range(joined.shards)]
    if len(shards) > 1 and bool((np.sum([each.counted for each in shards], axis=0) > LIMITS).any()):
        # What is given up then depends on all flows together: it takes one builder.
        join(source, folder, joined.ranges, 1)
        build_shard(source, folder, 0)
        merge(source, folder, columns)
        return
    keeper = Keeper(columns)
    texts = [text for each in shards for text in each.client_ids]
    moves = _moves(shards)
    before = 0
    # While one span is written, the next is put together.
    with ThreadPoolExecutor(1) as writer:
        written: Future[None] | None = None
        for span, extent in enumerate(joined.extents):
            whole = _joined_places([each.places(span) for each in shards], moves, before)
            before += len(whole.at)
            found = _in_order([move(each.exchanges(span)) for each, move in zip(shards, moves, strict=True)])
            found, packets = renumbered(found, keeper.clients, texts), joined.packets(span)
            if written is not None:
                written.result()
            written = writer.submit(keeper.span, extent, packets, found, whole)
        if written is not None:
            written.result()
    left = pairing.joined([move(each.exchanges(-1)) for each, move in zip(shards, moves, strict=True)])
    left = renumbered(left.of(np.lexsort((left.request.number, left.request.frame.side))), keeper.clients, texts)
    found, pieces, lost = _begun(shards, moves)
    keeper.begun(renumbered(found, keeper.clients, texts), pieces, lost)
    keeper.close(_flows(joined, shards), left, joined.loose())
    keeper.about(joined.index)


def _flows(joined: Joined, shards: Sequence[ShardFile]) -> dict[str, Any]:
    """The columns of flows, by their numbers in the index."""
    flows: dict[str, Any] = {"words": joined.words}
    for name in FLOWS:
        flows[name] = np.zeros(len(joined.words), dtype=np.int64)
        for number, each in enumerate(shards):
            flows[name][joined.flows(number)] = each.flow(name)
    return flows


class _Move:
    """Gives what a shard has found the numbers of the index: pieces, and client ids in the list of all shards."""

    def __init__(self, first_client: int, begun: Ints) -> None:
        """`begun`: the numbers of the pieces that beginnings have."""
        self._first_client = first_client
        self._begun = begun
        self._columns = Columns()
        self._firsts = [0]

    def add(self, numbers: Ints) -> None:
        """The numbers of the pieces of one more span."""
        self._columns.add(str(len(self._firsts) - 1), numbers)
        self._firsts.append(self._firsts[-1] + len(numbers))

    def __call__(self, found: Exchanges) -> Exchanges:
        """The exchanges with these numbers."""
        request, response = found.request, found.response
        client_id = np.where(request.client_id < 0, request.client_id, request.client_id + self._first_client)
        request = request._replace(frame=self._frames(request.frame), client_id=client_id)
        return Exchanges(request, response._replace(frame=self._frames(response.frame)), found.done)

    def _frames(self, frames: Frames) -> Frames:
        chosen = np.nonzero((frames.at < 0) & (frames.parts > 0))[0]
        if not len(chosen):
            return frames
        own = -1 - frames.at[chosen]
        numbers = np.empty(len(own), dtype=np.int64)
        is_begun = own >= BEGUN_FIRST
        numbers[is_begun] = self._begun[own[is_begun] - BEGUN_FIRST]
        spans = np.searchsorted(self._firsts, own, "right") - 1
        for span in np.unique(spans[~is_begun]).tolist():
            mine = np.nonzero((spans == span) & ~is_begun)[0]
            numbers[mine] = self._columns[str(span)][own[mine] - self._firsts[span]]
        at = frames.at.copy()
        at[chosen] = -1 - numbers
        return frames._replace(at=at)


def _moves(shards: Sequence[ShardFile]) -> list[_Move]:
    order = _begun_order(shards)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(BEGUN_FIRST, BEGUN_FIRST + len(order))
    out: list[_Move] = []
    client = place = 0
    for each in shards:
        count = len(each.begun().pieces.at)
        out.append(_Move(client, rank[place : place + count]))
        client, place = client + len(each.client_ids), place + count
    return out


def _begun_order(shards: Sequence[ShardFile]) -> Ints:
    """The pieces of beginnings in the order in which one builder meets them: span by span, flow by flow."""
    flow = np.concatenate([each.begun().pieces.side >> 1 for each in shards])
    return np.lexsort((flow, np.concatenate([each.begun_spans() for each in shards])))


def _begun(shards: Sequence[ShardFile], moves: Sequence[_Move]) -> Begun:
    """What all beginnings tell."""
    parts = [each.begun() for each in shards]
    found = pairing.joined([move(each.exchanges) for each, move in zip(parts, moves, strict=True)])
    pieces = Places(*(np.concatenate(columns) for columns in zip(*(each.pieces for each in parts), strict=True)))
    order = _begun_order(shards)
    lost = sorted((row for each in parts for row in each.lost), key=lambda row: row.done)
    in_turn = np.lexsort((found.flow, found.done))
    return Begun(found.of(in_turn), Places(*(column[order] for column in pieces)), lost)


def _joined_places(places: list[Places], moves: Sequence[_Move], before: int) -> Places:
    """The pieces of all shards in the order of their sides; `before`: how many there are in earlier spans."""
    whole = Places(*(np.concatenate(columns) for columns in zip(*places, strict=True)))
    order = np.argsort(whole.side, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(before, before + len(order))
    at = 0
    for each, own in zip(places, moves, strict=True):
        own.add(rank[at : at + len(each.at)])
        at += len(each.at)
    return Places(*(column[order] for column in whole))


def _in_order(parts: list[Exchanges]) -> Exchanges:
    """In the order in which they were complete: what one packet completes is of one shard."""
    if len(parts) == 1:
        return parts[0]
    whole = pairing.joined(parts)
    return whole.of(np.argsort(whole.done, kind="stable"))
