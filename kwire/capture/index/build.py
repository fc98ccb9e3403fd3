"""Build the index of a capture in one pass over the file, a span at a time (phase 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.capture.index.arrays import Words
from kwire.capture.index.column_schema import FLOW_COLUMNS, PACKET_TYPES
from kwire.capture.index.columns import Columns
from kwire.capture.index.flows.endpoint_pairs import EndpointPairs
from kwire.capture.index.flows.flow_builder import FlowBuilder
from kwire.capture.index.flows.frame_columns import FileWindow
from kwire.capture.index.flows.message_columns import ExchangeColumns
from kwire.capture.index.index_writer import ClientIdNumbers, IndexWriter
from kwire.capture.index.model import Index
from kwire.capture.index.scan.files import CaptureFile, Source
from kwire.capture.index.scan.header_pass import HeaderPass
from kwire.capture.index.scan.packet_headers import endpoints_of_words
from kwire.capture.index.scan.scanner import open_scanner
from kwire.capture.index.scan.spans import ScanState
from kwire.capture.index.stored_payload import CaptureBytes


def build_index(source: Source) -> Index:
    """Index a capture in memory.

    Raises: NotIndexed when it is compressed or not a regular file; CaptureError; OSError.
    """
    columns = Columns()
    build_columns(source, columns)
    return Index(source, columns)


def build_columns(source: Source, columns: Columns, on_progress: Callable[[int], None] = lambda position: None) -> None:
    """Write the index of a capture to `columns`. `on_progress` receives the file position that was reached, in bytes.

    Raises: as `build_index`.
    """
    header_pass, endpoint_pairs, writer = HeaderPass(), EndpointPairs(), IndexWriter(columns)
    first_ts, last_ts = 2**63 - 1, 0
    with CaptureFile(source) as file:
        scanner = open_scanner(file)
        read = CaptureBytes(file, writer.stored).read
        builder = FlowBuilder(read, lambda pair: endpoints_of_words(endpoint_pairs.words[pair]))
        state = ScanState(scanner.first)
        for span in scanner.read_spans(file.size, state):
            first_ts, last_ts = min(first_ts, int(span.ts.min())), max(last_ts, int(span.ts.max()))
            headers = header_pass.read_span(span)
            writer.stored.add_span(header_pass.take_stored())
            pair = endpoint_pairs.number_pairs(headers.ends)
            result = builder.add_span(headers, pair, FileWindow(span.base, span.data))
            exchanges = renumber_client_ids(result.exchanges, writer.clients, builder.client_ids)
            packets = {name: pair if name == "pair" else getattr(headers, name) for name in PACKET_TYPES}
            writer.write_span((span.base, span.extent), packets, exchanges, result.fragments)
            on_progress(span.base + span.extent)
        scanner.report_end(state)
        write_flows(writer, builder, endpoint_pairs.endpoint_table())
        writer.write_metadata(
            {
                "size": file.size,
                "mtime_ns": file.mtime_ns,
                "packet_count": state.packet_count,
                "first_ts": first_ts if first_ts <= last_ts else 0,
                "last_ts": last_ts,
                "secrets_at": state.key_logs,
                "may_have_secrets": scanner.may_have_secrets,
                "issues": header_pass.close(state),
            }
        )


def write_flows(writer: IndexWriter, builder: FlowBuilder, words: Words, *, plain_at: int = 0) -> bytes:
    """Finish the flows, and write them with everything that follows the spans; return what was decrypted.

    Args: words: those of `EndpointPairs`. plain_at: the position of what is decrypted.
    """
    end = builder.finish_flows(plain_at=plain_at)
    unanswered = renumber_client_ids(end.exchanges, writer.clients, builder.client_ids)
    flows: dict[str, Any] = {name: getattr(builder.flows, name)[: len(builder.flows)] for name in FLOW_COLUMNS}
    rows = builder.take_gaps(), builder.take_others()
    writer.write_end({**flows, "words": words}, unanswered, end.fragments, *rows)
    return end.plaintext


def renumber_client_ids(exchanges: ExchangeColumns, clients: ClientIdNumbers, texts: list[str]) -> ExchangeColumns:
    """The exchanges with the client id numbers of the index. Args: texts: the ids by their present numbers."""
    request = exchanges.request
    numbers = clients.renumber_ids(request.client_id, texts)
    return ExchangeColumns(request._replace(client_id=numbers), exchanges.response, exchanges.completed_by)
