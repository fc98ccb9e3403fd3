"""Open the scanner for a capture file's format; it reads the records of the file, a span at a time."""

from __future__ import annotations

from typing import Any

from kwire.capture.files import pcap, pcapng
from kwire.capture.files.source import not_a_capture
from kwire.capture.index.scan import spans
from kwire.capture.index.scan.files import CaptureFile, NotIndexed
from kwire.capture.index.scan.pcap_scanner import PcapScanner
from kwire.capture.index.scan.pcapng_scanner import PcapngScanner
from kwire.capture.index.scan.spans import RecordScanner

SPAN_SIZE = spans.SPAN_SIZE


def open_scanner(file: CaptureFile) -> RecordScanner[Any]:
    """The scanner for a file. Raises: NotIndexed when it is compressed, or not a capture."""
    magic = file.read(0, 4)
    if magic in pcap.MAGICS or magic in pcap.IXIA_MAGICS:
        return PcapScanner(file, SPAN_SIZE)
    if magic == pcapng.MAGIC:
        return PcapngScanner(file, SPAN_SIZE)
    raise NotIndexed(file.error or str(not_a_capture(magic)))
