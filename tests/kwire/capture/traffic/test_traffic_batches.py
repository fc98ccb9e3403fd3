"""Rows of traffic in a pass over a capture, with what its stages have found out by the end of each span."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from kwire.capture.index.arrays import NO_NUMBERS, Ints
from kwire.capture.index.columns import Columns
from kwire.capture.index.flows.endpoint_pairs import EndpointPairs
from kwire.capture.index.flows.flow_builder import FlowBuilder
from kwire.capture.index.flows.frame_columns import FileWindow
from kwire.capture.index.scan import scanner
from kwire.capture.index.scan.files import CaptureFile
from kwire.capture.index.scan.header_pass import HeaderPass
from kwire.capture.index.scan.packet_headers import PacketHeaders, endpoints_of_words
from kwire.capture.index.scan.spans import ScanState
from kwire.capture.index.stored_payload import CaptureBytes, StoredPayload
from kwire.capture.index.streams.connections import Connections, DividedSpan, SpanStreams
from kwire.capture.index.streams.flow_closing import PacketTimes
from kwire.capture.rows import traffic_rows
from kwire.capture.rows.record_batches import selected_columns
from kwire.capture.traffic.connection_facts import StagedFacts
from kwire.capture.traffic.row_columns import RowSettings
from kwire.capture.traffic.traffic_batches import TrafficBatches
from tests.support.captures.index_captures import pipeline_rows
from tests.support.captures.mutated_captures import mutate_capture

pytestmark = pytest.mark.slow


def read_in_one_pass(capture: bytes, level: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[pa.RecordBatch]:
    """The rows of a level, made span by span while the stages of an index find the clients."""
    divided: list[DividedSpan] = []

    def add_packets(self: Connections, headers: PacketHeaders, pair: Ints, times: PacketTimes) -> SpanStreams:
        divided.append(self.divide_packets(headers, pair, times))
        return divided[-1].streams

    def end_all(self: Connections) -> SpanStreams:
        streams = whole_end(self)
        divided.append(DividedSpan(streams, NO_NUMBERS, []))
        return streams

    whole_end = Connections.end_all
    monkeypatch.setattr(Connections, "add_packets", add_packets)
    monkeypatch.setattr(Connections, "end_all", end_all)
    header_pass, pairs, stored = HeaderPass(), EndpointPairs(), StoredPayload(Columns(), [])

    def find_ends(pair: int) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
        return endpoints_of_words(pairs.words[pair])

    def facts() -> StagedFacts:
        return StagedFacts(builder.flows, {row.flow: row.kind for row in builder.other_connections()}, find_ends)

    batches = TrafficBatches(level, RowSettings(selected_columns(level, None), "<bytes>", has_ns=True))
    with CaptureFile(capture) as file:
        packet_scanner = scanner.open_scanner(file)
        builder = FlowBuilder(CaptureBytes(file, stored).read, find_ends)
        for span in packet_scanner.read_spans(file.size, ScanState(packet_scanner.first)):
            headers = header_pass.read_span(span)
            stored.add_span(header_pass.take_stored())
            pair = pairs.number_pairs(headers.ends)
            builder.add_span(headers, pair, FileWindow(span.base, span.data))
            yield from batches.add_span(headers, pair, divided.pop(), facts())
            batches = pickle.loads(pickle.dumps(batches))
        builder.finish_flows()
        yield from batches.finish(divided.pop(), facts())


@pytest.mark.parametrize("waiting_max", [16_384, 20])
def test_a_pass_has_the_rows_of_the_pipeline(waiting_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_rows, "PENDING_PACKETS_MAX", waiting_max)
    for number in range(30):
        chance = random.Random(f"pass {number}")
        capture = mutate_capture(chance)
        # A ClientHello shows the client to a reader that may get secrets.
        if not capture.is_comparable or "tlskey" in capture.label:
            continue
        monkeypatch.setattr(scanner, "SPAN_SIZE", chance.choice((1_024, 4_096, 16_384, 24 << 20)))
        for level in ("flows", "packets"):
            with monkeypatch.context() as patch:
                found = [row for batch in read_in_one_pass(capture.data, level, patch) for row in batch.to_pylist()]
            assert found == pipeline_rows(capture.data, level), (number, capture.label)
