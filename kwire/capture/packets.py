"""From a source to packets, whatever the file's format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture import pcap, pcapng
from kwire.capture.source import no_capture, opened
from kwire.capture.values import CaptureError, Packet, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.keylog import KeyLog
    from kwire.capture.source import Source


def packets(source: Source, keys: KeyLog | None = None) -> Iterator[Packet | Trouble]:
    """The packets of a pcap or pcapng file, packed or not, or of a feed, read as a stream.

    Args: keys: takes the TLS secrets that a pcapng file holds.
    Raises: CaptureError when it is neither; damage after the first bytes is a Trouble instead.
    """
    if hasattr(source, "packets"):
        yield from source.packets(keys)
        return
    with opened(source) as reader:
        magic = reader.magic
        if magic in pcap.MAGICS or magic in pcap.IXIA_MAGICS:
            yield from pcap.packets(reader, magic)
        elif magic == pcapng.MAGIC:
            yield from pcapng.packets(reader, keys)
        elif reader.trouble:
            raise CaptureError(reader.trouble)
        else:
            raise no_capture(magic)
