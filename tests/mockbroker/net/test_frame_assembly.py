"""Frames from pieces of any size, in place, and memory that hostile lengths cannot claim."""

from __future__ import annotations

import random
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import closing

import pytest

from mockbroker.net.frame_assembly import FrameAssembly, ReceiveAllowance

_ANY = ReceiveAllowance().left
_SIZE_MAX = 100 << 20


def frame_of(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def receive(assembly: FrameAssembly, data: bytes, sizes: random.Random | None = None) -> list[bytes]:
    """Write the data into the buffers, as the system does, in pieces of random sizes; returns the frames."""
    frames = []
    while data:
        buffer = assembly.buffer()
        size = min(len(buffer), len(data) if sizes is None else sizes.randint(1, 3_000), len(data))
        buffer[:size] = data[:size]
        data = data[size:]
        del buffer
        frame = assembly.advance(size)
        if frame is not None:
            frames.append(frame)
    return frames


@pytest.mark.parametrize("limit", [_ANY, 10_000, 0])
def test_frames_come_from_pieces_of_any_size(limit: int) -> None:
    """Also when the memory in advance is used up, or nearly."""
    rng = random.Random(1)
    bodies = [rng.randbytes(size) for size in (0, 1, 2, 4_096, 4_097, 100_000, 0, 12, 1 << 20)]
    assembly = FrameAssembly(_SIZE_MAX, lambda size: True, ReceiveAllowance(limit))

    assert receive(assembly, b"".join(map(frame_of, bodies)), random.Random(2)) == bodies
    assert receive(assembly, b"".join(map(frame_of, bodies))) == bodies


def test_a_large_frame_is_not_copied() -> None:
    size = 8 << 20
    assembly = FrameAssembly(_SIZE_MAX, lambda size: True, ReceiveAllowance())
    tracemalloc.start()
    try:
        assembly.buffer()[:] = size.to_bytes(4, "big")
        assembly.advance(4)
        for _ in range(8):
            assembly.buffer()[: 1 << 20] = bytes(1 << 20)
            frame = assembly.advance(1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert type(frame) is bytes
    assert len(frame) == size
    assert peak < 1.5 * size


def test_a_length_claims_memory_only_within_the_limit_of_all_connections() -> None:
    allowance = ReceiveAllowance(1_000_000)
    first, second = (FrameAssembly(_SIZE_MAX, lambda size: True, allowance) for _ in range(2))
    receive(first, (900_000).to_bytes(4, "big"))
    receive(second, (900_000).to_bytes(4, "big"))

    assert len(first.buffer()) == 900_000
    assert len(second.buffer()) == 4_096
    for _ in range(6):
        came = len(second.buffer())
        receive(second, bytes(came))
        assert len(second.buffer()) == 4_096 * 2**_
    first.release()
    assert allowance.left == 1_000_000
    assert receive(first, frame_of(b"next")) == [b"next"]
    assert allowance.left == 1_000_000


def test_a_refused_length_allocates_nothing_and_what_follows_is_ignored() -> None:
    seen: list[int] = []

    def refuse(size: int) -> bool:
        seen.append(size)
        return False

    assembly = FrameAssembly(_SIZE_MAX, refuse, ReceiveAllowance(0))

    assert receive(assembly, frame_of(b"GET / HTTP/1.1") + frame_of(b"x")) == []
    assert seen == [14]


def test_data_that_was_decrypted_elsewhere_is_copied_into_the_frames() -> None:
    assembly = FrameAssembly(_SIZE_MAX, lambda size: True, ReceiveAllowance())
    data, frames = memoryview(frame_of(b"one") + frame_of(b"two")), []
    while data:
        size = assembly.fill(data)
        data = data[size:]
        frames.append(assembly.advance(size))

    assert [frame for frame in frames if frame is not None] == [b"one", b"two"]


class Client:
    """A socket pair, of which one side is read in place."""

    def __init__(self, assembly: FrameAssembly) -> None:
        self.assembly = assembly
        self.sender, self.receiver = socket.socketpair()
        self.receiver.setblocking(False)

    def send(self, data: bytes) -> list[bytes | None]:
        """Send bytes; returns what the calls return with which all are read."""
        self.sender.sendall(data)
        results = []
        while True:
            try:
                results.append(self.assembly.receive(self.receiver))
            except BlockingIOError:
                return results

    def close(self) -> None:
        """Close both sides."""
        self.sender.close()
        self.receiver.close()


@pytest.fixture
def client() -> Iterator[Client]:
    with closing(Client(FrameAssembly(_SIZE_MAX, lambda size: 0 <= size < 150_000, ReceiveAllowance()))) as one:
        yield one


def test_each_call_returns_at_most_one_frame_of_a_socket(client: Client) -> None:
    bodies = [b"first", b"", b"x" * 5_000, b"y" * 4_096, b"z" * 100_000]

    results = client.send(b"".join(map(frame_of, bodies)))

    assert [frame for frame in results if frame is not None] == bodies
    assert client.assembly.partial() == b""


@pytest.mark.parametrize("size", [1, 10, 5_000])
def test_a_frame_of_a_socket_comes_in_pieces(client: Client, size: int) -> None:
    data = frame_of(b"f" * size) + frame_of(b"next")
    results = []
    for at in range(0, len(data), 3):
        results += client.send(data[at : at + 3])
        assert client.assembly.partial() in data

    assert [frame for frame in results if frame is not None] == [b"f" * size, b"next"]


@pytest.mark.parametrize(
    "sent", [b"", b"\0\0", frame_of(b"abcd")[:4], frame_of(b"abcd")[:6], frame_of(b"a" * 5_000)[:4_000]]
)
def test_the_end_of_the_data_is_reported_in_every_place(client: Client, sent: bytes) -> None:
    client.send(sent)
    client.sender.shutdown(socket.SHUT_WR)

    assert client.assembly.partial() == sent
    with pytest.raises(EOFError):
        client.assembly.receive(client.receiver)


@pytest.mark.parametrize("size", [150_000, -1])
def test_a_refused_length_of_a_socket_is_what_was_received(client: Client, size: int) -> None:
    length = size.to_bytes(4, "big", signed=True)

    assert set(client.send(length + b"ignored")) == {None}
    assert client.assembly.partial() == length
