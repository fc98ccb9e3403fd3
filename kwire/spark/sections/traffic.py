"""When things happened, and when they went wrong."""

from __future__ import annotations

from kwire.spark import formats, timeplot
from kwire.spark.model import Report, Timeline
from kwire.spark.sections.parts import Figure, Section, Table, clock, named, place, plain

ERROR_HEAD = ("Error", "API", "Partition", "File", "Times", "First", "Last", "Correlation id", "Packet")


def build(report: Report) -> Section:
    """Requests and errors over time."""
    figures = [counts(report.traffic, "Requests", "By API", "API"), _errors(report)]
    lead = "When things happened, and when they went wrong."
    return Section("time", "Traffic and errors over time", lead, figures, "Traffic")


def counts(data: Timeline, title: str, note: str, head: str, *, value: str = "Requests") -> Figure:
    """Counts over time, with their sums."""
    step = formats.span(data.step_us)
    rows = [(name, formats.count(sum(values)), formats.count(max(values))) for name, values in data.series.items()]
    plot = timeplot.columns(data, title=f"{title} over time", colours="c") if data.total else None
    return Figure(title, f"{note}, in steps of {step}.", plot, Table((head, value, f"Most in {step}"), rows))


def _errors(report: Report) -> Figure:
    cells = [
        (
            named(row.error_name),
            row.api_name,
            place(row.topic, row.partition),
            formats.file(row.file),
            formats.count(row.failures),
            clock(row.first_us),
            clock(row.last_us),
            plain(row.correlation_id),
            plain(row.resp_packet),
        )
        for row in report.error_rows
    ]
    data = report.errors
    plot = timeplot.columns(data, title="Errors over time", colours="e") if data.total else None
    note = (
        "Every partition's error counts; a response with an error outside its partitions counts once. File, "
        "correlation id and packet are those of the first time."
    )
    omitted = report.omitted.get("errors", 0)
    return Figure("Errors", note, plot, Table(ERROR_HEAD, cells, labels=4), is_wide=True, omitted=omitted)
