"""Read the connections and packets of a series of captures, for the levels `flows` and `packets`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kwire.capture.index.scan.packet_headers import LINK_NAMES, endpoints_of_words
from kwire.capture.model import CaptureIssue, Segment
from kwire.capture.network.packet_dissector import dissect_packets
from kwire.capture.rows.traffic_rows import TrafficTracker
from kwire.capture.series.series_reader import SeriesReader

if TYPE_CHECKING:
    from kwire.capture.index.scan.stream_headers import HeaderBatch
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import Packet
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog


class TrafficSeries(SeriesReader):
    """Reads the connections of a series, or its packets, one by one."""

    def __init__(self, level: str, options: Options, keys: KeyLog) -> None:
        """For rows of one level. `keys` are the secrets of TLS connections."""
        super().__init__(options)
        self._tracker = TrafficTracker(options, keys, each_packet=level == "packets")

    def outcomes(self, segments: Iterable[Segment | CaptureIssue]) -> Iterator[Outcome]:
        """The outcomes that more segments complete."""
        for segment in segments:
            if isinstance(segment, CaptureIssue):
                yield segment
            else:
                yield from self._tracker.take_segment(segment)
                yield from self._tracker.take_settled_packets()

    def read_headers(self, batch: HeaderBatch) -> Iterator[Outcome]:
        """As in `SeriesReader`."""
        return self.outcomes(_to_segments(batch))

    def expire(self, before_ts: int) -> Iterator[Outcome]:
        """As in `SeriesReader`."""
        return self._tracker.expire(before_ts)

    def close(self) -> Iterator[Outcome]:
        """As in `SeriesReader`."""
        return self._tracker.close()

    def _read_packets(self, packets: Iterable[Packet | CaptureIssue], *, issues: bool) -> Iterator[Outcome]:
        return self.outcomes(self._select_segments(packets, issues=issues))

    def _select_segments(
        self, packets: Iterable[Packet | CaptureIssue], *, issues: bool
    ) -> Iterator[Segment | CaptureIssue]:
        """The segments between the hosts that are read."""
        for segment in dissect_packets(packets):
            if isinstance(segment, CaptureIssue):
                if issues:
                    yield segment
                continue
            self._note_times(segment.ts, segment.ts)
            if self._hosts is None or self._hosts.reads_hosts(segment.source[0], segment.target[0]):
                yield segment


def _to_segments(batch: HeaderBatch) -> Iterator[Segment]:
    """The packets one by one."""
    data, rows = batch.data, zip(*(column.tolist() for column in batch.headers), strict=True)
    in_files = dict(zip(batch.numbers.tolist(), batch.in_files.tolist(), strict=True))
    for number, ts, link, words, side, seq, ack, flags, window, at, captured, missing in rows:
        ends, payload, packet = endpoints_of_words(tuple(words)), data[at : at + captured], in_files[number]
        source, target = ends[side], ends[1 - side]
        yield Segment(ts, LINK_NAMES[link], source, target, seq, ack, flags, payload, missing, packet, window)
