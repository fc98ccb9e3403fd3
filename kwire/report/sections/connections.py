"""Section: connections, their lifetimes, TCP issues, and requests in flight."""

from __future__ import annotations

from collections import defaultdict

from kwire.report import formats, percentiles
from kwire.report.colours import class_of
from kwire.report.markup import Markup
from kwire.report.model import Report
from kwire.report.plots import heat_map, scatter, spans
from kwire.report.plots.heat_map import HeatRow
from kwire.report.plots.scale import log_scale
from kwire.report.plots.scatter import Point
from kwire.report.plots.spans import Bar, Line
from kwire.report.row_types import ConnectionRow
from kwire.report.sections.figures import Figure, Section, Table
from kwire.report.sections.traffic import counts_figure
from kwire.spark.analyses.connections import IDLE_US

ROWS_MAX = 24
ENDED = {"fin": "closed", "rst": "reset", "reuse": "ports reused", "quiet": "inactive", "end": "open at the end"}
ENDED_CLASSES = {
    "closed": class_of("closed"),
    "idle, then closed": class_of("idle-closed"),
    "reset": class_of("failure"),
    "ports reused": class_of("ports-reused"),
    "inactive": class_of("inactive"),
    "open at the end": class_of("open-at-end"),
}
CHURN_CLASSES = {"opened": class_of("opened"), "closed": class_of("closed")}
TCP_ISSUE_CLASSES = {"retransmits only": class_of("retransmitted"), "zero windows": class_of("zero-window")}


def build_section(report: Report) -> Section:
    """The section on connections: lifetimes, TCP issues and latency, requests in flight, throttling."""
    figures = []
    if report.connection_rows:
        figures.append(_lifetime_figure(report))
    churn = report.connection_churn
    if churn is not None and churn.total:
        note = "Connections whose handshake or end was captured, counted"
        figures.append(
            counts_figure(churn, CHURN_CLASSES, "Connections opened and closed", note, ("Event", "Connections"))
        )
    if report.connection_rows:
        figures.append(_tcp_issue_figure(report))
    figures += _in_flight_figures(report)
    return Section("connections", "Connections", "TCP connections, and how clients use them.", figures)


def _lifetime_figure(report: Report) -> Figure:
    rows = sorted(report.connection_rows[:ROWS_MAX], key=lambda row: (row.first_us, row.conn_id))
    lines = []
    for row in rows:
        bar = Bar(row.first_us, row.last_us, _end_text(row), _tooltip(row))
        lines.append(Line(formats.name_or_dash(row.client_id or row.conn_id), _value_text(row), [bar]))
    cells = [
        (
            row.conn_id,
            formats.name_or_dash(row.client_id),
            _end_text(row) if row.kind == "kafka" else f"{row.kind.replace('_', ' ')}, {_end_text(row)}",
            formats.file(row.file),
            formats.clock(row.first_us),
            formats.span(row.last_us - row.first_us),
            *map(formats.count, (row.requests, row.errors)),
            formats.size(row.bytes),
            *map(formats.span, (row.rtt_us, _p50(row), row.max_us, row.idle_us)),
            formats.number(row.first_packet),
        )
        for row in report.connection_rows
    ]
    head = (
        *("Connection", "Client", "Ended", "File", "Begins", "Lasts", "Requests", "Errors", "Bytes"),
        *("Round trip", "Latency p50", "Slowest", "Idle", "Packet"),
    )
    note = (
        "From the first packet to the last. Idle, then closed: no request for a minute before. Latencies are "
        f"those of responses without long polls; the median is shown where there are at least "
        f"{percentiles.COUNT_MIN[50]}."
    )
    if len(report.connection_rows) > ROWS_MAX:
        note += f" The plot shows the {ROWS_MAX} with the most TCP issues and the most requests."
    plot = spans.plot_spans(lines, ENDED_CLASSES)
    omitted = report.omitted.get("connections", 0)
    return Figure("Lifetimes of connections", note, plot, Table(head, cells, labels=4), is_wide=True, omitted=omitted)


def _p50(row: ConnectionRow) -> int | None:
    return percentiles.shown(50, row.p50_us, row.answered)


def _end_text(row: ConnectionRow) -> str:
    if row.ended == "fin" and (row.idle_us or 0) >= IDLE_US:
        return "idle, then closed"
    return ENDED.get(row.ended, row.ended)


