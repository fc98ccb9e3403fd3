"""How long the brokers took."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.spark import formats, rowplots
from kwire.spark.model import Report
from kwire.spark.row_types import LatencyRow
from kwire.spark.sections.parts import Figure, Section, Table, clock, named, plain


def build(report: Report) -> Section:
    """Latency by API, long polls apart, and the slowest requests."""
    answered = [row for row in report.latency if not row.is_long_poll]
    waiting = [row for row in report.latency if row.is_long_poll]
    figures = [_figure("Requests", "From the last byte of a request to the first byte of its answer.", answered)]
    if waiting:
        note = "These wait on the broker until there is data, the other members are there or their time is up: read "
        figures.append(_figure("Long polls", f"{note}them as waiting, not as slowness.", waiting))
    if report.slowest:
        figures.append(_slowest(report))
    lead = "How long the broker took, by API. The scale is logarithmic."
    return Section("latency", "Latency by API", lead, figures, "Latency")


def _figure(title: str, note: str, rows: Sequence[LatencyRow]) -> Figure:
    cells = [
        (
            row.api,
            row.versions,
            formats.count(row.requests),
            *(formats.span(us) for us in (row.p50_us, row.p95_us, row.p99_us, row.max_us)),
        )
        for row in rows
    ]
    table = Table(("API", "Versions", "Answered", "p50", "p95", "p99", "Slowest"), cells, labels=2)
    return Figure(title, note, rowplots.latency(rows) if rows else None, table)


def _slowest(report: Report) -> Figure:
    cells = [
        (
            f"{row.api_name} v{row.api_version}",
            named(row.client_id),
            formats.file(row.file),
            formats.span(row.latency_us),
            clock(row.req_us),
            plain(row.correlation_id),
            plain(row.req_packet),
            plain(row.resp_packet),
        )
        for row in report.slowest
    ]
    head = ("Request", "Client", "File", "Took", "Sent", "Correlation id", "Packet", "Answer")
    note = "The requests that waited longest, long polls left out. Packets are counted from 1, as Wireshark does."
    return Figure("The slowest requests", note, None, Table(head, cells, labels=3))
