"""A capture file in spans: stretches of it that are held at once, and the packets in each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.capture.values import Trouble

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

# How much of the file is held at once: more than the largest packet.
SPAN_SIZE = 24 * 1024 * 1024


@dataclass(slots=True)
class Span:
    """A stretch of the file and the packets in it, in their order. `at` and the like are offsets into `data`.

    number: of the packet in the file, from 1. ts: nanoseconds. at, kept: where its data begin, and how much there is.
    size: its length on the wire. link: its link type.
    """

    base: int
    data: bytes
    number: Ints
    ts: Ints
    at: Ints
    kept: Ints
    size: Ints
    link: Ints


@dataclass(slots=True)
class Walked:
    """What the walk leaves beside the packets. secrets: offset and size in the file of each key log in it."""

    packet_count: int = 0
    troubles: list[Trouble] = field(default_factory=list)
    secrets: list[tuple[int, int]] = field(default_factory=list)
    may_have_secrets: bool = False
