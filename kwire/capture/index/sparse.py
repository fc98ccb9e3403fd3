"""A stretch of a file of which only some places matter: what lies far from all of them is not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

# Places that are as near as this are read together: to find the next one costs as much.
_NEAR = 64 * 1024


def read_places(read: Callable[[int, int], bytes], base: int, size: int, places: tuple[Ints, Ints]) -> bytes:
    """`size` bytes from offset `base`, fewer at the end of the file; zeros where nothing is asked for.

    Args: places: where the bytes that matter begin and stop, in any order; they may overlap.
    """
    begin, stop = (np.clip(each, base, base + size) for each in places)
    order = np.argsort(begin, kind="stable")
    begin, stop = begin[order], np.maximum.accumulate(stop[order])
    if not len(begin):
        return bytes(size)
    firsts = np.nonzero(np.append(True, begin[1:] > stop[:-1] + _NEAR))[0]
    begins, stops = begin[firsts], stop[np.append(firsts[1:] - 1, len(stop) - 1)]
    if 2 * int((stops - begins).sum()) > size:
        return read(base, size)
    out, at = [], base
    for first, last in zip(begins.tolist(), stops.tolist(), strict=True):
        out += [bytes(first - at), read(first, last - first)]
        at = first + len(out[-1])
    out.append(bytes(base + size - at))
    return b"".join(out)
