"""How an edition speaks one API: its own messages on the wire, the released ones behind it.

Handlers are written once, for the messages of Apache Kafka 4.3.0. A dialect turns an edition's request into the one
that they take, and their response into the edition's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from kwire.error_codes import ErrorCode
from kwire.registry import DEFAULT_EDITION, api_name, request_class
from mockbroker.editions.listed_errors import limit_errors
from mockbroker.editions.recast import recast
from mockbroker.routes import Route

#: From a request of the wire to the one that the handler takes.
Arrive = Callable[[Any], Any]
#: From the handler's response to that of the wire; the request, as it came, says what was asked.
Depart = Callable[[Any, Any], Any]


class Dialect(Route):
    """A line of the table of APIs in another edition.

    released: the line of the default edition, whose handler answers, unless `place` names another. handled_as: by each
    version that the edition has, the released one as which the handler takes it. arrive, depart: where the messages
    differ in more than names; None recasts them field by field. errors: the codes that the edition lists, None for all.
    """

    def __init__(
        self,
        released: Route,
        edition: str,
        handled_as: Mapping[int, int],
        *,
        arrive: Arrive | None = None,
        depart: Depart | None = None,
        errors: frozenset[ErrorCode] | None = None,
        place: str | None = None,
    ) -> None:
        versions = (min(handled_as), max(handled_as))
        super().__init__(released.api_key, api_name(released.api_key, edition), place or released.place, versions, None)
        self.edition = edition
        self._released_name = released.name
        self._handled_as = handled_as
        self._arrive = arrive
        self._depart = depart
        self._errors = errors

    @cached_property
    def request(self) -> type[msgspec.Struct]:
        """The class of the request on the wire."""
        return request_class(self.api_key, self.edition)

    def arrived(self, request: msgspec.Struct, api_version: int) -> tuple[msgspec.Struct, int]:
        """What the handler takes for a request of the wire, and the version that it takes it for."""
        arrive = self._arrive or recast(f"{self._released_name}Request", self.edition, DEFAULT_EDITION)
        return arrive(request), self._handled_as[api_version]

    def departing(self, response: msgspec.Struct, request: msgspec.Struct) -> msgspec.Struct:
        """What goes over the wire for a handler's response; `request` is the one that came."""
        departed: msgspec.Struct
        if self._depart is None:
            departed = recast(f"{self._released_name}Response", DEFAULT_EDITION, self.edition)(response)
        else:
            departed = self._depart(response, request)
        if self._errors is not None:
            limit_errors(departed, self._errors)
        return departed
