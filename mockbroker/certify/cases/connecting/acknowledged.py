"""Producers whose requests are answered, and what answers have: for cases about answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kwire.registry import header_versions
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.handles import ProducerHandle
from mockbroker.certify.driver.settings import ProducerSettings
from mockbroker.journal import Exchange

#: The version of the request header in flexible versions of APIs (KIP-482).
_FLEXIBLE_HEADER = 2


def open_producer(run: CaseRun, name: str = "producer", **settings: object) -> ProducerHandle:
    """A producer with acks=all where its driver has the setting: some clients wait for no answers by default."""
    return run.producer(name, **acknowledged(run, **settings))


def acknowledged(run: CaseRun, **settings: object) -> ProducerSettings:
    """These settings with acks=all, where the driver has it."""
    acks = {"acks": "all"} if run.has_setting("acks") else {}
    return {**acks, **settings}  # type: ignore[typeddict-item]


def require_answers(run: CaseRun) -> None:
    """End the case if the client asked for no answers to its Produce requests. Raises: NotExercised."""
    produced = run.wire.requests("Produce")
    if produced and all(each.request.acks == 0 for each in produced):
        run.not_exercised("the client sends Produce with acks=0, which is not answered, and has no setting for it")


def require_flexible(run: CaseRun, apis: Iterable[str]) -> None:
    """End the case if no answer of these APIs had tagged fields, else note which had. Raises: NotExercised."""
    sent = [each for each in run.wire.requests() if each.api_name in apis]
    tagged = sorted({describe_version(each) for each in sent if _is_flexible(each)})
    if not tagged:
        versions = ", ".join(sorted({describe_version(each) for each in sent}))
        run.not_exercised(f"the client sends versions without tagged fields only: {versions or 'none of these APIs'}")
    run.note(f"tagged fields were sent in answers to {', '.join(tagged)}")


def describe_version(exchange: Exchange[Any, Any]) -> str:
    """The API and version of a request, as "Fetch 12"."""
    return f"{exchange.api_name} {exchange.api_version}"


def _is_flexible(exchange: Exchange[Any, Any]) -> bool:
    return header_versions(exchange.api_key, exchange.api_version)[0] >= _FLEXIBLE_HEADER
