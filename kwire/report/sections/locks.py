"""Section: how long share members held records, compared to their acquisition locks."""

from __future__ import annotations

from kwire.report import formats, percentiles
from kwire.report.colours import class_of
from kwire.report.markup import Markup
from kwire.report.model import Report, Timeline
from kwire.report.plots import scatter
from kwire.report.plots.scale import log_scale
from kwire.report.plots.scatter import Point
from kwire.report.plots.time_axis import TimeScale
from kwire.report.row_types import LockRow
from kwire.report.sections.figures import Figure, Section, Table
from kwire.report.sections.shares import ACK_CLASSES, REFUSED

CLASSES = {**ACK_CLASSES, REFUSED: class_of("failure")}
LATE_MAX = 200


def build_section(report: Report) -> Section:
    """The section on acquisition locks: use of the lock by member, and late acknowledgements."""
    figures = [_member_figure(report)]
    late = [row for row in report.locks if (row.lock_share or 0) > 1 or row.ack_error]
    if late:
        figures.append(_late_figure(late))
    lead = "How long members held acquired records, relative to the acquisition lock of the group."
    return Section("locks", "Locks and acknowledgements", lead, figures, "Locks")


def _member_figure(report: Report) -> Figure:
    cells = [
        (
            *map(formats.name_or_dash, (row.member_id, row.client_id, row.group_id)),
            formats.count(row.records),
            formats.count(row.ranges),
            formats.span(percentiles.shown(50, row.p50_us, row.ranges)),
            formats.span(percentiles.shown(95, row.p95_us, row.ranges)),
            formats.span(row.max_us),
            formats.span_ms(row.lock_timeout_ms),
            *map(formats.count, (row.renewals, row.late, row.refused)),
        )
        for row in report.lock_use
    ]
    head = (
        *("Member", "Client", "Group", "Records", "Ranges", "Held p50", "Held p95", "Held longest"),
        *("Lock", "Renewals", "Late", "Refused"),
    )
    note = (
        "Each point is a range of records that were acquired together and acknowledged together. Its height is the "
        "used part of the lock, counted from the last renewal: above the line the acknowledgement was late. "
        f"In the table, times are those of ranges, with percentiles where there are enough: {percentiles.NOTE}; "
        "renewals, late and refused acknowledgements are counted in records whose delivery is in the capture."
    )
    points = [row for row in report.locks if row.lock_share is not None]
    if report.omitted.get("lock_times"):
        note += f" The plot shows the {formats.count(len(report.locks))} with the largest used part."
    plot = _lock_plot(points, report.traffic) if points else None
    omitted = report.omitted.get("lock_use", 0)
    return Figure("Time until acknowledgement", note, plot, Table(head, cells, labels=3), is_wide=True, omitted=omitted)


def _lock_plot(rows: list[LockRow], spans: Timeline) -> Markup:
    x = TimeScale(spans.start_us, spans.start_us + spans.bins * spans.step_us)
    shares = [1.0, *(row.lock_share or 0 for row in rows)]
    y = log_scale(shares, lambda share: f"{100 * share:g} %", low_min=1e-4)
    points = [Point(row.ack_us, row.lock_share or 0, _point_kind(row), _tooltip(row)) for row in rows]
    title = "Used part of the lock at acknowledgement, over time"
    return scatter.plot_scatter(points, x, y, title=title, classes=CLASSES, line=(1.0, "the lock expires"))


def _point_kind(row: LockRow) -> str:
    return REFUSED if row.ack_error else row.ack_name if row.ack_name in CLASSES else "gap"


def _tooltip(row: LockRow) -> str:
    acknowledgement = f"{row.ack_name}, refused with {row.ack_error}" if row.ack_error else row.ack_name
    held = formats.span(row.held_us)
    records = f"{formats.partition(row.topic, row.partition)} @ {row.first_offset} to {row.last_offset}"
    return f"{records}: {acknowledgement} by {formats.name_or_dash(row.client_id or row.member_id)} after {held}"


def _late_figure(rows: list[LockRow]) -> Figure:
    cells = [
        (
            formats.partition(row.topic, row.partition),
            row.ack_name,
            formats.name_or_dash(row.ack_error),
            formats.name_or_dash(row.client_id or row.member_id),
            formats.file(row.file),
            f"{row.first_offset}-{row.last_offset}",
            formats.count(row.records),
            formats.span(row.held_us),
            formats.span_ms(row.lock_timeout_ms),
            formats.count(row.renewals),
            formats.clock(row.ack_us),
            *map(formats.number, (row.correlation_id, row.req_packet)),
        )
        for row in rows[:LATE_MAX]
    ]
    head = (
        *("Partition", "Acknowledged", "Refused with", "By", "File"),
        *("Offsets", "Records", "Held", "Lock", "Renewals", "At", "Correlation id", "Packet"),
    )
    note = "Sent after the lock had expired, or refused by the broker. The largest used part comes first."
    omitted = len(rows[LATE_MAX:])
    return Figure("Late and refused acknowledgements", note, None, Table(head, cells, labels=5), omitted=omitted)
