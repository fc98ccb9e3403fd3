"""TCP sequence numbers: 32-bit numbers that wrap around, unwrapped and compared. Source: RFC 9293 section 3.4.

Both functions take integers or arrays of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SEQ_MASK = 0xFFFFFFFF
SEQ_MODULUS = 1 << 32
_HALF = 1 << 31

SeqNumber = TypeVar("SeqNumber", int, "npt.NDArray[np.int64]")


def seq_distance(seq: SeqNumber, reference: SeqNumber) -> SeqNumber:
    """How far `seq` lies after `reference`, from -2^31 up to, but not including, 2^31; negative if it precedes it."""
    return ((seq - reference + _HALF) & SEQ_MASK) - _HALF


def unwrap_seq(seq: SeqNumber, reference: SeqNumber) -> SeqNumber:
    """The unwrapped number of `seq` that is nearest to the unwrapped `reference`."""
    return reference + ((seq - reference + _HALF) & SEQ_MASK) - _HALF
