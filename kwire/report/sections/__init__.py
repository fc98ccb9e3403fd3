"""The sections of the report: their plots and tables, in reading order."""

from __future__ import annotations

from kwire.report.model import Report
from kwire.report.sections import capture, clients, connections, groups, latency, locks, rules, shares, traffic
from kwire.report.sections.figures import Figure, Section, Table, render_table

__all__ = ["Figure", "Section", "Table", "build_sections", "render_table"]


def build_sections(report: Report) -> list[Section]:
    """All sections with content for this report."""
    page_sections = [latency.build_section(report), traffic.build_section(report)]
    if report.groups or report.acks:
        page_sections.append(shares.build_section(report))
    if report.lock_use:
        page_sections.append(locks.build_section(report))
    if report.client_rows:
        page_sections.append(clients.build_section(report))
    if report.connection_rows or report.requests_in_flight:
        page_sections.append(connections.build_section(report))
    if report.rebalances:
        page_sections.append(groups.build_section(report))
    return [*page_sections, rules.build_section(report), capture.build_section(report)]
