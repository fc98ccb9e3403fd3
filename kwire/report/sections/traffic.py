"""Section: requests and errors over time."""

from __future__ import annotations

from kwire.report import formats
from kwire.report.model import Report, Timeline
from kwire.report.plots import stacked_columns
from kwire.report.sections.figures import Figure, Section, Table

ERROR_HEAD = ("Error", "API", "Partition", "File", "Times", "First", "Last", "Correlation id", "Packet")


def build_section(report: Report) -> Section:
    """The section on requests and errors over time."""
    figures = [counts_figure(report.traffic, "Requests", "By API", "API"), _error_figure(report)]
    return Section("time", "Traffic and errors over time", "Requests and errors over time.", figures, "Traffic")


def counts_figure(data: Timeline, title: str, note: str, head: str, *, value: str = "Requests") -> Figure:
    """A figure of counts over time, with their sums."""
    step = formats.span(data.step_us)
    rows = [(name, formats.count(sum(values)), formats.count(max(values))) for name, values in data.series.items()]
    plot = stacked_columns.plot_stacked_columns(data, title=f"{title} over time", colours="c") if data.total else None
    return Figure(title, f"{note}, in steps of {step}.", plot, Table((head, value, f"Most in {step}"), rows))


def _error_figure(report: Report) -> Figure:
    cells = [
        (
            formats.name_or_dash(row.error_name),
            row.api_name,
            formats.partition(row.topic, row.partition),
            formats.file(row.file),
            formats.count(row.failures),
            *map(formats.clock, (row.first_us, row.last_us)),
            *map(formats.number, (row.correlation_id, row.resp_packet)),
        )
        for row in report.error_rows
    ]
    data = report.errors
    plot = stacked_columns.plot_stacked_columns(data, title="Errors over time", colours="e") if data.total else None
    note = (
        "The error of every partition is counted; a response with an error outside partitions counts once. File, "
        "correlation id and packet are those of the first occurrence."
    )
    omitted = report.omitted.get("errors", 0)
    return Figure("Errors", note, plot, Table(ERROR_HEAD, cells, labels=4), is_wide=True, omitted=omitted)
