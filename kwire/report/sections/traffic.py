"""Section: requests and errors over time."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.report import formats
from kwire.report.colours import rank_classes
from kwire.report.markup import Markup
from kwire.report.model import Report, Timeline
from kwire.report.plots import stacked_columns
from kwire.report.sections.figures import Figure, Section, Table

ERROR_HEAD = ("Error", "API", "Partition", "File", "Errors", "First", "Last", "Correlation id", "Packet")


def build_section(report: Report) -> Section:
    """The section on requests and errors over time."""
    figures = [ranked_figure(report.traffic), _error_figure(report)]
    return Section("time", "Traffic and errors over time", "Requests and errors over time.", figures, "Traffic")


def ranked_figure(data: Timeline) -> Figure:
    """The figure of requests over time by API, with colours by rank."""
    return counts_figure(data, _rank_classes(data, "api"), "Requests", "By API", ("API", "Requests"))


def _rank_classes(data: Timeline, family: str) -> dict[str, str]:
    return rank_classes(stacked_columns.group_small_series(data).series, family, others=stacked_columns.OTHERS)


def counts_figure(data: Timeline, classes: Mapping[str, str], title: str, note: str, head: tuple[str, str]) -> Figure:
    """A figure of counts over time, with their sums. Args: classes: by series, or by ranked series with `others`."""
    step = formats.span(data.step_us)
    rows = [(name, formats.count(sum(values)), formats.count(max(values))) for name, values in data.series.items()]
    plot = _plot(data, classes, title) if data.total else None
    return Figure(title, f"{note}, in steps of {step}.", plot, Table((*head, f"Most in {step}"), rows))


def _plot(data: Timeline, classes: Mapping[str, str], title: str) -> Markup:
    return stacked_columns.plot_stacked_columns(
        stacked_columns.group_small_series(data), classes, title=f"{title} over time"
    )


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
    plot = _plot(data, _rank_classes(data, "error"), "Errors") if data.total else None
    note = (
        "The error of every partition is counted; a response with an error outside partitions counts once. File, "
        "correlation id and packet are those of the first occurrence."
    )
    omitted = report.omitted.get("errors", 0)
    return Figure("Errors", note, plot, Table(ERROR_HEAD, cells, labels=4), is_wide=True, omitted=omitted)
