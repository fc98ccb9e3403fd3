"""Responses of the API."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from mockbroker.control.problems import MEDIA_TYPE, Problem

#: Answers change with each request, and browsers must not guess their type.
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def json_response(body: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a body that msgspec encodes; None: without one."""
    if body is None:
        return Response(status_code=status, headers={**_HEADERS, **(headers or {})})
    data = msgspec.json.encode(body)
    return Response(data, status_code=status, headers={**_HEADERS, **(headers or {})}, media_type="application/json")


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The response of a problem."""
    data = msgspec.json.encode(problem)
    return Response(data, status_code=problem.status, headers={**_HEADERS, **(headers or {})}, media_type=MEDIA_TYPE)
