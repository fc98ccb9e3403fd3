"""The partition of a key."""

from __future__ import annotations

import pytest

from mockbroker.broker.topic_records import choose_partition, murmur2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafkas_utils(key: bytes, value: int) -> None:
    """Source: the values of UtilsTest.testMurmur2 of Apache Kafka."""
    assert murmur2(key) == value & 0xFFFFFFFF


def test_a_record_without_a_key_goes_to_partition_0() -> None:
    assert choose_partition(None, 7) == 0
    assert choose_partition(b"foobar", 1) == 0
