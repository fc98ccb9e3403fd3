"""Sequence numbers that wrap around at 2^32, as integers and as arrays."""

from __future__ import annotations

import numpy as np

from kwire.capture.tcp.sequence_numbers import SEQ_MODULUS, seq_distance, unwrap_seq


def test_distance_is_signed_across_the_wrap() -> None:
    assert seq_distance(5, SEQ_MODULUS - 5) == 10
    assert seq_distance(SEQ_MODULUS - 5, 5) == -10


def test_unwrapped_number_is_the_nearest_to_the_reference() -> None:
    assert unwrap_seq(5, SEQ_MODULUS - 5) == SEQ_MODULUS + 5
    assert unwrap_seq(SEQ_MODULUS - 5, 3 * SEQ_MODULUS + 5) == 3 * SEQ_MODULUS - 5


def test_arrays_are_unwrapped_like_integers() -> None:
    seqs, references = np.array([5, SEQ_MODULUS - 5]), np.array([SEQ_MODULUS - 5, SEQ_MODULUS + 5])

    assert unwrap_seq(seqs, references).tolist() == [SEQ_MODULUS + 5, SEQ_MODULUS - 5]
