"""Who speaks: software, versions, and how much goes into a request."""

from __future__ import annotations

from kwire.spark import formats, rowplots
from kwire.spark.model import Report
from kwire.spark.sections.parts import Figure, Section, Table, named, plain

BARS_MAX = 16
TINY_CLASSES = {"below 1 KiB": "e1", "larger": "c0"}


def build(report: Report) -> Section:
    """Clients by requests, the size of what producers send, and the versions in use."""
    figures = [_clients(report)]
    if report.batches:
        figures.append(_batches(report))
    figures.append(_versions(report))
    return Section("clients", "Clients", "Who speaks, with which software, and how.", figures)


def _clients(report: Report) -> Figure:
    bars = [(named(row.client_id), row.requests) for row in report.client_rows[:BARS_MAX]]
    cells = [
        (
            named(row.client_id),
            named(row.software),
            formats.count(row.requests),
            "-" if row.requests_per_s is None else f"{row.requests_per_s:,.3g}",
            *(formats.count(value) for value in (row.connections, row.apis, row.errors)),
            *(formats.size(value) for value in (row.req_bytes, row.resp_bytes)),
        )
        for row in report.client_rows
    ]
    head = ("Client", "Software", "Requests", "A second", "Connections", "APIs", "Errors", "Sent", "Received")
    note = "By client id and the software that its ApiVersions requests name."
    plot = rowplots.bars(bars, class_="c0") if bars else None
    omitted = report.omitted.get("clients", 0)
    return Figure("Requests by client", note, plot, Table(head, cells, labels=2), is_wide=True, omitted=omitted)


def _batches(report: Report) -> Figure:
    rows = [
        (f"{named(row.client_id)} {row.api_name}", {"below 1 KiB": row.tiny, "larger": row.requests - row.tiny})
        for row in report.batches
    ]
    cells = [
        (
            named(row.client_id),
            row.api_name,
            ", ".join(row.codecs) or "-",
            named(None if row.file is None else formats.file(row.file)),
            *(formats.count(value) for value in (row.requests, row.tiny, row.records, row.p50_records)),
            formats.size(row.p50_bytes),
            plain(row.req_packet),
        )
        for row in report.batches
    ]
    head = ("Client", "API", "Codecs", "File", "Requests", "Tiny", "Records", "Records p50", "Size p50", "Packet")
    note = (
        "Produce requests and answers to fetches that hold records, by how much they hold. Below 1 KiB it is more "
        "overhead than data: larger linger.ms and batch.size help, or fetch.min.bytes. File and packet are those of "
        "the first tiny one."
    )
    plot = rowplots.mix(rows[:BARS_MAX], TINY_CLASSES, noun="request")
    omitted = report.omitted.get("batch_sizes", 0)
    return Figure("What requests carry", note, plot, Table(head, cells, labels=4), is_wide=True, omitted=omitted)


def _versions(report: Report) -> Figure:
    cells = [
        (
            named(row.client_id),
            row.api_name,
            ", ".join(f"v{each}" for each in row.versions),
            formats.count(row.requests),
        )
        for row in report.versions
    ]
    note = "What each client asks with."
    omitted = report.omitted.get("client_versions", 0)
    table = Table(("Client", "API", "Versions", "Requests"), cells, labels=3)
    return Figure("Versions", note, None, table, omitted=omitted)
