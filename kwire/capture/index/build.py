"""Phase 1: one pass over a capture, a span at a time; what is kept are columns of numbers, and no payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwire.capture.index.building.builder import Builder
from kwire.capture.index.building.hop import Held
from kwire.capture.index.building.ids import FlowIds
from kwire.capture.index.building.pairing import Exchanges
from kwire.capture.index.columns import Columns
from kwire.capture.index.keeping import Keeper
from kwire.capture.index.model import FLOWS, PACKETS, Index
from kwire.capture.index.walking.files import File, Source
from kwire.capture.index.walking.head_pass import HeadPass
from kwire.capture.index.walking.heads import Heads
from kwire.capture.index.walking.spans import Walked
from kwire.capture.index.walking.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from kwire.capture.index.keeping import ClientNumbers

    Ints = npt.NDArray[np.int64]


def built(source: Source) -> Index:
    """Index a capture: one pass over it.

    Raises: NotIndexed when it is packed or no regular file; CaptureError; OSError.
    """
    columns = Columns()
    build(source, columns)
    return Index(source, columns)


def build(source: Source, columns: Columns, tell: Callable[[int], None] = lambda at: None) -> None:
    """The same, with the columns that the index shall have; `tell` is given how far the file is read.

    Raises: as `built`.
    """
    passing, ids, keeper = HeadPass(), FlowIds(), Keeper(columns)
    first_ts, last_ts = 2**63 - 1, 0
    with File(source) as file:
        way, builder = walk(file, source), Builder(file.read)
        walked = Walked(way.first)
        for span in way.spans(file.size, walked):
            first_ts, last_ts = min(first_ts, int(span.ts.min())), max(last_ts, int(span.ts.max()))
            heads = passing.heads(span)
            flow = ids.of(heads.ends)
            part = builder.part(heads, flow, Held(span.base, span.data))
            found = renumbered(part.exchanges, keeper.clients, builder.client_ids)
            keeper.span((span.base, span.extent), packets_of(heads, flow), found, part.places)
            tell(span.base + span.extent)
        unanswered = renumbered(builder.close(), keeper.clients, builder.client_ids)
        begun = builder.begun()
        keeper.begun(renumbered(begun.exchanges, keeper.clients, builder.client_ids), begun.pieces, begun.lost)
        way.close(walked)
        passing.troubles += [(walked.packet_count, each) for each in walked.troubles]
        passing.close(walked.packet_count)
        flows: dict[str, Any] = {name: getattr(builder.flows, name)[: len(ids)] for name in FLOWS}
        keeper.close({**flows, "words": ids.table()}, unanswered, passing.loose)
        keeper.about(
            {
                "size": file.size,
                "mtime_ns": file.mtime_ns,
                "packet_count": walked.packet_count,
                "first_ts": first_ts if walked.packet_count else 0,
                "last_ts": last_ts,
                "secrets_at": walked.secrets,
                "may_have_secrets": way.may_have_secrets,
                "troubles": passing.troubles,
            }
        )


def packets_of(heads: Heads, flow: Ints) -> dict[str, Ints]:
    """The columns of packets that an index keeps."""
    return {name: flow if name == "flow" else getattr(heads, name) for name in PACKETS}


def renumbered(found: Exchanges, clients: ClientNumbers, texts: list[str]) -> Exchanges:
    """The exchanges with the index's own numbers of client ids."""
    request = found.request
    numbers = clients.of(request.client_id, texts)
    return Exchanges(request._replace(client_id=numbers), found.response, found.done)
