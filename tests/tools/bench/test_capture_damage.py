"""A damaged capture lacks packets, and has the beginning of the others."""

from __future__ import annotations

from pathlib import Path

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import Packet
from tests.support.captures.capture_files import build_pcap
from tests.support.captures.index_captures import connection_with_exchanges
from tools.bench.capture_damage import write_damaged


def packets_of(path: Path) -> list[Packet]:
    return [packet for packet in read_packets(path) if isinstance(packet, Packet)]


def test_a_share_of_the_packets_is_lost_and_the_others_are_cut(tmp_path: Path) -> None:
    source, out = tmp_path / "whole.pcap", tmp_path / "damaged.pcap"
    source.write_bytes(build_pcap(connection_with_exchanges(200).packets, nanoseconds=True))
    whole = packets_of(source)

    count = write_damaged(source, out, lost=0.25, snaplen=48)

    left = packets_of(out)
    assert count == len(left)
    assert 0.6 * len(whole) < len(left) < 0.9 * len(whole)
    originals = {packet.ts: packet for packet in whole}
    assert all(packet.data == originals[packet.ts].data[:48] for packet in left)
    assert all(packet.size == originals[packet.ts].size for packet in left)


def test_without_damage_the_file_is_the_same(tmp_path: Path) -> None:
    source, out = tmp_path / "whole.pcap", tmp_path / "copy.pcap"
    source.write_bytes(build_pcap(connection_with_exchanges(20).packets, nanoseconds=True))
    write_damaged(source, out)

    assert out.read_bytes() == source.read_bytes()
