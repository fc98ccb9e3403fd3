"""Section: breaches of the protocol's rules."""

from __future__ import annotations

from kwire.report import formats
from kwire.report.colours import class_of
from kwire.report.model import Report
from kwire.report.plots import bars as rowplots
from kwire.report.sections.figures import Figure, Section, Table


def build_section(report: Report) -> Section:
    """The section on conformance: how often each rule was broken, and where."""
    bars = [(row.rule, row.breaches) for row in report.rules]
    sums = [
        (
            row.rule,
            *map(formats.count, (row.breaches, row.connections)),
            *map(formats.clock, (row.first_us, row.last_us)),
        )
        for row in report.rules
    ]
    cells = [
        (
            row.rule,
            row.detail if len(row.detail) <= 300 else f"{row.detail[:300]}…",
            *map(formats.name_or_dash, (row.api_name, row.client_id)),
            formats.file(row.file),
            formats.clock(row.ts_us),
            *map(formats.number, (row.correlation_id, row.resp_packet if row.req_packet is None else row.req_packet)),
        )
        for row in report.breaches
    ]
    head = ("Rule", "Detail", "API", "Client", "File", "At", "Correlation id", "Packet")
    note = (
        "Checked: responses in the order of their requests; versions that the broker offers; sequence numbers of "
        "producers without gaps; checksums; known tagged fields; unique correlation ids; acknowledgements within the "
        "lock. A range of records that are acknowledged together too late is one breach. In captures of up to 16 MiB "
        "clients are checked by all rules of kwire conformance but those of level info."
    )
    plot = rowplots.plot_bars(bars, class_=class_of("failure")) if bars else None
    figures = [Figure("Rules broken", note, plot, Table(("Rule", "Breaches", "Connections", "First", "Last"), sums))]
    if cells:
        omitted = report.omitted.get("conformance", 0)
        breach_note = "One row for each breach, rule by rule."
        figures.append(Figure("Where", breach_note, None, Table(head, cells, labels=5), omitted=omitted))
    return Section("conformance", "Conformance", "Breaches of the protocol's rules by clients and brokers.", figures)
