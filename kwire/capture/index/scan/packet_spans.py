"""Packets that were read one by one as the span of an index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwire.capture.index.scan.spans import Span
from kwire.capture.model import Packet

_PADDING_SIZE = 64


def span_of_packets(packets: Sequence[Packet]) -> Span:
    """The span that consists of these packets, at least one; they have their numbers."""
    number, ts, link, data, size = zip(*packets, strict=True)
    captured = np.fromiter(map(len, data), dtype=np.int64, count=len(data))
    # Headers are read together with some bytes behind them.
    whole = b"".join((*data, bytes(_PADDING_SIZE)))
    at = np.cumsum(captured) - captured
    numbers, times, sizes, links = (np.array(column, dtype=np.int64) for column in (number, ts, size, link))
    return Span(0, whole, len(whole), numbers, times, at, captured, sizes, links)
