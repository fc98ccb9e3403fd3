"""Packets that were read one by one as the span of an index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwire.capture.index.scan.spans import Span
from kwire.capture.model import Packet

_PADDING_SIZE = 64


def span_of_packets(packets: Sequence[Packet], base: int, first: int) -> Span:
    """The span that consists of these packets. Args: base: its position. first: the number of the first packet."""
    _, ts, link, data, size = zip(*packets, strict=True)
    captured = np.fromiter(map(len, data), dtype=np.int64, count=len(data))
    # Headers are read together with some bytes behind them.
    whole = b"".join((*data, bytes(_PADDING_SIZE)))
    return Span(
        base,
        whole,
        len(whole),
        np.arange(first, first + len(packets), dtype=np.int64),
        np.array(ts, dtype=np.int64),
        np.cumsum(captured) - captured,
        captured,
        np.array(size, dtype=np.int64),
        np.array(link, dtype=np.int64),
    )
