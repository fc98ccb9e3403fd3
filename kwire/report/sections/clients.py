"""Section: clients, their software, API versions, and the size of their requests."""

from __future__ import annotations

from kwire.report import formats, percentiles
from kwire.report.colours import class_of
from kwire.report.model import Report
from kwire.report.plots import bars as rowplots
from kwire.report.sections.figures import Figure, Section, Table

BARS_MAX = 16
TINY_CLASSES = {"below 1 KiB": class_of("below-1-kib"), "larger": class_of("larger")}


def build_section(report: Report) -> Section:
    """The section on clients: requests by client, sizes of requests, and API versions."""
    figures = [_client_figure(report)]
    if report.batches:
        figures.append(_batch_figure(report))
    figures.append(_version_figure(report))
    return Section("clients", "Clients", "Clients, their software, versions and request sizes.", figures)


def _client_figure(report: Report) -> Figure:
    bars = [(formats.name_or_dash(row.client_id), row.requests) for row in report.client_rows[:BARS_MAX]]
    cells = [
        (
            *map(formats.name_or_dash, (row.client_id, row.software)),
            formats.count(row.requests),
            "-" if row.requests_per_s is None else f"{row.requests_per_s:,.3g}",
            *map(formats.count, (row.connections, row.apis, row.errors)),
            *map(formats.size, (row.req_bytes, row.resp_bytes)),
        )
        for row in report.client_rows
    ]
    head = ("Client", "Software", "Requests", "A second", "Connections", "APIs", "Errors", "Sent", "Received")
    note = "By client id and the software that its ApiVersions requests name."
    plot = rowplots.plot_bars(bars, class_=class_of("amount")) if bars else None
    omitted = report.omitted.get("clients", 0)
    return Figure("Requests by client", note, plot, Table(head, cells, labels=2), is_wide=True, omitted=omitted)


def _batch_figure(report: Report) -> Figure:
    names = [f"{formats.name_or_dash(row.client_id)} {row.api_name}" for row in report.batches]
    parts = [{"below 1 KiB": row.tiny, "larger": row.requests - row.tiny} for row in report.batches]
    cells = [
        (
            formats.name_or_dash(row.client_id),
            row.api_name,
            ", ".join(row.codecs) or "-",
            "-" if row.file is None else formats.file(row.file),
            *map(formats.count, (row.requests, row.tiny, row.records)),
            formats.size(row.batch_bytes),
            formats.count(percentiles.shown(50, row.p50_records, row.requests)),
            formats.size(percentiles.shown(50, row.p50_bytes, row.requests)),
            formats.number(row.req_packet),
        )
        for row in report.batches
    ]
    head = (
        *("Client", "API", "Codecs", "File", "Requests", "Below 1 KiB", "Records", "Size"),
        *("Records p50", "Size p50", "Packet"),
    )
    note = (
        "Produce requests and fetch responses with records, by the size of their records. Below 1 KiB there is more "
        "overhead than data: larger linger.ms and batch.size help, or fetch.min.bytes. File and packet are those of "
        f"the first below 1 KiB. The medians are of the requests, where there are at least {percentiles.COUNT_MIN[50]}."
    )
    rows = list(zip(names, parts, strict=True))[:BARS_MAX]
    plot = rowplots.plot_stacked_bars(rows, TINY_CLASSES, nouns=("request", "requests"))
    omitted = report.omitted.get("batch_sizes", 0)
    return Figure("Size of requests", note, plot, Table(head, cells, labels=4), is_wide=True, omitted=omitted)


def _version_figure(report: Report) -> Figure:
    cells = []
    for row in report.versions:
        versions = ", ".join(f"v{version}" for version in row.versions)
        cells.append((formats.name_or_dash(row.client_id), row.api_name, versions, formats.count(row.requests)))
    table = Table(("Client", "API", "Versions", "Requests"), cells, labels=3)
    omitted = report.omitted.get("client_versions", 0)
    return Figure("Versions", "API versions that each client uses.", None, table, omitted=omitted)
