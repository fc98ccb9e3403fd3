"""Section: the capture files, and how completely they could be read."""

from __future__ import annotations

from kwire.report import formats
from kwire.report.colours import class_of
from kwire.report.model import Report
from kwire.report.plots import bars as rowplots
from kwire.report.sections.figures import Figure, Section, Table

STATUSES = {
    "ok": "request and response complete and decoded, or no response was expected",
    "no_response": "no response in the capture: the connection or the capture ended first, or the response was lost",
    "no_request": "a response whose request is not in the capture",
    "truncated": "the capture has only the beginning of a frame",
    "gap": "packets in the middle of the frame are missing",
    "undecodable": "bytes that do not follow the protocol",
}


def build_section(report: Report) -> Section:
    """The section on the capture: exchanges by status, and the files."""
    counts = sorted(report.statuses.items(), key=lambda item: -item[1])
    bars = [(status.replace("_", " "), count) for status, count in counts]
    statuses = [(status.replace("_", " "), STATUSES.get(status, ""), formats.count(count)) for status, count in counts]
    files = [
        (
            formats.path(row.name),
            *map(formats.count, (row.requests, row.ok, row.connections)),
            formats.moment(row.first_us),
            formats.span(row.length_us),
        )
        for row in report.files
    ]
    note = "Every request with its response, or which of the two is missing."
    plot = rowplots.plot_bars(bars, class_=class_of("amount")) if bars else None
    file_table = Table(("File", "Requests", "Complete", "Connections", "Begins", "Lasts"), files)
    figures = [
        Figure("Exchanges", note, plot, Table(("Status", "Meaning", "Exchanges"), statuses, labels=2)),
        Figure("Files", "In the order given.", None, file_table),
    ]
    lead = "The files, and how completely they could be read."
    return Section("capture", "The capture itself", lead, figures, "Capture")
