"""Packets without open frames are released; those with an open frame are found by its position."""

from __future__ import annotations

import pytest

from kwire.capture.model import Packet
from kwire.capture.tcp.packet_buffer import BufferedPacket, PacketBuffer

SIZE = 100
#: Number of other packets between a request and its response.
BETWEEN = 1200


@pytest.mark.parametrize("start", [1000, 0xFFFFFFFF - 500], ids=["far_from_the_wrap", "before_the_wrap"])
def test_the_packet_of_every_frame_is_found_when_its_response_comes(start: int) -> None:
    released: list[BufferedPacket] = []

    def on_release(packet: BufferedPacket) -> None:
        released.append(packet)
        buffer.remove_packet(packet)

    buffer = PacketBuffer(on_release)
    for number in range(200):
        arrival = number * (BETWEEN + 1)
        seq = (start + number * SIZE) & 0xFFFFFFFF
        buffer.add_packet(BufferedPacket(Packet(number, number, 101, b"", SIZE), arrival, seq, SIZE))
        buffer.open_frame(start, number * SIZE, SIZE)

        assert [distance for distance, _ in buffer.find_packets(start, number * SIZE, SIZE)] == [0]
        buffer.release_frame(start, number * SIZE, SIZE, now=number, arrivals=arrival + BETWEEN)

    assert len(released) > 100
