"""One line of the table of APIs: which request, which handler, which versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome

R = TypeVar("R", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Route:
    """An API that the broker serves.

    versions: first and last version that is served. listed: the same as ApiVersions tells them, where Kafka lists
    more than it serves. refuse: builds the response that carries an error, for APIs without a top-level code.
    """

    api_key: int
    name: str
    request: type[msgspec.Struct]
    handler: Callable[[Any, Context], Outcome]
    versions: tuple[int, int]
    listed: tuple[int, int]
    refuse: Callable[[Any, KafkaError], msgspec.Struct] | None


def route(
    request: type[R],
    handler: Callable[[R, Context], Outcome],
    *,
    versions: tuple[int, int],
    listed: tuple[int, int] | None = None,
    refuse: Callable[[R, KafkaError], msgspec.Struct] | None = None,
) -> Route:
    """A line of ROUTES. A handler of another request's type does not pass mypy."""
    name = request.__name__.removesuffix("Request")
    api_key: int = request.API_KEY  # type: ignore[attr-defined]  # Every generated request has one.
    return Route(api_key, name, request, handler, versions, listed or versions, refuse)
