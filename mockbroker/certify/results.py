"""The values of results.json, version 1, and of the file of each result with its calls and exchanges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from kwire.escape import one_line
from mockbroker.certify.case import TIMEOUT_S, Case
from mockbroker.certify.verdicts import WORST_FIRST, Verdict

#: The version of the format.
FORMAT = 1


class DriverRecord(msgspec.Struct, kw_only=True):
    """A driver of the run. error: why it could not be used; then it has no results."""

    command: str
    name: str = ""
    version: str = ""
    language: str = ""
    capabilities: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    error: str | None = None

    @property
    def label(self) -> str:
        """Name and version, or the command of a driver that did not say them; printable, on one line."""
        return one_line(f"{self.name} {self.version}" if self.name else self.command)


class CaseRecord(msgspec.Struct, kw_only=True):
    """A case of the run, without its function. needs, settings_needed: capabilities and settings of the driver."""

    id: str
    family: str
    title: str
    level: str
    rule: str
    source: dict[str, str]
    broker: str
    needs: tuple[str, ...]
    settings_needed: tuple[str, ...] = ()
    timeout_s: float = TIMEOUT_S


class ResultRecord(msgspec.Struct, kw_only=True):
    """A result. driver: index into `drivers`; deciding: numbers of exchanges in `details`.

    details, log, capture: paths relative to results.json; capture is None if none was kept.
    verdicts: of each time that the case was played, if that was several times; the other fields are of the worst one.
    duration_ms: of all times.
    """

    driver: int
    case: str
    verdict: Verdict
    duration_ms: int
    expected: str = ""
    seen: str = ""
    notes: list[str] = []
    deciding: tuple[int, ...] = ()
    details: str | None = None
    log: str | None = None
    capture: str | None = None
    verdicts: tuple[Verdict, ...] = ()

    @property
    def instability(self) -> str | None:
        """The verdicts with their numbers, if they differ: "unstable: OK 4, FAILED 1"."""
        counts = Counter(self.verdicts)
        if len(counts) < 2:
            return None
        return f"unstable: {', '.join(f'{verdict} {counts[verdict]}' for verdict in Verdict if verdict in counts)}"


class ExchangeRecord(msgspec.Struct, kw_only=True):
    """An exchange of a result. at_ms, answered_ms: since the case began, by the wall clock.

    clock_ms: since the case began, by the cluster's clock. packet: of the request in the capture, from 1.
    request, response: in Kafka's JSON form, without records and secrets. closed: why the connection ended.
    """

    number: int
    at_ms: float
    answered_ms: float | None
    clock_ms: int
    node: int
    connection: int
    client_id: str | None
    api: str
    version: int
    correlation_id: int
    packet: int | None
    summary: str
    error: str | None
    faults: tuple[str, ...]
    closed: str | None
    request: Any
    response: Any


class CallRecord(msgspec.Struct, kw_only=True):
    """A call of the driver. driver: 0, or the number of a second process; params, result: long texts are cut."""

    at_ms: float
    answered_ms: float
    driver: int
    method: str
    params: Any
    result: Any = None
    error: Any = None


class DecodedRecord(msgspec.Struct, kw_only=True):
    """A deciding exchange with the bytes of every field, as lines of text; secrets are ***."""

    number: int
    title: str
    request: str | None
    response: str | None


class Details(msgspec.Struct, kw_only=True):
    """The file of a result. decoded: the deciding exchanges."""

    calls: list[CallRecord] = []
    exchanges: list[ExchangeRecord] = []
    decoded: list[DecodedRecord] = []


class RunRecord(msgspec.Struct, kw_only=True):
    """results.json. started: in ISO 8601, UTC. repeat: how often each case was played."""

    seed: int
    release: str
    started: str
    drivers: list[DriverRecord]
    cases: list[CaseRecord]
    results: list[ResultRecord]
    format: int = FORMAT
    kafka: str | None = None
    repeat: int = 1


def worst_result(results: Sequence[ResultRecord]) -> ResultRecord:
    """The results of a case that was played several times as one: the worst one, with the verdicts of all."""
    worst = min(results, key=lambda result: WORST_FIRST.index(result.verdict))
    return msgspec.structs.replace(
        worst,
        verdicts=tuple(result.verdict for result in results),
        duration_ms=sum(result.duration_ms for result in results),
    )


def case_record(case: Case) -> CaseRecord:
    """A case for results.json."""
    source = {"document": case.source.document, "section": case.source.section, "contract": case.source.contract}
    return CaseRecord(
        id=case.id,
        family=case.family,
        title=case.title,
        level=case.level.value,
        rule=case.rule,
        source=source,
        broker=case.broker,
        needs=case.needs,
        settings_needed=case.settings_needed,
        timeout_s=case.timeout_s,
    )
