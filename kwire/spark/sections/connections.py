"""Connections: how long they live, what TCP had to repair, how deep requests queue."""

from __future__ import annotations

from collections import defaultdict

from kwire.spark import formats, heatplot, scatterplot, spanplots
from kwire.spark.analyses.connections import IDLE_US
from kwire.spark.heatplot import HeatRow
from kwire.spark.markup import Markup
from kwire.spark.model import Report
from kwire.spark.row_types import ConnectionRow
from kwire.spark.scatterplot import Point
from kwire.spark.sections.parts import Figure, Section, Table, clock, named, number, plain, span
from kwire.spark.sections.traffic import counts
from kwire.spark.spanplots import Bar, Line

ROWS_MAX = 24
ENDED = {
    "fin": "closed",
    "rst": "reset",
    "reuse": "ports reused",
    "quiet": "quiet for long",
    "end": "open at the end",
}
ENDED_CLASSES = {
    "closed": "c0",
    "idle, then closed": "c3",
    "reset": "e0",
    "ports reused": "c1",
    "quiet for long": "c4",
    "open at the end": "c2",
}


def build(report: Report) -> Section:
    """Lives of connections, troubles of TCP against latency, depth of queues, throttling."""
    figures = []
    if report.connection_rows:
        figures.append(_lives(report))
    if report.churn is not None and report.churn.total:
        note = "Connections whose handshake or end was captured, counted"
        figures.append(counts(report.churn, "Coming and going", note, "Connections", value="In all"))
    if report.connection_rows:
        figures.append(_troubles(report))
    figures += _depth(report)
    lead = "TCP underneath, and how clients use it."
    return Section("connections", "Connections", lead, figures)


def _lives(report: Report) -> Figure:
    rows = sorted(report.connection_rows[:ROWS_MAX], key=lambda row: (row.first_us, row.conn_id))
    lines = [
        Line(named(row.client_id or row.conn_id), _value(row), [Bar(row.first_us, row.last_us, _end(row), _told(row))])
        for row in rows
    ]
    cells = [
        (
            row.conn_id,
            named(row.client_id),
            _end(row) if row.kind == "kafka" else f"{row.kind.replace('_', ' ')}, {_end(row)}",
            formats.file(row.file),
            clock(row.first_us),
            formats.span(row.last_us - row.first_us),
            formats.count(row.requests),
            number(row.errors),
            formats.size(row.bytes),
            span(row.rtt_us),
            span(row.p50_us),
            span(row.idle_us),
            plain(row.first_packet),
        )
        for row in report.connection_rows
    ]
    head = (
        *("Connection", "Client", "Ended", "File", "Begins", "Lasts", "Requests", "Errors", "Bytes"),
        *("Round trip", "Latency p50", "Idle", "Packet"),
    )
    note = "From the first packet to the last. Idle, then closed: nothing was asked for a minute before."
    if len(report.connection_rows) > ROWS_MAX:
        note += f" Drawn are the {ROWS_MAX} with the most troubles of TCP and the most requests."
    return Figure(
        "Lives of connections",
        note,
        spanplots.spans(lines, ENDED_CLASSES),
        Table(head, cells, labels=4),
        is_wide=True,
        omitted=report.omitted.get("connections", 0),
    )


def _end(row: ConnectionRow) -> str:
    if row.ended == "fin" and (row.idle_us or 0) >= IDLE_US:
        return "idle, then closed"
    return ENDED.get(row.ended, row.ended)


def _value(row: ConnectionRow) -> str:
    repaired = row.retransmits + row.zero_windows
    told = formats.plural(row.requests, "request")
    return f"{told}, {formats.plural(repaired, 'TCP trouble')}" if repaired else told


def _told(row: ConnectionRow) -> str:
    return f"{row.conn_id}, {formats.plural(row.requests, 'request')}, {_end(row)}"


