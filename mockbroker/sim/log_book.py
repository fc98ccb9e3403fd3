"""What the logs have: the offsets that records lie at, and those whose transaction was rolled back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mockbroker.sim.said import Place
from mockbroker.state.log import PartitionLog


@dataclass(slots=True)
class Page:
    """One log as it was read last. present: offsets with a record, markers too. aborted: of rolled back transactions.

    markers: where transactions end. Records that keep the state of share-partitions in the log are present to nobody.
    lost: had a record once, and have none any more, as compaction took it or its aborted batch. Records below the start
    of the log are in none of them.
    """

    present: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    markers: set[int] = field(default_factory=set)
    start: int = 0
    end: int = 0


class LogBook:
    """Reads a log anew when it has changed. log_of: the log of a place, None when there is none."""

    def __init__(self, log_of: Callable[[Place], PartitionLog | None]) -> None:
        self._log_of = log_of
        self._pages: dict[Place, Page] = {}
        self._stamps: dict[Place, tuple[object, ...]] = {}

    def page(self, place: Place) -> Page:
        """What is in a log; of a topic that is gone, what was in it last."""
        page = self._pages.setdefault(place, Page())
        log = self._log_of(place)
        if log is not None:
            aborted = log.aborted_transactions(0, log.end_offset)
            stamp = (log.start_offset, log.end_offset, log.segments.cleaned_to, len(aborted), log.size)
            if self._stamps.get(place) != stamp:
                self._stamps[place] = stamp
                _read(log, page)
        return page


def _read(log: PartitionLog, page: Page) -> None:
    batches = log.below(log.end_offset)
    headers = [(batch, batch.header()) for batch in batches]
    told = [batch for batch, header in headers if header.is_transactional or not header.is_control]
    present = {record.offset for batch in told for record in batch.records()}
    page.markers = {batch.base_offset for batch, header in headers if header.is_transactional and header.is_control}
    for one in log.aborted_transactions(0, log.end_offset):
        for batch in batches:
            header = batch.header()
            is_its = header.producer_id == one.producer_id and header.is_transactional and not header.is_control
            if is_its and one.first_offset <= batch.base_offset <= one.last_offset:
                page.aborted.update(range(batch.base_offset, batch.last_offset + 1))
    page.start, page.end = log.start_offset, log.end_offset
    page.lost = set(range(log.start_offset, log.end_offset)) - present
    page.present = present
