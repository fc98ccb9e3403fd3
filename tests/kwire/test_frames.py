"""Frames are returned complete for any split of the stream."""

from __future__ import annotations

import random

import pytest

from kwire.errors import InvalidLength
from kwire.frames import FrameReader, encode_frame


@pytest.mark.parametrize("seed", range(8))
def test_any_split_of_the_stream_gives_the_same_frames(seed: int) -> None:
    chance = random.Random(seed)
    wanted = [chance.randbytes(chance.choice((0, 1, 5, 100, 5000, 70_000))) for _ in range(60)]
    stream = memoryview(b"".join(map(encode_frame, wanted)))
    reader, at = FrameReader(), 0
    frames: list[bytes] = []
    while at < len(stream):
        size = chance.choice((1, 3, 10, 4095, 5000, 70_000, 200_000))
        reader.feed(stream[at : at + size])
        at += size
        if chance.random() < 0.7:
            frames += reader

    frames += reader
    assert frames == wanted
    assert (reader.pending, reader.position) == (0, len(stream))


def test_an_incomplete_frame_is_not_returned() -> None:
    reader = FrameReader()
    reader.feed(b"\0\0\0\2a")

    assert list(reader) == []
    assert reader.pending == 5
    reader.feed(b"b\0")
    assert list(reader) == [b"ab"]
    assert reader.pending == 1


@pytest.mark.parametrize(("length", "words"), [(-1, "length -1 is negative"), (101, "above the limit of 100")])
def test_an_impossible_length_is_rejected_before_its_bytes_arrive(length: int, words: str) -> None:
    reader = FrameReader(max_size=100)
    reader.feed(encode_frame(b"good") + length.to_bytes(4, "big", signed=True))
    frames = iter(reader)

    assert next(frames) == b"good"
    with pytest.raises(InvalidLength, match=words) as caught:
        next(frames)
    assert (caught.value.path, caught.value.at) == ("frame", 8)


def test_single_bytes_are_merged() -> None:
    reader = FrameReader()
    reader.feed(b"\0\0\x10\0")
    for _ in range(4095):
        reader.feed(b"x")

    assert list(reader) == []
    assert len(reader._chunks) <= 2
    reader.feed(b"y")
    assert list(reader) == [b"x" * 4095 + b"y"]


def test_parts_of_any_buffer_type_make_one_frame() -> None:
    assert encode_frame([b"a", bytearray(b"bc"), memoryview(b"def")]) == b"\0\0\0\6abcdef"