def _troubles(report: Report) -> Figure:
    rows = [row for row in report.connection_rows if row.retransmits or row.zero_windows or row.lost_bytes]
    cells = [
        (
            row.conn_id,
            named(row.client_id),
            formats.file(row.file),
            *(formats.count(value) for value in (row.packets, row.retransmits, row.zero_windows, row.lost_bytes)),
            span(row.rtt_us),
            span(row.p50_us),
            span(row.max_us),
        )
        for row in rows
    ]
    head = (
        *("Connection", "Client", "File", "Packets", "Retransmits", "Closed windows", "Lost bytes"),
        *("Round trip", "Latency p50", "Slowest"),
    )
    note = (
        "Packets that were sent again, and packets that say that no more can be taken, against the slowest answer of "
        "the connection: if points climb to the right, the network or a full receiver is what is slow."
    )
    points = [row for row in rows if row.max_us is not None and row.retransmits + row.zero_windows]
    plot = _scatter(points) if points else None
    return Figure("Troubles of TCP against latency", note, plot, Table(head, cells, labels=3), is_wide=True)


def _scatter(rows: list[ConnectionRow]) -> Markup:
    def troubles(row: ConnectionRow) -> int:
        """What stands on the x axis."""
        return row.retransmits + row.zero_windows

    x = scatterplot.decades([troubles(row) for row in rows], lambda value: f"{value:,.0f}", low_min=1, holds=1)
    y = scatterplot.decades(
        [row.max_us or 1 for row in rows], lambda us: formats.span(int(us)), low_min=1, holds=rows[0].max_us or 1
    )
    points = [
        Point(
            troubles(row),
            row.max_us or 0,
            "closed windows" if row.zero_windows else "retransmits alone",
            f"{row.conn_id}: {row.retransmits} retransmits, {row.zero_windows} closed windows, {span(row.max_us)}",
        )
        for row in rows
    ]
    classes = {"retransmits alone": "c0", "closed windows": "e0"}
    title = "Slowest answer of a connection against its troubles"
    return scatterplot.scatter(points, x, y, title=title, classes=classes, line=None)


def _depth(report: Report) -> list[Figure]:
    figures = []
    if any(row.in_flight_max > 1 for row in report.depth):
        note = "The most requests that waited for an answer at once. One is a client that waits for each answer."
        figures.append(_heat(report, "Requests in flight", note, "in_flight_max", "c0"))
    if any(row.throttle_ms_max for row in report.depth):
        note = "The longest throttle time that a broker named: it asks the client to be silent for so long."
        figures.append(_heat(report, "Throttling", note, "throttle_ms_max", "e0"))
    return figures


def _heat(report: Report, title: str, note: str, field: str, class_: str) -> Figure:
    def told(value: int) -> str:
        """A value in words."""
        return formats.span(value * 1000) if field == "throttle_ms_max" else formats.count(value)

    cells: dict[tuple[str, str, int], dict[int, int]] = defaultdict(dict)
    clients: dict[tuple[str, str, int], str | None] = {}
    for row in report.depth:
        key = (row.file, row.conn_id, row.stream_epoch)
        cells[key][row.bin] = getattr(row, field)
        clients[key] = clients.get(key) or row.client_id
    busy = [key for key in cells if max(cells[key].values())]
    worst = sorted(busy, key=lambda key: (-max(cells[key].values()), key))
    rows = [
        HeatRow(named(clients[key] or key[1]), f"at most {told(max(cells[key].values()))}", cells[key])
        for key in worst[:ROWS_MAX]
    ]
    table = [(key[1], named(clients[key]), formats.file(key[0]), told(max(cells[key].values()))) for key in worst]
    note += f" In steps of {formats.span(report.traffic.step_us)}."
    plot = heatplot.heat(rows, report.traffic, told=told, class_=class_)
    return Figure(title, note, plot, Table(("Connection", "Client", "File", "At most"), table, labels=3), is_wide=True)