def _value_text(row: ConnectionRow) -> str:
    issues = row.retransmits + row.zero_windows
    requests = formats.plural(row.requests, "request")
    return f"{requests}, {formats.plural(issues, 'TCP issue')}" if issues else requests


def _tooltip(row: ConnectionRow) -> str:
    return f"{row.conn_id}, {formats.plural(row.requests, 'request')}, {_end_text(row)}"


def _tcp_issue_figure(report: Report) -> Figure:
    rows = [row for row in report.connection_rows if row.retransmits or row.zero_windows or row.lost_bytes]
    cells = [
        (
            row.conn_id,
            formats.name_or_dash(row.client_id),
            formats.file(row.file),
            *map(formats.count, (row.packets, row.retransmits, row.zero_windows, row.lost_bytes)),
            *map(formats.span, (row.rtt_us, _p50(row), row.max_us)),
        )
        for row in rows
    ]
    head = (
        *("Connection", "Client", "File", "Packets", "Retransmits", "Zero windows", "Lost bytes"),
        *("Round trip", "Latency p50", "Slowest"),
    )
    note = (
        "Retransmitted packets and packets with a zero window, compared to the slowest response of the connection: if "
        "latency rises with them, the network or a full receiver is the cause."
    )
    points = [row for row in rows if row.max_us is not None and row.retransmits + row.zero_windows]
    plot = _scatter_plot(points) if points else None
    return Figure("TCP issues and latency", note, plot, Table(head, cells, labels=3), is_wide=True)


def _scatter_plot(rows: list[ConnectionRow]) -> Markup:
    points = []
    for row in rows:
        kind = "zero windows" if row.zero_windows else "retransmits only"
        issues = f"{formats.plural(row.retransmits, 'retransmit')}, {formats.plural(row.zero_windows, 'zero window')}"
        tooltip = f"{row.conn_id}: {issues}, {formats.span(row.max_us)}"
        points.append(Point(row.retransmits + row.zero_windows, row.max_us or 0, kind, tooltip))
    x = log_scale([1, *(point.x for point in points)], lambda value: f"{value:,.0f}")
    y = log_scale([row.max_us or 1 for row in rows], lambda us: formats.span(int(us)))
    title = "Slowest response of a connection by number of TCP issues"
    return scatter.plot_scatter(points, x, y, title=title, classes=TCP_ISSUE_CLASSES, line=None)


def _in_flight_figures(report: Report) -> list[Figure]:
    figures = []
    if any(row.in_flight_max > 1 for row in report.requests_in_flight):
        note = "The most requests in flight at once. One is a client that waits for each response."
        figures.append(_heat_figure(report, "Requests in flight", note, "in_flight_max", class_of("amount")))
    if any(row.throttle_ms_max for row in report.requests_in_flight):
        note = "The longest throttle time in a response: the client must not send requests for this long."
        figures.append(_heat_figure(report, "Throttling", note, "throttle_ms_max", class_of("throttled")))
    return figures


def _heat_figure(report: Report, title: str, note: str, field: str, class_: str) -> Figure:
    def format_value(value: int) -> str:
        """A value with its unit."""
        return formats.span_ms(value) if field == "throttle_ms_max" else formats.count(value)

    cells: dict[tuple[str, str, int], dict[int, int]] = defaultdict(dict)
    clients: dict[tuple[str, str, int], str | None] = {}
    for row in report.requests_in_flight:
        key = (row.file, row.conn_id, row.stream_epoch)
        cells[key][row.bin] = getattr(row, field)
        clients[key] = clients.get(key) or row.client_id
    tops = {key: top for key, values in cells.items() if (top := max(values.values()))}
    keys = sorted(tops, key=lambda key: (-tops[key], key))
    rows, table = [], []
    for key in keys:
        file, connection, _ = key
        client, maximum = clients[key], format_value(tops[key])
        rows.append(HeatRow(formats.name_or_dash(client or connection), f"at most {maximum}", cells[key]))
        table.append((connection, formats.name_or_dash(client), formats.file(file), maximum))
    note += f" In steps of {formats.span(report.traffic.step_us)}."
    plot = heat_map.plot_heat_map(rows[:ROWS_MAX], report.traffic, format_value=format_value, class_=class_)
    return Figure(title, note, plot, Table(("Connection", "Client", "File", "At most"), table, labels=3), is_wide=True)
