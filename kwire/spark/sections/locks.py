"""How long share members held records, against the time for which these were theirs."""

from __future__ import annotations

from kwire.spark import formats, scatterplot
from kwire.spark.markup import Markup
from kwire.spark.model import Report, Timeline
from kwire.spark.row_types import LockRow
from kwire.spark.scatterplot import Point
from kwire.spark.sections.parts import Figure, Section, Table, clock, named, number, place, plain, span
from kwire.spark.sections.shares import ACK_CLASSES

CLASSES = {**ACK_CLASSES, "refused": "refused"}
LATE_MAX = 200
TICKS = 3


def build(report: Report) -> Section:
    """Lock time against acknowledgement, by member, and the words that came late."""
    figures = [_members(report)]
    late = [row for row in report.locks if (row.lock_share or 0) > 1 or row.ack_error]
    if late:
        figures.append(_late(late))
    lead = "How long members held what they were handed, measured against the acquisition lock of the group."
    return Section("locks", "Locks and acknowledgements", lead, figures, "Locks")


def _members(report: Report) -> Figure:
    cells = [
        (
            named(row.member_id),
            named(row.client_id),
            named(row.group_id),
            formats.count(row.records),
            *(formats.span(us) for us in (row.p50_us, row.p95_us, row.max_us)),
            "-" if row.lock_timeout_ms is None else formats.span(row.lock_timeout_ms * 1000),
            *(formats.count(value) for value in (row.renewals, row.late, row.refused)),
        )
        for row in report.lock_use
    ]
    head = ("Member", "Client", "Group", "Records", "Held p50", "p95", "Longest", "Lock", "Renewals", "Late", "Refused")
    note = (
        "Each point is a run of records that was acquired together and acknowledged together. Its height is how much "
        "of the lock was used up, counted from the last renewal: above the line the word came too late."
    )
    points = [row for row in report.locks if row.lock_share is not None]
    if report.omitted.get("lock_times"):
        note += f" Drawn are the {formats.count(len(report.locks))} that came nearest to it."
    plot = _plot(points, report.traffic) if points else None
    omitted = report.omitted.get("lock_use", 0)
    return Figure("Time until the word", note, plot, Table(head, cells, labels=3), is_wide=True, omitted=omitted)


def _plot(rows: list[LockRow], spans: Timeline) -> Markup:
    first, last = spans.start_us, spans.start_us + spans.bins * spans.step_us
    step = (last - first) // (TICKS - 1)

    def moment(us: float) -> str:
        """A tick of the axis."""
        return formats.axis_label(int(us), start_us=first, step_us=step)

    x = scatterplot.Scale(first, last, False, [first + step * index for index in range(TICKS)], moment)
    shares = [row.lock_share or 0 for row in rows]
    y = scatterplot.decades(shares, lambda share: f"{100 * share:g} %", low_min=1e-4, holds=1.0)
    points = [Point(row.ack_us, row.lock_share or 0, _kind(row), _told(row)) for row in rows]
    title = "Part of the lock used up when the acknowledgement was sent, over time"
    return scatterplot.scatter(points, x, y, title=title, classes=CLASSES, line=(1.0, "the lock runs out"))


def _kind(row: LockRow) -> str:
    return "refused" if row.ack_error else row.ack_name if row.ack_name in CLASSES else "gap"


def _told(row: LockRow) -> str:
    word = f"{row.ack_name}, refused with {row.ack_error}" if row.ack_error else row.ack_name
    held = formats.span(row.held_us)
    where = f"{place(row.topic, row.partition)} @ {row.first_offset} to {row.last_offset}"
    return f"{where}: {word} by {named(row.client_id or row.member_id)} after {held}"


def _late(rows: list[LockRow]) -> Figure:
    cells = [
        (
            place(row.topic, row.partition),
            row.ack_name,
            named(row.ack_error),
            named(row.client_id or row.member_id),
            formats.file(row.file),
            f"{row.first_offset}-{row.last_offset}",
            formats.count(row.records),
            formats.span(row.held_us),
            span(None if row.lock_timeout_ms is None else row.lock_timeout_ms * 1000),
            number(row.renewals),
            clock(row.ack_us),
            plain(row.correlation_id),
            plain(row.req_packet),
        )
        for row in rows[:LATE_MAX]
    ]
    head = (
        *("Partition", "Said", "Refused with", "By", "File"),
        *("Offsets", "Records", "Held", "Lock", "Renewals", "At", "Correlation id", "Packet"),
    )
    note = "Sent when the lock had run out, or not taken by the broker. The worst come first."
    omitted = len(rows[LATE_MAX:])
    return Figure("Late and refused acknowledgements", note, None, Table(head, cells, labels=5), omitted=omitted)
