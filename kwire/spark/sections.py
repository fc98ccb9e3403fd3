"""The sections of the report: which plot and which table tell what, in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kwire.spark import formats, rowplots, timeplot
from kwire.spark.markup import Markup, tag
from kwire.spark.model import LatencyRow, Report

ACK_CLASSES = {
    "accept": "ack-accept",
    "release": "ack-release",
    "reject": "ack-reject",
    "renew": "ack-renew",
    "gap": "ack-gap",
}
FATE_CLASSES = {
    "accepted": "ack-accept",
    "released": "ack-release",
    "rejected": "ack-reject",
    "exhausted": "ack-exhausted",
    "open": "ack-open",
    "gap": "ack-gap",
}

ERROR_HEAD = ("Error", "API", "Responses", "First", "Last")

# Plots beyond these would only repeat what the tables say.
MEMBERS_MAX = 24
GROUPS_MAX = 12

STATUSES = {
    "ok": "request and answer whole and decoded, or no answer was wanted",
    "no_response": "no answer in the capture: the connection or the capture ended first, or the answer was lost",
    "no_request": "an answer whose request is not in the capture",
    "truncated": "the capture holds only the beginning of a frame",
    "gap": "packets in the middle of the frame are missing",
    "undecodable": "bytes that are not what the protocol says",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first `labels` columns are text, the others are numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing shown twice: as a plot (None: nothing to draw), and as a table beside it or, if wide, below."""

    title: str
    note: str
    plot: Markup | None
    table: Table
    is_wide: bool = False
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter of the report; `anchor` is its address in the page."""

    anchor: str
    title: str
    lead: str
    figures: Sequence[Figure]


def build(report: Report) -> list[Section]:
    """All sections that this report has something to say in."""
    found = [_latency(report), _time(report)]
    if report.groups or report.acks:
        found.append(_shares(report))
    return [*found, _capture(report)]


def _latency(report: Report) -> Section:
    answered = [row for row in report.latency if not row.is_long_poll]
    waiting = [row for row in report.latency if row.is_long_poll]
    figures = [
        _latency_figure("Requests", "From the last byte of a request to the first byte of its answer.", answered)
    ]
    if waiting:
        note = (
            "These wait on the broker until there is data or their time is up: read them as waiting, not as slowness."
        )
        figures.append(_latency_figure("Long polls", note, waiting))
    lead = "How long the broker took, by API. The scale is logarithmic."
    return Section("latency", "Latency by API", lead, figures)


def _latency_figure(title: str, note: str, rows: Sequence[LatencyRow]) -> Figure:
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


def _time(report: Report) -> Section:
    traffic = [
        (name, formats.count(sum(counts)), formats.count(max(counts))) for name, counts in report.traffic.series.items()
    ]
    errors = [
        (row.error, row.api, formats.count(row.responses), formats.clock(row.first_us), formats.clock(row.last_us))
        for row in report.error_rows
    ]
    plots = [
        timeplot.columns(data, title=title, colours=colours) if data.total else None
        for data, title, colours in (
            (report.traffic, "Requests over time", "c"),
            (report.errors, "Errors over time", "e"),
        )
    ]
    step = formats.span(report.traffic.step_us)
    note = "An error inside an answer, of one partition for example, counts as the answer's own when it has no other."
    figures = [
        Figure(
            "Requests", f"By API, in steps of {step}.", plots[0], Table(("API", "Requests", f"Most in {step}"), traffic)
        ),
        Figure("Errors", note, plots[1], Table(ERROR_HEAD, errors, labels=2), is_wide=True),
    ]
    return Section("time", "Traffic and errors over time", "When things happened, and when they went wrong.", figures)


def _shares(report: Report) -> Section:
    lead = "What the share groups were handed, how often, and what their members answered."
    if len(report.groups) > GROUPS_MAX:
        lead += f" Drawn are the {GROUPS_MAX} with the most redeliveries of {formats.count(len(report.groups))}."
    if report.omitted.get("deliveries"):
        lead += (
            f" {formats.plural(report.omitted['deliveries'], 'partition')} with the fewest redeliveries are not listed."
        )
    return Section(
        "share-groups", "Share groups", lead, [*_deliveries(report), *_over_time(report), _fates(report), _acks(report)]
    )


def _deliveries(report: Report) -> list[Figure]:
    figures = []
    for group in [row.group for row in report.groups][:GROUPS_MAX]:
        by_count = report.delivery_counts.get(group, {})
        bars = [(f"{formats.ordinal(count)} delivery", records) for count, records in sorted(by_count.items())]
        cells = [
            (
                formats.name(row.topic),
                str(row.partition),
                formats.count(row.records),
                formats.count(row.acquisitions),
                formats.count(row.redelivered),
                str(row.delivery_count_max),
            )
            for row in report.deliveries
            if row.group == group
        ]
        table = Table(("Topic", "Partition", "Records", "Handed out", "Redelivered", "Most often"), cells)
        note = "Records by the delivery count they were handed out with; from the second on they are redeliveries."
        figures.append(
            Figure(
                f"Deliveries in {formats.name(group)}", note, rowplots.bars(bars, class_="c0") if bars else None, table
            )
        )
    return figures


def _over_time(report: Report) -> list[Figure]:
    data = report.share_traffic
    if data is None or not data.total:
        return []
    step = formats.span(data.step_us)
    note = f"In steps of {step}. Records come again when they are released, when a lock runs out, when a member leaves."
    rows = [(name, formats.count(sum(values)), formats.count(max(values))) for name, values in data.series.items()]
    table = Table(("Handed out", "Records", f"Most in {step}"), rows)
    return [
        Figure("Deliveries over time", note, timeplot.columns(data, title="Deliveries over time", colours="c"), table)
    ]


def _fates(report: Report) -> Figure:
    shown = [row.group for row in report.groups if row.group in report.outcomes][:GROUPS_MAX]
    rows = [(formats.name(group), report.outcomes[group]) for group in shown]
    cells = [(group, *(formats.count(fates.get(fate, 0)) for fate in FATE_CLASSES)) for group, fates in rows]
    note = (
        "The last word on each record that was handed out. Exhausted: at the delivery limit (5 by default) and not "
        "accepted; open: not answered within the capture, or the lock ran out."
    )
    return Figure(
        "What became of the records",
        note,
        rowplots.mix(rows, FATE_CLASSES) if rows else None,
        Table(("Group", *(fate.capitalize() for fate in FATE_CLASSES)), cells),
    )


def _acks(report: Report) -> Figure:
    rows = [(formats.name(row.client or row.member), row.records) for row in report.acks if row.total]
    cells = [
        (
            formats.name(row.member),
            formats.name(row.client),
            formats.name(row.group),
            *(formats.count(row.records.get(kind, 0)) for kind in ACK_CLASSES),
            formats.count(row.refused),
        )
        for row in report.acks
    ]
    head = ("Member", "Client", "Group", *(kind.capitalize() for kind in ACK_CLASSES), "Refused")
    return Figure(
        "Acknowledgements by member",
        "Records by what the member said of them. Refused are those that the broker did not take.",
        rowplots.mix(rows[:MEMBERS_MAX], ACK_CLASSES) if rows else None,
        Table(head, cells, labels=3),
        is_wide=True,
        omitted=report.omitted.get("acks", 0),
    )


def _capture(report: Report) -> Section:
    bars = [
        (status.replace("_", " "), count)
        for status, count in sorted(report.statuses.items(), key=lambda item: -item[1])
    ]
    statuses = [
        (status.replace("_", " "), STATUSES.get(status, ""), formats.count(count))
        for status, count in sorted(report.statuses.items(), key=lambda item: -item[1])
    ]
    files = [
        (
            formats.path(row.name),
            formats.count(row.requests),
            formats.count(row.ok),
            formats.count(row.connections),
            formats.moment(row.first_us) if row.first_us is not None else "-",
            formats.span(row.last_us - row.first_us) if row.first_us is not None and row.last_us is not None else "-",
        )
        for row in report.files
    ]
    figures = [
        Figure(
            "Exchanges",
            "Every request with its answer, or what is missing of the two.",
            rowplots.bars(bars, class_="c0") if bars else None,
            Table(("Status", "Meaning", "Exchanges"), statuses, labels=2),
        ),
        Figure(
            "Files",
            "In the order given.",
            None,
            Table(("File", "Requests", "Whole", "Connections", "Begins", "Lasts"), files),
        ),
    ]
    return Section("capture", "The capture itself", "What was read, and how much of it could be.", figures)


def table(content: Table) -> Markup:
    """The table as HTML, in a place of its own that scrolls when it is too wide."""
    head = tag(
        "tr",
        *(tag("th", name, scope="col", class_=_cell_class(index, content)) for index, name in enumerate(content.head)),
    )
    rows = [
        tag("tr", *(tag("td", cell, class_=_cell_class(index, content)) for index, cell in enumerate(row)))
        for row in content.rows
    ]
    return tag("table", tag("thead", head), tag("tbody", *rows))


def _cell_class(index: int, content: Table) -> str | None:
    return None if index < content.labels else "number"
