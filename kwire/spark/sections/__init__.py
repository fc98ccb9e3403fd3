"""The sections of the report: which plot and which table tell what, in reading order."""

from __future__ import annotations

from kwire.spark.model import Report
from kwire.spark.sections import capture, clients, connections, groups, latency, locks, rules, shares, traffic
from kwire.spark.sections.parts import Figure, Section, Table, table

__all__ = ["Figure", "Section", "Table", "build", "table"]


def build(report: Report) -> list[Section]:
    """All sections that this report has something to say in."""
    found = [latency.build(report), traffic.build(report)]
    if report.groups or report.acks:
        found.append(shares.build(report))
    if report.lock_use:
        found.append(locks.build(report))
    if report.client_rows:
        found.append(clients.build(report))
    if report.connection_rows or report.depth:
        found.append(connections.build(report))
    if report.rebalances:
        found.append(groups.build(report))
    return [*found, rules.build(report), capture.build(report)]
