"""Parts of streams that readers share."""

from __future__ import annotations

from mockbroker.control.events.recent_parts import RecentParts


def test_a_part_is_made_once_until_newer_ones_take_its_place() -> None:
    parts = RecentParts(parts_max=2)
    made: list[int] = []

    def get(key: int) -> bytes:
        def encode() -> bytes:
            made.append(key)
            return b"%d" % key

        return parts.get(key, encode)

    assert [get(key) for key in (1, 1, 2, 1)] == [b"1", b"1", b"2", b"1"]
    assert made == [1, 2]
    assert [get(key) for key in (3, 2, 3, 1)] == [b"3", b"2", b"3", b"1"]
    assert made == [1, 2, 3, 1]
