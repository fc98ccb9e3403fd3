"""Section: groups and their members over time."""

from __future__ import annotations

from kwire.report import formats
from kwire.report.colours import class_of
from kwire.report.markup import Markup
from kwire.report.model import Report
from kwire.report.plots import spans
from kwire.report.plots.spans import Bar, Line
from kwire.report.row_types import StepRow
from kwire.report.sections.figures import Figure, Section, Table

CLASSES = {
    "joining": class_of("joining"),
    "syncing": class_of("syncing"),
    "member, odd epoch": class_of("member-odd"),
    "member, even epoch": class_of("member-even"),
    "error": class_of("failure"),
    "left": class_of("left"),
}
GROUPS_MAX = 8
MEMBERS_MAX = 24
STEPS_MAX = 100


def build_section(report: Report) -> Section:
    """The section on groups: the members of each as a Gantt chart, and the cost of rebalances."""
    figures = [_overview_figure(report)]
    for row in report.rebalances[:GROUPS_MAX]:
        steps = [step for step in report.steps if step.group_id == row.group_id]
        if steps:
            figures.append(_group_figure(f"{row.kind} group {formats.name_or_dash(row.group_id)}", steps))
    lead = "When members joined, at which epoch or generation, and with which errors."
    return Section("groups", "Groups and rebalances", lead, figures, "Groups")


def _overview_figure(report: Report) -> Figure:
    cells = [
        (
            formats.name_or_dash(row.group_id),
            row.kind,
            *map(formats.count, (row.members, row.epochs, row.left, row.errors)),
            formats.span(row.waited_us),
        )
        for row in report.rebalances
    ]
    head = ("Group", "Kind", "Members", "Different epochs", "Left", "Errors", "Joining and syncing")
    note = "Epochs are member epochs, or generations of classic groups. The time is the sum over all members."
    omitted = report.omitted.get("rebalances", 0)
    return Figure("Groups", note, None, Table(head, cells, labels=2), omitted=omitted)


def _group_figure(title: str, steps: list[StepRow]) -> Figure:
    cells = [
        (
            formats.name_or_dash(step.member_id),
            step.state,
            formats.name_or_dash(step.error_name),
            formats.file(step.file),
            formats.number(step.epoch),
            formats.clock(step.first_us),
            formats.span(step.last_us - step.first_us),
            *map(formats.number, (step.correlation_id, step.req_packet)),
        )
        for step in steps[:STEPS_MAX]
    ]
    head = ("Member", "Step", "Error", "File", "Epoch", "From", "Lasts", "Correlation id", "Packet")
    note = "A line for each member; the number on a bar is its epoch. Heartbeats without a change are omitted."
    omitted = len(steps[STEPS_MAX:])
    return Figure(title, note, _gantt_plot(steps), Table(head, cells, labels=4), is_wide=True, omitted=omitted)


def _gantt_plot(steps: list[StepRow]) -> Markup:
    members: dict[str, list[StepRow]] = {}
    for step in steps:
        members.setdefault(step.member_id, []).append(step)
    lines = []
    for member, member_steps in list(members.items())[:MEMBERS_MAX]:
        client = next((step.client_id for step in member_steps if step.client_id), None)
        errors = sum(step.state == "error" for step in member_steps)
        epochs = [step.epoch for step in member_steps if step.epoch is not None]
        value = f"epoch {epochs[-1]}" if epochs else "never a member"
        if errors:
            value += f", {formats.plural(errors, 'error')}"
        lines.append(Line(formats.name_or_dash(client or member), value, [_step_bar(step) for step in member_steps]))
    return spans.plot_spans(lines, CLASSES)


def _step_bar(step: StepRow) -> Bar:
    kind, description = step.state, step.error_name or step.state
    if step.state == "member":
        kind = "member, odd epoch" if (step.epoch or 0) % 2 else "member, even epoch"
        description = description if step.epoch is None else f"member at epoch {step.epoch}"
    text = "" if step.epoch is None else str(step.epoch)
    return Bar(step.first_us, step.last_us, kind, f"{description}, from {formats.clock(step.first_us)}", text=text)
