"""`Route`: one row of the table of APIs, with key, handler and versions; the handler is imported on first use.

A client that sends only Metadata requests does not wait until the whole broker has been imported: see
docs/decisions/lazy-routes.md for the measurements. `tests/mockbroker/engine/test_routes.py` checks the names.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kwire.registry import request_class
from mockbroker.config.keys import ConfigError
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.config.kafka_versions import ApiLimits

Handler = Callable[[Any, Context], Outcome]
Refuser = Callable[[Any, KafkaError], msgspec.Struct]
#: The first and the last version.
Versions = tuple[int, int]


class Route:
    """An API that the broker serves.

    is_translated: whether the messages of its handler are others, to which `to_handler` and `to_wire` convert.
    versions: first and last version that is served. listed: the range in ApiVersions, where Kafka lists more versions
    than it serves. unstable: the last version with `unstable.api.versions.enable`, where it is a later one.
    """

    is_translated = False

    def __init__(
        self,
        api_key: int,
        name: str,
        handler_path: str,
        versions: Versions,
        listed: Versions | None,
        *,
        unstable: int | None = None,
    ) -> None:
        self.api_key = api_key
        self.name = name
        self.versions = versions
        self.unstable = unstable
        self.listed = listed or versions
        self.handler_path = handler_path
        self._module, _, self._function = handler_path.rpartition(".")

    def limit(self, last_version: int) -> Route:
        """The route of a release that serves this API up to a version."""
        versions, listed = (self.versions[0], last_version), (self.listed[0], last_version)
        return Route(self.api_key, self.name, self.handler_path, versions, listed)

    def restrict(self, span: Versions | None) -> Route | None:
        """The route of an older broker, with no version outside this range; None if it serves none."""
        if span is None or span[0] > self.versions[1] or span[1] < self.versions[0]:
            return None
        if span[0] <= self.versions[0] and span[1] >= self.versions[1]:
            return self
        low, high = max(self.versions[0], span[0]), min(self.versions[1], span[1])
        restricted = copy.copy(self)
        restricted.versions = low, high
        restricted.listed = (self.listed[0] if low == self.versions[0] else low), high
        return restricted

    def with_unstable_version(self) -> Route:
        """The route of a broker with `unstable.api.versions.enable`."""
        return self if self.unstable is None else self.limit(self.unstable)

    @cached_property
    def request(self) -> type[msgspec.Struct]:
        """The class of the request."""
        return request_class(self.api_key)

    @cached_property
    def handler(self) -> Handler:
        """The handler function, from a module of mockbroker/handlers."""
        return cast(Handler, getattr(self._load_module(), self._function))

    @cached_property
    def refuse(self) -> Refuser | None:
        """The function that builds the response to an error: `refuse_` and the handler's name, in its module.

        None where the response has a top-level error code, which `build_error_response` sets.
        """
        return cast("Refuser | None", getattr(self._load_module(), f"refuse_{self._function}", None))

    def to_handler(self, request: msgspec.Struct, api_version: int) -> tuple[msgspec.Struct, int]:
        """Convert a received request to the request and version for the handler: here without a change.

        Other editions of KIP-932 override this (`mockbroker/editions`).
        """
        return request, api_version

    def to_wire(self, response: msgspec.Struct, request: msgspec.Struct) -> msgspec.Struct:
        """Convert a handler's response to the one that is sent; `request` is the received one."""
        return response

    def _load_module(self) -> object:
        return importlib.import_module(self._module)


def route(
    api_key: int,
    name: str,
    handler_path: str,
    *,
    versions: Versions,
    listed: Versions | None = None,
    unstable: int | None = None,
) -> Route:
    """A row of ROUTES; `handler_path` is "package.module.function" below mockbroker/handlers."""
    return Route(api_key, name, f"mockbroker.handlers.{handler_path}", versions, listed, unstable=unstable)


def limit_routes(routes: Mapping[int, Route], limits: ApiLimits) -> dict[int, Route]:
    """The routes of an older broker: APIs and versions outside of its limits are not served.

    Raises: ConfigError for a version of a single API below those that are served.
    """
    if not limits.is_complete:
        for key, (_, last) in limits.versions.items():
            if key in routes and 0 <= last < routes[key].versions[0]:
                low, high = routes[key].versions
                raise ConfigError(
                    f"versions: {routes[key].name}: {last} is not served, only {low} to {high}; -1 leaves the API out"
                )
    limited = {key: line.restrict(limits.range_of(key)) for key, line in routes.items()}
    return {key: line for key, line in limited.items() if line is not None}
