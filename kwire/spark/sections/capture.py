"""What was read, and how much of it could be."""

from __future__ import annotations

from kwire.spark import formats, rowplots
from kwire.spark.model import Report
from kwire.spark.sections.parts import Figure, Section, Table

STATUSES = {
    "ok": "request and answer whole and decoded, or no answer was wanted",
    "no_response": "no answer in the capture: the connection or the capture ended first, or the answer was lost",
    "no_request": "an answer whose request is not in the capture",
    "truncated": "the capture holds only the beginning of a frame",
    "gap": "packets in the middle of the frame are missing",
    "undecodable": "bytes that are not what the protocol says",
}


def build(report: Report) -> Section:
    """Exchanges by status, and the files."""
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
    return Section("capture", "The capture itself", "What was read, and how much of it could be.", figures, "Capture")
