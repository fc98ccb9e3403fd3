"""Read a part of a file of which only some ranges are needed; large gaps between them are not read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kwire.capture.index.arrays import Ints

# Ranges that are as near as this are read together: a separate read costs as much.
_NEAR_SIZE = 64 * 1024


def read_sparse(read: Callable[[int, int], bytes], base: int, size: int, ranges: tuple[Ints, Ints]) -> bytes:
    """`size` bytes from offset `base`, fewer at the end of the file; zeros outside of the ranges.

    Args: ranges: offsets where the needed bytes begin and stop, in any order; they may overlap.
    """
    begin, stop = (np.clip(offsets, base, base + size) for offsets in ranges)
    order = np.argsort(begin, kind="stable")
    begin, stop = begin[order], np.maximum.accumulate(stop[order])
    if not len(begin):
        return bytes(size)
    firsts = np.nonzero(np.append(True, begin[1:] > stop[:-1] + _NEAR_SIZE))[0]
    begins, stops = begin[firsts], stop[np.append(firsts[1:] - 1, len(stop) - 1)]
    if 2 * int((stops - begins).sum()) > size:
        return read(base, size)
    out, at = [], base
    for first, last in zip(begins.tolist(), stops.tolist(), strict=True):
        out += [bytes(first - at), read(first, last - first)]
        at = first + len(out[-1])
    out.append(bytes(base + size - at))
    return b"".join(out)
