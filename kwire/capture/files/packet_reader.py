"""Reader of packets from any source: pcap and pcapng files, compressed or not, and live interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, overload

from kwire.capture.files import pcap, pcapng
from kwire.capture.files.source import KeyLogSink, Source, not_a_capture, open_source
from kwire.capture.model import NO_PACKET, CaptureError, CaptureIssue, NoPacket, Packet


@overload
def read_packets(
    source: Source, keys: KeyLogSink | None = None, unpacked_max: int | None = None
) -> Iterator[Packet | CaptureIssue]: ...


@overload
def read_packets(
    source: Source, keys: KeyLogSink | None = None, unpacked_max: int | None = None, *, with_markers: Literal[True]
) -> Iterator[Packet | CaptureIssue | NoPacket]: ...


def read_packets(
    source: Source, keys: KeyLogSink | None = None, unpacked_max: int | None = None, *, with_markers: bool = False
) -> Iterator[Packet | CaptureIssue | NoPacket]:
    """Yield the packets of a pcap or pcapng file, compressed or not, or of a `PacketSource`.

    Args: keys: receives the TLS secrets of a pcapng file. unpacked_max: as `Options.unpacked_size_max`. with_markers:
        yield `NO_PACKET` before a call that may wait, if the source can say so: a `WaitingSource`, or a
        `PacketSource`. Where the input is compressed some calls after it do not wait.
    Raises: CaptureError if it is neither. Damage after the first bytes is a `CaptureIssue` instead.
    """
    for item in _read_items(source, keys, unpacked_max):
        if with_markers or item is not NO_PACKET:
            yield item


def _read_items(
    source: Source, keys: KeyLogSink | None, unpacked_max: int | None
) -> Iterator[Packet | CaptureIssue | NoPacket]:
    if hasattr(source, "packets"):
        yield from source.packets(keys)
        return
    with open_source(source, unpacked_max) as reader:
        magic = reader.magic
        if magic in pcap.MAGICS or magic in pcap.IXIA_MAGICS:
            yield from pcap.read_packets(reader, magic)
        elif magic == pcapng.MAGIC:
            yield from pcapng.read_packets(reader, keys)
        elif reader.error:
            raise CaptureError(reader.error)
        else:
            raise not_a_capture(magic)
