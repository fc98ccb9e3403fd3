"""Reading as an application does that polls again after an error, and which errors brokers can give to a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import ConsumerHandle
from mockbroker.certify.driver.messages import ConsumedRecord, ErrorInfo
from mockbroker.cluster_methods.waiting import WaitTimeout
from mockbroker.journal import Exchange

_POLL_MS = 300


class Reading(NamedTuple):
    """What polls returned in order: records, and errors that the application saw."""

    records: list[ConsumedRecord]
    errors: list[ErrorInfo]

    @property
    def values(self) -> list[str | None]:
        """The values of the records."""
        return [record.value for record in self.records]

    def extend(self, later: Reading) -> None:
        """Add what was read later."""
        self.records.extend(later.records)
        self.errors.extend(later.errors)


def read_until(
    run: CaseRun, consumer: ConsumerHandle, is_enough: Callable[[Reading], object], *, timeout_s: float = 10.0
) -> Reading:
    """Poll until a condition on what was read is true, also after errors. Returns: what was read until the time limit.

    Raises: ClientError only for a method that the driver lacks.
    """
    reading = Reading([], [])

    def poll() -> bool:
        try:
            reading.records.extend(consumer.poll(timeout_ms=_POLL_MS).records)
        except ClientError as error:
            if error.name == "LOCAL_UNSUPPORTED":
                raise
            reading.errors.append(error.info)
        return bool(is_enough(reading))

    with suppress(WaitTimeout):
        run.wire.wait_until(poll, timeout_s=timeout_s)
    for name, count in Counter(error.name for error in reading.errors).items():
        run.note(f"polls report {name}, {count} of them")
    return reading


def read_count(run: CaseRun, consumer: ConsumerHandle, count: int) -> Reading:
    """Poll until so many records have come, also after errors. Returns, raises: as `read_until`."""
    return read_until(run, consumer, lambda reading: len(reading.records) >= count)


def has_leader_epoch(exchange: Exchange[Any, Any]) -> bool:
    """Whether a Fetch or ListOffsets request names a leader epoch, which the broker compares with its own."""
    partitions = (each for topic in exchange.request.topics for each in topic.partitions)
    return any(each.current_leader_epoch >= 0 for each in partitions)


def explain_impossible(sent: Exchange[Any, Any], error: str, *, first_version: int, with_epoch: bool) -> str | None:
    """Why no broker gives this error to a request; None if one can. Arguments: as those of `require_possible`."""
    request = f"{sent.api_name} {sent.api_version}"
    if sent.api_version < first_version:
        return f"the client sends {request}: brokers answer with {error} from version {first_version} on"
    if with_epoch and not has_leader_epoch(sent):
        return f"the client names no leader epoch in {request}: brokers do not answer with {error} then"
    return None


def require_possible(
    run: CaseRun, sent: Exchange[Any, Any], error: str, *, first_version: int = 0, with_epoch: bool = False
) -> None:
    """End the case if no broker gives this error to a request.

    first_version: of the API in which brokers give it. with_epoch: they give it where the request has a leader epoch.
    Raises: NotExercised.
    """
    why = explain_impossible(sent, error, first_version=first_version, with_epoch=with_epoch)
    if why is not None:
        run.not_exercised(why)
