"""One line of the table of APIs: key, handler, versions; what it names is loaded when it is first asked for.

A client that only wants Metadata does not wait until the whole broker has been imported: see
docs/decisions/lazy-routes.md for what that is worth. `tests/mockbroker/test_routes.py` holds what mypy would have.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import msgspec

from kwire.registry import request_class
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome

Handler = Callable[[Any, Context], Outcome]
Refuser = Callable[[Any, KafkaError], msgspec.Struct]


class Route:
    """An API that the broker serves.

    versions: first and last version that is served. listed: the same as ApiVersions tells them, where Kafka lists
    more than it serves.
    """

    def __init__(
        self, api_key: int, name: str, place: str, versions: tuple[int, int], listed: tuple[int, int] | None
    ) -> None:
        self.api_key = api_key
        self.name = name
        self.versions = versions
        self.listed = listed or versions
        self.place = place
        self._module, _, self._function = place.partition(".")

    @cached_property
    def request(self) -> type[msgspec.Struct]:
        """The class of the request."""
        return request_class(self.api_key)

    @cached_property
    def handler(self) -> Handler:
        """The function that answers it, from a module of mockbroker/handlers."""
        return cast(Handler, getattr(self._load(), self._function))

    @cached_property
    def refuse(self) -> Refuser | None:
        """`refuse_` and the handler's name, beside it: builds the response that carries an error.

        None where the response has an error code at its top, which needs no building.
        """
        return cast("Refuser | None", getattr(self._load(), f"refuse_{self._function}", None))

    def arrived(self, request: msgspec.Struct, api_version: int) -> tuple[msgspec.Struct, int]:
        """What the handler takes for a request of the wire, and the version that it takes it for: just these.

        Other editions of KIP-932 speak otherwise (`mockbroker/editions`).
        """
        return request, api_version

    def departing(self, response: msgspec.Struct, request: msgspec.Struct) -> msgspec.Struct:
        """What goes over the wire for a handler's response; `request` is the one that came."""
        return response

    def _load(self) -> object:
        return importlib.import_module(f"mockbroker.handlers.{self._module}")


def route(
    api_key: int, name: str, place: str, *, versions: tuple[int, int], listed: tuple[int, int] | None = None
) -> Route:
    """A line of ROUTES; `place` is "module.function" below mockbroker/handlers."""
    return Route(api_key, name, place, versions, listed)
