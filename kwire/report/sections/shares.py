"""Section: share groups, their deliveries, outcomes and acknowledgements."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace

from kwire.report import formats
from kwire.report.colours import class_of
from kwire.report.markup import Markup
from kwire.report.model import Report
from kwire.report.plots import bars as rowplots
from kwire.report.plots import share_partitions, spans
from kwire.report.row_types import PoisonRow, RecordDeliveryRow
from kwire.report.sections.figures import Figure, Section, Table
from kwire.report.sections.traffic import counts_figure

ACK_CLASSES = {
    "accept": class_of("accepted"),
    "release": class_of("available"),
    "reject": class_of("rejected"),
    "renew": class_of("renewed"),
    "gap": class_of("gap"),
}
OUTCOME_CLASSES = {
    "accepted": class_of("accepted"),
    "released": class_of("available"),
    "rejected": class_of("rejected"),
    "exhausted": class_of("exhausted"),
    "open": class_of("not-acknowledged"),
    "gap": class_of("gap"),
}
REFUSED, NOT_ACKNOWLEDGED = "refused", "not acknowledged"
DELIVERY_CLASSES = {
    **ACK_CLASSES,
    REFUSED: class_of("failure"),
    NOT_ACKNOWLEDGED: class_of("not-acknowledged"),
}

COUNTS_MAX = 5
COUNT_CLASSES = {
    **{f"{formats.ordinal(count)} delivery": class_of(f"delivery-{count}") for count in range(1, COUNTS_MAX + 1)},
    "later deliveries": class_of(f"delivery-{COUNTS_MAX + 1}"),
}

DELIVERY_NOUNS = ("delivery", "deliveries")
POISON_NUMBERS = ("Partition", "Offset", "Deliveries", "Highest delivery count", "Members", "Packet")

# Limits of plots; the tables have the remaining rows.
MEMBERS_MAX = 24
GROUPS_MAX = 12


def build_section(report: Report) -> Section:
    """The section on share groups: deliveries, outcomes, acknowledgements, and poison records."""
    lead = "The records that were delivered to share groups, how often, and how members acknowledged them."
    if len(report.groups) > GROUPS_MAX:
        lead += f" Plotted: the {GROUPS_MAX} of {formats.count(len(report.groups))} groups with the most redeliveries."
    figures = [
        *_delivery_figures(report),
        *_timeline_figures(report),
        *_state_figures(report),
        _outcome_figure(report),
        _acknowledgement_figure(report),
        *_poison_figures(report),
        *_dead_letter_figures(report),
    ]
    return Section("share-groups", "Share groups", lead, figures)


def _delivery_figures(report: Report) -> list[Figure]:
    groups = [row.group for row in report.groups][:GROUPS_MAX]
    rows = [(formats.name(group), _by_count(report.delivery_counts.get(group, {}))) for group in groups]
    cells = [
        (
            *map(formats.name, (row.topic, row.group)),
            str(row.partition),
            *map(formats.count, (row.records, row.acquisitions, row.redelivered)),
            str(row.delivery_count_max),
        )
        for row in report.deliveries
    ]
    head = ("Topic", "Group", "Partition", "Records", "Deliveries", "Redelivered records", "Highest delivery count")
    note = (
        "A delivery is one acquisition of one record by a member. Deliveries are those in the capture, by the delivery "
        "count that the broker gave them; the count includes deliveries before the capture. A redelivered record was "
        "delivered more than once, or with a count above 1."
    )
    plot = rowplots.plot_stacked_bars(rows, COUNT_CLASSES, nouns=DELIVERY_NOUNS) if rows else None
    omitted = report.omitted.get("redeliveries", 0)
    return [Figure("Deliveries", note, plot, Table(head, cells, labels=2), is_wide=True, omitted=omitted)]


def _by_count(counts: Mapping[int, int]) -> dict[str, int]:
    deliveries = dict.fromkeys(COUNT_CLASSES, 0)
    for count, records in counts.items():
        deliveries[_count_name(count)] += records
    return deliveries


def _count_name(count: int) -> str:
    return list(COUNT_CLASSES)[min(max(count, 1), COUNTS_MAX + 1) - 1]


def _timeline_figures(report: Report) -> list[Figure]:
    data = report.share_traffic
    if data is None or not data.total:
        return []
    series: dict[str, list[int]] = {}
    for count in sorted(data.series, key=int):
        sums = series.setdefault(_count_name(int(count)), [0] * data.bins)
        sums[:] = map(operator.add, sums, data.series[count])
    note = "Records are delivered again after a release, an expired lock, or when a member leaves; by delivery count"
    head = ("Delivery count", "Deliveries")
    return [counts_figure(replace(data, series=series), COUNT_CLASSES, "Deliveries over time", note, head)]


def _state_figures(report: Report) -> list[Figure]:
    if not report.panels:
        return []
    cells = [
        (
            f"{formats.name(panel.topic)}-{panel.partition}",
            formats.name_or_dash(panel.group),
            *map(formats.count, (panel.begin, panel.end, panel.deliveries_max, panel.transitions, panel.inferred)),
        )
        for panel in report.panels
    ]
    head = ("Partition", "Group", "First start", "Last start", "Highest delivery count", "Transitions", "Inferred")
    note = (
        "Above, the offsets from the start of each share partition to its end; below, the records between them: "
        "acquired by a member, available again, or acknowledged or archived after one that is not. Reconstructed from "
        "the traffic, from the first transition to the last, at the end of each step of "
        f"{formats.span(report.panels[0].step_us)}; the pale area is the maximum acquired within a step. "
        "Inferred transitions are not in any message, as the expiry of a lock."
    )
    panels = [panel for panel in report.panels if any(map(any, (*panel.series.values(), panel.peaks)))]
    plot = share_partitions.plot_share_partitions(panels) if panels else None
    return [Figure("State of share partitions", note, plot, Table(head, cells, labels=2), is_wide=True)]


def _outcome_figure(report: Report) -> Figure:
    groups = [row.group for row in report.groups if row.group in report.outcomes][:GROUPS_MAX]
    rows = [(formats.name(group), report.outcomes[group]) for group in groups]
    cells = [(name, *(formats.count(counts.get(outcome, 0)) for outcome in OUTCOME_CLASSES)) for name, counts in rows]
    note = (
        "Each delivered record counts once, by its last acknowledgement. Exhausted: at the delivery limit (5 by "
        "default) and not accepted; open: not acknowledged after its last delivery, whether it is still acquired, or "
        "available again since its lock or session ended."
    )
    plot = rowplots.plot_stacked_bars(rows, OUTCOME_CLASSES) if rows else None
    head = ("Group", *map(str.capitalize, OUTCOME_CLASSES))
    return Figure("Outcomes of the records", note, plot, Table(head, cells))


def _acknowledgement_figure(report: Report) -> Figure:
    rows = [(formats.name(row.client or row.member), row.records) for row in report.acks if row.total]
    cells = [
        (
            *map(formats.name, (row.member, row.client, row.group)),
            *(formats.count(row.records.get(kind, 0)) for kind in ACK_CLASSES),
            formats.count(row.refused),
        )
        for row in report.acks
    ]
    table = Table(("Member", "Client", "Group", *map(str.capitalize, ACK_CLASSES), "Refused"), cells, labels=3)
    note = (
        "Records by type of acknowledgement; a record that is delivered again may be acknowledged again. Refused: "
        "records in acknowledgements that the broker did not accept, whether they were delivered to the member or not."
    )
    plot = rowplots.plot_stacked_bars(rows[:MEMBERS_MAX], ACK_CLASSES) if rows else None
    omitted = report.omitted.get("acknowledgements", 0)
    return Figure("Acknowledgements by member", note, plot, table, is_wide=True, omitted=omitted)


def _poison_figures(report: Report) -> list[Figure]:
    if not report.poison:
        return []
    has_contents = any(row.value is not None for row in report.poison)
    cells = [
        (
            formats.name(row.topic or "?"),
            formats.name_or_dash(row.group_id),
            row.outcome,
            formats.file(row.file),
            *(_content_cell(content) for content in ((row.key, row.value) if has_contents else ())),
            *map(formats.number, (row.partition, row.offset)),
            *map(formats.count, (row.deliveries, row.delivery_count_max, row.members)),
            formats.number(row.resp_packet),
        )
        for row in report.poison
    ]
    contents = ("Key", "Value") if has_contents else ()
    head = ("Topic", "Group", "Outcome", "File", *contents, *POISON_NUMBERS)
    note = (
        "Archived without being accepted, or delivered more than once; those with the highest delivery count come "
        "first. The count is the broker's, and may include deliveries before the capture. Each line of the plot is one "
        "record; a bar is one delivery, from acquisition to acknowledgement (or to the end of the lock or of the "
        "capture), with a row of bars for each member. The packet is that of the last delivery."
    )
    title = "Poison records, and other redelivered records"
    plot = _delivery_plot(report) if report.delivery_histories else None
    omitted = report.omitted.get("poison_records", 0)
    return [Figure(title, note, plot, Table(head, cells, labels=4 + len(contents)), is_wide=True, omitted=omitted)]


def _dead_letter_figures(report: Report) -> list[Figure]:
    if not report.dead_letters:
        return []
    cells = [
        (
            *map(formats.name_or_dash, (row.topic, row.group_id, row.queue, row.reason)),
            formats.count(row.records),
            *map(formats.number, (row.first_offset, row.last_offset, row.delivery_count_max)),
        )
        for row in report.dead_letters
    ]
    head = ("Topic", "Group", "Queue", "Reason", "Records", "First offset", "Last offset", "Highest delivery count")
    note = (
        "The records that went to a dead-letter queue, and why, by the headers of their dead letters, where the "
        "capture contains a Produce request to the queue or a fetch of it; each counts once."
    )
    omitted = report.omitted.get("dead_letters", 0)
    return [Figure("Dead letters", note, None, Table(head, cells, labels=4), is_wide=True, omitted=omitted)]


def _content_cell(value: str | None) -> str:
    return "-" if value is None else formats.name(value)


def _delivery_plot(report: Report) -> Markup:
    by_record: dict[tuple[str | None, str | None, int, int], list[RecordDeliveryRow]] = {}
    for row in report.delivery_histories:
        if row.acquired_us is not None:
            by_record.setdefault((row.group_id, row.topic, row.partition, row.offset), []).append(row)
    order = {(row.group_id, row.topic, row.partition, row.offset): row for row in report.poison}
    last_us = report.span_us[1] if report.span_us else None
    lines = [_delivery_line(order[key], by_record[key], last_us) for key in order if key in by_record]
    return spans.plot_spans(lines, DELIVERY_CLASSES)


def _delivery_line(record: PoisonRow, rows: list[RecordDeliveryRow], last_us: int | None) -> spans.Line:
    rows = sorted(rows, key=lambda row: row.acquired_us or 0)
    rows_of_members = {member: bar_row for bar_row, member in enumerate(dict.fromkeys(row.member_id for row in rows))}
    starts = [row.acquired_us or 0 for row in rows]
    bars = []
    for index, (start, row) in enumerate(zip(starts, rows, strict=True)):
        # Without an acknowledgement the lock lasts until its timeout, or until another member acquires the record; what
        # is after the capture is not shown.
        lock_us = start + (row.lock_timeout_ms or 0) * 1000
        end_us = lock_us if last_us is None else max(start, min(lock_us, last_us))
        end = row.ack_us if row.ack_us is not None else min([end_us, *starts[index + 1 :]])
        kind = REFUSED if row.ack_error else row.ack_name or NOT_ACKNOWLEDGED
        member = formats.name_or_dash(row.client_id or row.member_id)
        tooltip = f"{formats.ordinal(row.delivery_count or 0)} delivery, to {member}: {row.ack_error or kind}"
        known_kind = kind if kind in DELIVERY_CLASSES else NOT_ACKNOWLEDGED
        bars.append(spans.Bar(start, end, known_kind, tooltip, rows_of_members[row.member_id]))
    value = f"{formats.plural(record.deliveries, *DELIVERY_NOUNS)}, {record.outcome}"
    return spans.Line(f"{formats.name(record.topic or '?')}-{record.partition} @ {record.offset}", value, bars)
