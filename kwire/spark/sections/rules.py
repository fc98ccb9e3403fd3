"""Where peers break the rules of the protocol."""

from __future__ import annotations

from kwire.spark import formats, rowplots
from kwire.spark.model import Report
from kwire.spark.sections.parts import Figure, Section, Table, clock, named, plain


def build(report: Report) -> Section:
    """How often each rule was broken, and where."""
    bars = [(row.rule, row.breaches) for row in report.rules]
    sums = [
        (
            row.rule,
            formats.count(row.breaches),
            formats.count(row.connections),
            clock(row.first_us),
            clock(row.last_us),
        )
        for row in report.rules
    ]
    cells = [
        (
            row.rule,
            row.detail if len(row.detail) <= 300 else f"{row.detail[:300]}…",
            named(row.api_name),
            named(row.client_id),
            formats.file(row.file),
            clock(row.ts_us),
            plain(row.correlation_id),
            plain(row.req_packet if row.req_packet is not None else row.resp_packet),
        )
        for row in report.breaches
    ]
    head = ("Rule", "What was seen", "API", "Client", "File", "At", "Correlation id", "Packet")
    note = (
        "Answers in the order of their requests; versions that the broker offers; sequence numbers of producers "
        "without a gap; checksums; tagged fields that are known; correlation ids that are free; acknowledgements "
        "within the lock."
    )
    figures = [
        Figure(
            "Rules broken",
            note,
            rowplots.bars(bars, class_="e0") if bars else None,
            Table(("Rule", "Times", "Connections", "First", "Last"), sums),
        )
    ]
    if cells:
        omitted = report.omitted.get("conformance", 0)
        told = "One row for each breach, rule by rule."
        figures.append(Figure("Where", told, None, Table(head, cells, labels=5), omitted=omitted))
    return Section("conformance", "Conformance", "Where peers break the rules of the protocol.", figures)
