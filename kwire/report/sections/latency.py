"""Section: response latency by API."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.report import formats, percentiles
from kwire.report.model import Report
from kwire.report.plots import bars
from kwire.report.row_types import LatencyRow
from kwire.report.sections.figures import Figure, Section, Table


def build_section(report: Report) -> Section:
    """The section on latency: by API, long polls separately, and the slowest requests."""
    answered = [row for row in report.latency if not row.is_long_poll]
    waiting = [row for row in report.latency if row.is_long_poll]
    note = "From the last byte of a request to the first byte of its response."
    figures = [_latency_figure("Requests", note, answered)]
    if waiting:
        note = "The broker delays these until there is data, other members have joined, or a timeout: their latency "
        figures.append(_latency_figure("Long polls", f"{note}is mostly waiting time.", waiting))
    if report.slowest:
        figures.append(_slowest_figure(report))
    lead = (
        "Response latency by API, on logarithmic scales. Percentiles are shown where there are enough answered "
        f"requests: {percentiles.NOTE}."
    )
    return Section("latency", "Latency by API", lead, figures, "Latency")


def _latency_figure(title: str, note: str, rows: Sequence[LatencyRow]) -> Figure:
    cells = [
        (
            row.api,
            row.versions,
            formats.count(row.requests),
            *map(formats.span, (*row.shown_percentiles.values(), row.max_us)),
        )
        for row in rows
    ]
    table = Table(("API", "Versions", "Answered", "p50", "p95", "p99", "Slowest"), cells, labels=2)
    return Figure(title, note, bars.plot_latency(rows) if rows else None, table)


def _slowest_figure(report: Report) -> Figure:
    cells = [
        (
            f"{row.api_name} v{row.api_version}",
            formats.name_or_dash(row.client_id),
            formats.file(row.file),
            formats.span(row.latency_us),
            formats.clock(row.req_us),
            *map(formats.number, (row.correlation_id, row.req_packet, row.resp_packet)),
        )
        for row in report.slowest
    ]
    head = ("Request", "Client", "File", "Took", "Sent", "Correlation id", "Packet", "Response packet")
    note = "The requests with the highest latency, without long polls. Packets are counted from 1, as in Wireshark."
    return Figure("The slowest requests", note, None, Table(head, cells, labels=3))
