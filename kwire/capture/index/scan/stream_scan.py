"""Scan a capture that is read once, as its bytes arrive: the records of what is available are a span."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.capture.files import pcapng
from kwire.capture.files.source import KeyLogSink, Reader, Source, open_source
from kwire.capture.index.scan.files import CaptureFile, FileReader
from kwire.capture.index.scan.scanner import open_scanner
from kwire.capture.index.scan.spans import SPAN_SIZE, Chunk, ScanState, Span
from kwire.capture.merged_issues import MergedIssues
from kwire.capture.model import NO_PACKET, CaptureIssue, NoPacket, Packet

# The size of a file header; of pcapng, the smallest block that begins a section.
_HEAD_SIZE = 24
# The first spans are small, so that their rows come soon.
_SIZE_FIRST = 256 * 1024
# More than any file has.
_ENDLESS = 1 << 62

Item = Span | Packet | CaptureIssue | NoPacket


def scan_stream(source: Source, keys: KeyLogSink, unpacked_max: int | None = None) -> Iterator[Item]:
    """The spans of a source, or the packets of a `PacketSource`, and issues as they are found.

    `NO_PACKET` comes before a wait. Args: keys: receives the TLS secrets of the source. unpacked_max: as
    `Options.unpacked_size_max`. Raises: CaptureError if it is no capture.
    """
    if hasattr(source, "packets"):
        yield from source.packets(keys)
        return
    with open_source(source, unpacked_max) as reader:
        yield from _StreamScan(reader, keys).read_items()


class _StreamScan:
    """A scan of one source. state: it has the position in the source, and the number of packets."""

    def __init__(self, reader: Reader, keys: KeyLogSink) -> None:
        self._reader = reader
        self._keys = keys
        head = CaptureFile(reader.magic + reader.read(_HEAD_SIZE - 4))
        head.error = reader.error
        self._scanner = open_scanner(head)
        keys.may_grow = keys.may_grow or self._scanner.may_have_secrets
        self._state = ScanState(self._scanner.first)
        self._data = head.read(self._scanner.first.at, _HEAD_SIZE)
        self._size = _SIZE_FIRST
        # How much of a long block that is not read is still to come.
        self._skipped = 0
        head.size = _ENDLESS

    def read_items(self) -> Iterator[Item]:
        """The spans, the issues, and markers before waits."""
        state, has_more = self._state, True
        while has_more and not state.is_ended:
            if self._reader.may_wait(1):
                yield NO_PACKET
            has_more = self._read_available()
            base = state.position.at
            records, end = self._scanner.find_records(self._data, len(self._data), state)
            self._take_secrets(base)
            span = self._scanner.make_span(Chunk(base, self._data, records, end), state)
            if span is not None:
                yield span
            yield from self._take_issues()
            self._skipped += max(end - len(self._data), 0)
            self._data = self._data[end:]
        if self._skipped:
            detail = self._reader.error or pcapng.CUT_BLOCK.format(state.packet_count)
            yield CaptureIssue("file_truncated", detail, state.packet_count, state.last_ts)
            return
        rest = CaptureFile(self._data)
        rest.error = self._reader.error
        for item in self._scanner.read_rest(FileReader(rest, 0), state):
            assert isinstance(item, CaptureIssue)
            yield item

    def _read_available(self) -> bool:
        """Read what is available, at least some bytes, up to the size of a span; return whether there may be more."""
        parts, size = [self._data], len(self._data)
        more = b""
        while len(parts) == 1 or (size < self._size and not self._reader.may_wait(1)):
            more = self._reader.read1(self._size)
            skipped = min(self._skipped, len(more))
            self._skipped -= skipped
            parts.append(more[skipped:] if skipped else more)
            size += len(parts[-1])
            if not more:
                break
        self._size = min(2 * self._size, SPAN_SIZE)
        self._data = b"".join(parts)
        return bool(more)

    def _take_secrets(self, base: int) -> None:
        """Add the secrets of the blocks that were read. Args: base: the position of the data."""
        for at, size in self._state.key_logs:
            self._keys.add_lines(self._data[at - base : at - base + size].decode("latin-1"))
        self._state.key_logs = []

    def _take_issues(self) -> Iterator[CaptureIssue]:
        """The issues that were found in blocks."""
        found, self._state.issues = self._state.issues, MergedIssues()
        return (issue for _, issue in found.numbered)
