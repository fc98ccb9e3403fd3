"""Byte budgets of a ShareFetch."""

from __future__ import annotations

import random

from mockbroker.handlers.share.share_reads import split_max_bytes
from mockbroker.state.share.share_session import PartitionKey

KEYS = [PartitionKey(bytes(16), index) for index in range(3)]


def test_one_partition_gets_all_bytes_unless_others_share_them() -> None:
    assert split_max_bytes(100, KEYS[:1], random.Random(1)) == {KEYS[0]: 100}
    assert split_max_bytes(100, KEYS[:1], random.Random(1), count=1) == {KEYS[0]: 100}
    assert split_max_bytes(100, KEYS[:1], random.Random(1), count=2) == {KEYS[0]: 50}


def test_without_bytes_no_partition_gets_any() -> None:
    assert split_max_bytes(0, KEYS[:1], random.Random(1)) == {KEYS[0]: 0}


def test_the_remainder_goes_to_one_of_several_partitions() -> None:
    shares = split_max_bytes(100, KEYS, random.Random(1))

    assert sorted(shares.values()) == [33, 33, 34]
