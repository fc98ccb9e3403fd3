"""Whether answers had tagged fields: only flexible versions of APIs have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kwire.registry import header_versions
from mockbroker.certify.case_run import CaseRun
from mockbroker.journal import Exchange

#: The version of the request header in flexible versions of APIs (KIP-482).
_FLEXIBLE_HEADER = 2


def require_flexible(run: CaseRun, apis: Iterable[str]) -> None:
    """End the case if no answer of these APIs had tagged fields, else note which had. Raises: NotExercised."""
    sent = [each for each in run.wire.requests() if each.api_name in apis]
    tagged = sorted({_describe_version(each) for each in sent if _is_flexible(each)})
    if not tagged:
        versions = ", ".join(sorted({_describe_version(each) for each in sent}))
        run.not_exercised(f"the client sends versions without tagged fields only: {versions or 'none of these APIs'}")
    run.note(f"tagged fields were sent in answers to {', '.join(tagged)}")


def _describe_version(exchange: Exchange[Any, Any]) -> str:
    """The API and version of a request, as "Fetch 12"."""
    return f"{exchange.api_name} {exchange.api_version}"


def _is_flexible(exchange: Exchange[Any, Any]) -> bool:
    return header_versions(exchange.api_key, exchange.api_version)[0] >= _FLEXIBLE_HEADER
