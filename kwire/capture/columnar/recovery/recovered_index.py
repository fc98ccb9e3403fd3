"""An index whose damaged flows are readable by columns, as far as possible."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar.recovery.recovery_builder import FRAGMENTS_START, RecoveryBuilder
from kwire.capture.index.column_schema import UNANSWERED_PART, read_exchanges, write_exchanges
from kwire.capture.index.columns import Columns, PagedColumn
from kwire.capture.index.flows.flow_table import UNCLEAN_REASONS
from kwire.capture.index.flows.pairing import concatenate_exchanges
from kwire.capture.index.model import Index
from kwire.capture.index.sparse import read_sparse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.columnar.recovery.recovery_builder import RecoveredPart
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.frame_headers import StoredNumbers
    from kwire.capture.index.flows.pairing import ExchangeColumns

# Flows that are not clean for other reasons are no Kafka, or only the streaming pipeline can read them. One packet of a
# handshake may be missing; flows that began before the capture fail at their first data.
_REASONS = [UNCLEAN_REASONS.index(reason) for reason in ("snaplen", "hole", "disorder", "pairing", "cut", "midstream")]


def recover_flows(index: Index, chosen: Bools) -> Index:
    """The index with those of the chosen flows recovered that have lost or cut packets; it is stored in `recovered`.

    Args: chosen: by flow number.
    """
    if type(index) is not Index:
        # The packets of a series are in the indexes of its files.
        return index
    is_damaged = chosen & np.isin(index.columns["flow.unclean_reason"], _REASONS)
    if not is_damaged.any():
        return index
    if not isinstance(index.recovered, RecoveredIndex) or not np.array_equal(index.recovered.chosen, is_damaged):
        with _without_collection():
            index.recovered = RecoveredIndex(index, is_damaged)
    return index.recovered


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pause the collector of cyclic garbage: it would visit a tuple for each packet, none of which is in a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class RecoveredIndex(Index):
    """The index of one capture with recovered flows; their exchanges are stored apart from it."""

    def __init__(self, index: Index, chosen: Bools) -> None:
        """Args: chosen: the flows to recover, by number."""
        super().__init__(index.source, index.columns)
        self.chosen = chosen
        self._recovered = Columns()
        self._fragment_firsts = [FRAGMENTS_START]
        file = index.open_file()
        try:
            builder = RecoveryBuilder(np.nonzero(chosen)[0], index.openers, file.read, index.client_ids)
            for part, (base, size) in enumerate(index.spans):
                packets = index.read_packets(part)
                is_needed = chosen[packets.flow] & (packets.captured > 0) & (packets.at >= 0)
                at = packets.at[is_needed]
                data = read_sparse(file.read, base, size, (at, at + packets.captured[is_needed]))
                self._write_part(part, builder.add_span(packets, base, data))
            self._write_part(UNANSWERED_PART, builder.finish())
        finally:
            file.close()
        end_reasons = index.columns["flow.end_reason"]
        self._is_recovered = np.zeros(len(chosen), dtype=np.bool_)
        for number, end_reason, opener in builder.recovered_flows():
            self._is_recovered[number] = end_reason == end_reasons[number] and opener == index.openers[number]
        self.client_ids = builder.client_ids
        gaps = [gap for gap in builder.gaps() if self._is_recovered[gap.flow]]
        others = [gap for gap in index.gaps if not self._is_recovered[gap.flow]]
        self.gaps = sorted([*others, *gaps], key=attrgetter("completed_by"))

    @cached_property
    def is_clean(self) -> Bools:
        """Whether each flow can be read by columns."""
        return super().is_clean | self._is_recovered

    def read_exchanges(self, part: int) -> ExchangeColumns:
        """The exchanges that a span completes, also of recovered flows."""
        exchanges, recovered = super().read_exchanges(part), read_exchanges(self._recovered, part)
        exchanges = exchanges.select(np.nonzero(~self._is_recovered[exchanges.flow])[0])
        recovered = recovered.select(np.nonzero(self._is_recovered[recovered.flow])[0])
        # Connections that a packet shows to be over are closed before the packet is read.
        merged = concatenate_exchanges([recovered, exchanges])
        if part == UNANSWERED_PART:
            # At the end of the capture, connections are closed in the order in which they began.
            return merged.select(np.lexsort((merged.flow, merged.completed_by)))
        return merged.select(np.argsort(merged.completed_by, kind="stable"))

    def body_fragments(self) -> tuple[StoredNumbers, StoredNumbers]:
        """File offset and size of the fragments of bodies."""
        at, size = super().body_fragments()
        firsts = np.array(self._fragment_firsts, dtype=np.int64)
        return (
            _Fragments(at, PagedColumn(self._recovered, "fragments.at", firsts)),
            _Fragments(size, PagedColumn(self._recovered, "fragments.size", firsts)),
        )

    def _write_part(self, part: int, recovered: RecoveredPart) -> None:
        write_exchanges(self._recovered, part, recovered.exchanges)
        page, fragments = len(self._fragment_firsts) - 1, recovered.fragments
        self._recovered.add_column(f"{page}.fragments.at", fragments.at)
        self._recovered.add_column(f"{page}.fragments.size", fragments.size)
        self._fragment_firsts.append(self._fragment_firsts[-1] + len(fragments.at))


class _Fragments:
    """The fragments of the index and those of recovered flows."""

    def __init__(self, before: StoredNumbers, recovered: StoredNumbers) -> None:
        self._before = before
        self._recovered = recovered

    def __getitem__(self, number: int, /) -> int:
        return self._recovered[number] if number >= FRAGMENTS_START else self._before[number]

    def take(self, numbers: Ints) -> Ints:
        """The numbers at these indexes."""
        is_recovered = numbers >= FRAGMENTS_START
        out = np.empty(len(numbers), dtype=np.int64)
        out[is_recovered] = self._recovered.take(numbers[is_recovered])
        out[~is_recovered] = self._before.take(numbers[~is_recovered])
        return out
