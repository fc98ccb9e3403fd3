"""What share groups were handed, how often, and what their members answered."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.spark import formats, rowplots, share_plot, spanplots
from kwire.spark.markup import Markup
from kwire.spark.model import Report
from kwire.spark.row_types import LifeRow, PoisonRow
from kwire.spark.sections.parts import Figure, Section, Table, named, plain
from kwire.spark.sections.traffic import counts

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
LIFE_CLASSES = {**ACK_CLASSES, "refused": "refused", "no word": "ack-open"}

COUNT_CLASSES = {
    **{f"{formats.ordinal(count)} delivery": f"d{count - 1}" for count in range(1, 6)},
    "later ones": "d5",
}

# Plots beyond these would only repeat what the tables say.
MEMBERS_MAX = 24
GROUPS_MAX = 12


def build(report: Report) -> Section:
    """Deliveries, outcomes, acknowledgements, and the records that nobody gets done with."""
    lead = "What the share groups were handed, how often, and what their members answered."
    if len(report.groups) > GROUPS_MAX:
        lead += f" Drawn are the {GROUPS_MAX} with the most redeliveries of {formats.count(len(report.groups))}."
    figures = [
        *_deliveries(report),
        *_over_time(report),
        *_states(report),
        _fates(report),
        _acks(report),
        *_poison(report),
    ]
    return Section("share-groups", "Share groups", lead, figures)


def _deliveries(report: Report) -> list[Figure]:
    shown = [row.group for row in report.groups][:GROUPS_MAX]
    rows = [(formats.name(group), _by_count(report.delivery_counts.get(group, {}))) for group in shown]
    cells = [
        (
            formats.name(row.topic),
            formats.name(row.group),
            str(row.partition),
            formats.count(row.records),
            formats.count(row.acquisitions),
            formats.count(row.redelivered),
            str(row.delivery_count_max),
        )
        for row in report.deliveries
    ]
    head = ("Topic", "Group", "Partition", "Records", "Handed out", "Redelivered", "Most often")
    note = "Hand-outs by the delivery count that they told; from the second on they are redeliveries."
    plot = rowplots.mix(rows, COUNT_CLASSES, noun="hand-out") if rows else None
    omitted = report.omitted.get("redeliveries", 0)
    return [Figure("Deliveries", note, plot, Table(head, cells, labels=2), is_wide=True, omitted=omitted)]


def _by_count(counts: Mapping[int, int]) -> dict[str, int]:
    names = list(COUNT_CLASSES)
    found = dict.fromkeys(names, 0)
    for count, records in counts.items():
        found[names[min(max(count, 1), len(names)) - 1]] += records
    return found


def _over_time(report: Report) -> list[Figure]:
    data = report.share_traffic
    if data is None or not data.total:
        return []
    note = "Records come again when they are released, when a lock runs out, when a member leaves; counted"
    return [counts(data, "Deliveries over time", note, "Handed out", value="Records")]


def _states(report: Report) -> list[Figure]:
    if not report.panels:
        return []
    cells = [
        (
            f"{formats.name(each.topic)}-{each.partition}",
            named(each.group),
            *(formats.count(value) for value in (each.begin, each.end, each.deliveries_max)),
            *(formats.count(value) for value in (each.transitions, each.inferred)),
        )
        for each in report.panels
    ]
    head = ("Partition", "Group", "First start", "Last start", "Deliveries", "Transitions", "Inferred")
    note = (
        "Above, the offsets from the start of each share partition to its end; below, the records between them: "
        "acquired by a member, available again, or acknowledged or archived behind one that is not. Rebuilt from the "
        f"traffic alone, at the end of each step of {formats.span(report.panels[0].step_us)}; pale is the most that "
        "was acquired within a step. Inferred is what no message says in so many words, as a lock that runs out."
    )
    seen = [each for each in report.panels if any(map(any, (*each.series.values(), each.peaks)))]
    plot = share_plot.multiples(seen) if seen else None
    return [Figure("State of share partitions", note, plot, Table(head, cells, labels=2), is_wide=True)]


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
        omitted=report.omitted.get("acknowledgements", 0),
    )


def _poison(report: Report) -> list[Figure]:
    if not report.poison:
        return []
    has_contents = any(row.value is not None for row in report.poison)
    cells = [
        (
            formats.name(row.topic or "?"),
            named(row.group_id),
            row.outcome,
            formats.file(row.file),
            *(_content(each) for each in ((row.key, row.value) if has_contents else ())),
            *(plain(value) for value in (row.partition, row.offset)),
            *(formats.count(value) for value in (row.delivery_count_max, row.members)),
            plain(row.resp_packet),
        )
        for row in report.poison
    ]
    contents = ("Key", "Value") if has_contents else ()
    head = ("Topic", "Group", "Outcome", "File", *contents, "Partition", "Offset", "Deliveries", "Members", "Packet")
    note = (
        "Given up, or handed out more than once; the worst come first. Each line of the plot is one record; a bar is "
        "one delivery, from acquisition to the member's word (or to the end of its lock), each member on a lane of its "
        "own. The packet is the one that handed it out last."
    )
    return [
        Figure(
            "Poison records, and others handed out again",
            note,
            _lives(report) if report.lives else None,
            Table(head, cells, labels=4 + len(contents)),
            is_wide=True,
            omitted=report.omitted.get("poison_records", 0),
        )
    ]


def _content(value: str | None) -> str:
    return "-" if value is None else formats.name(value)


def _lives(report: Report) -> Markup:
    by_record: dict[tuple[str | None, str | None, int, int], list[LifeRow]] = {}
    for row in report.lives:
        if row.acquired_us is not None:
            by_record.setdefault((row.group_id, row.topic, row.partition, row.offset), []).append(row)
    order = {(row.group_id, row.topic, row.partition, row.offset): row for row in report.poison}
    lines = [_line(order[key], by_record[key]) for key in order if key in by_record]
    return spanplots.spans(lines, LIFE_CLASSES)


def _line(record: PoisonRow, rows: list[LifeRow]) -> spanplots.Line:
    rows = sorted(rows, key=lambda row: row.acquired_us or 0)
    lanes = {member: lane for lane, member in enumerate(dict.fromkeys(row.member_id for row in rows))}
    starts = [row.acquired_us or 0 for row in rows]
    bars = []
    for index, row in enumerate(rows):
        start = starts[index]
        # Without a word the lock holds until its time is up, or until somebody else gets the record.
        lock_us = start + (row.lock_timeout_ms or 0) * 1000
        end = row.ack_us if row.ack_us is not None else min([lock_us, *starts[index + 1 :]])
        kind = "refused" if row.ack_error else row.ack_name or "no word"
        who = named(row.client_id or row.member_id)
        told = f"{formats.ordinal(row.delivery_count or 0)} delivery, to {who}: {row.ack_error or kind}"
        bars.append(spanplots.Bar(start, end, kind if kind in LIFE_CLASSES else "no word", told, lanes[row.member_id]))
    value = f"{formats.plural(len(rows), 'hand-out')}, {record.outcome}"
    return spanplots.Line(f"{formats.name(record.topic or '?')}-{record.partition} @ {record.offset}", value, bars)
