"""Groups and their members over time."""

from __future__ import annotations

from kwire.spark import formats, spanplots
from kwire.spark.markup import Markup
from kwire.spark.model import Report
from kwire.spark.row_types import StepRow
from kwire.spark.sections.parts import Figure, Section, Table, clock, named, plain
from kwire.spark.spanplots import Bar, Line

CLASSES = {
    "joining": "c1",
    "syncing": "c3",
    "member, odd epoch": "c0",
    "member, even epoch": "c2",
    "error": "e0",
    "left": "c4",
}
GROUPS_MAX = 8
MEMBERS_MAX = 24
STEPS_MAX = 100


def build(report: Report) -> Section:
    """Each group's members as a Gantt chart, and what it cost to get them together."""
    figures = [_overview(report)]
    for row in report.rebalances[:GROUPS_MAX]:
        steps = [step for step in report.steps if step.group_id == row.group_id]
        if steps:
            figures.append(_group(f"{row.kind} group {named(row.group_id)}", steps))
    lead = "Who joined when, at which epoch or generation, and what went wrong on the way."
    return Section("groups", "Groups and rebalances", lead, figures, "Groups")


def _overview(report: Report) -> Figure:
    cells = [
        (
            named(row.group_id),
            row.kind,
            *(formats.count(value) for value in (row.members, row.epochs, row.left, row.errors)),
            formats.span(row.waited_us),
        )
        for row in report.rebalances
    ]
    head = ("Group", "Kind", "Members", "Epochs", "Left", "Errors", "Joining and syncing")
    note = "Epochs are member epochs, or generations of classic groups. The time is that of all members together."
    omitted = report.omitted.get("rebalances", 0)
    return Figure("Groups", note, None, Table(head, cells, labels=2), omitted=omitted)


def _group(title: str, steps: list[StepRow]) -> Figure:
    cells = [
        (
            named(step.member_id),
            step.state,
            named(step.error_name),
            formats.file(step.file),
            plain(step.epoch),
            clock(step.first_us),
            formats.span(step.last_us - step.first_us),
            plain(step.correlation_id),
            plain(step.req_packet),
        )
        for step in steps[:STEPS_MAX]
    ]
    head = ("Member", "Step", "Error", "File", "Epoch", "From", "Lasts", "Correlation id", "Packet")
    note = "A line for each member; the number on a bar is its epoch. Heartbeats that change nothing are left out."
    omitted = len(steps[STEPS_MAX:])
    return Figure(title, note, _gantt(steps), Table(head, cells, labels=4), is_wide=True, omitted=omitted)


def _gantt(steps: list[StepRow]) -> Markup:
    members: dict[str, list[StepRow]] = {}
    for step in steps:
        members.setdefault(step.member_id, []).append(step)
    lines = []
    for member, found in list(members.items())[:MEMBERS_MAX]:
        client = next((step.client_id for step in found if step.client_id), None)
        errors = sum(step.state == "error" for step in found)
        epochs = [step.epoch for step in found if step.epoch is not None]
        value = f"epoch {epochs[-1]}" if epochs else "never a member"
        if errors:
            value += f", {formats.plural(errors, 'error')}"
        lines.append(Line(named(client or member), value, [_bar(step) for step in found]))
    return spanplots.spans(lines, CLASSES)


def _bar(step: StepRow) -> Bar:
    kind, told = step.state, step.error_name or step.state
    if step.state == "member" and step.epoch is not None:
        kind = "member, odd epoch" if step.epoch % 2 else "member, even epoch"
        told = f"member at epoch {step.epoch}"
    elif step.state == "member":
        kind = "member, even epoch"
    word = "" if step.epoch is None else str(step.epoch)
    return Bar(step.first_us, step.last_us, kind, f"{told}, from {formats.clock(step.first_us)}", word=word)
