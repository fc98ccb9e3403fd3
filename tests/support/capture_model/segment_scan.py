"""`scan_segments`: the TCP segments of a capture file or stream, in the order of its packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.files.packet_reader import read_packets
from tests.support.capture_model.packet_dissection import dissect_packets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.files.source import Source
    from kwire.capture.model import CaptureIssue, Segment
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog


def scan_segments(source: Source, options: Options, keys: KeyLog) -> Iterator[Segment | CaptureIssue]:
    """Read all packets of the source. Damage is yielded as an issue.

    Args: keys: receives the TLS secrets of a pcapng file.
    Raises: CaptureError if the source is not a capture.
    """
    return dissect_packets(read_packets(source, keys, options.unpacked_size_max))
