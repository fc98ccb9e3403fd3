"""Route of one API in an edition: the edition's messages on the wire, the released ones in the handler.

Handlers are written once, for the messages of Apache Kafka 4.3.0. An `EditionRoute` translates an edition's request for
them, and their response back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from kwire.error_codes import ErrorCode
from kwire.registry import DEFAULT_EDITION, api_name, request_class
from mockbroker.config.releases import EDITION_RELEASE
from mockbroker.editions.listed_errors import replace_unlisted_errors
from mockbroker.editions.message_conversion import message_converter
from mockbroker.engine.routes import Route
from mockbroker.handlers import select_routes
from mockbroker.state.release import RELEASES

#: The APIs that the editions change: those of the release on which they stand.
EDITION_ROUTES = select_routes(RELEASES[EDITION_RELEASE].apis)

#: Translates a request of the wire for the handler.
RequestTranslator = Callable[[Any], Any]
#: Translates the handler's response for the wire; its second argument is the request of the wire.
ResponseTranslator = Callable[[Any, Any], Any]


class EditionRoute(Route):
    """A row of the table of APIs in another edition.

    released: the route of the default edition, whose handler is used unless `handler_path` names another. handled_as:
    the released version for each version of the edition. translate_request, translate_response: where the messages
    differ in more than names; None converts them field by field. errors: the codes of the edition, None for all.
    """

    is_translated = True

    def __init__(
        self,
        released: Route,
        edition: str,
        handled_as: Mapping[int, int],
        translate_request: RequestTranslator | None = None,
        translate_response: ResponseTranslator | None = None,
        *,
        errors: frozenset[ErrorCode] | None = None,
        handler_path: str | None = None,
    ) -> None:
        name = api_name(released.api_key, edition)
        versions = (min(handled_as), max(handled_as))
        super().__init__(released.api_key, name, handler_path or released.handler_path, versions, None)
        self.edition = edition
        self._released_name = released.name
        self._handled_as = handled_as
        self._translate_request = translate_request
        self._translate_response = translate_response
        self._errors = errors

    @cached_property
    def request(self) -> type[msgspec.Struct]:
        """The class of the request on the wire."""
        return request_class(self.api_key, self.edition)

    def to_handler(self, request: msgspec.Struct, api_version: int) -> tuple[msgspec.Struct, int]:
        """The request for the handler, and its released version."""
        name = f"{self._released_name}Request"
        translate = self._translate_request or message_converter(name, self.edition, DEFAULT_EDITION)
        return translate(request), self._handled_as[api_version]

    def to_wire(self, response: msgspec.Struct, request: msgspec.Struct) -> msgspec.Struct:
        """The response for the wire; `request` is the request of the wire."""
        translated: msgspec.Struct
        if self._translate_response is None:
            translated = message_converter(f"{self._released_name}Response", DEFAULT_EDITION, self.edition)(response)
        else:
            translated = self._translate_response(response, request)
        if self._errors is not None:
            replace_unlisted_errors(translated, self._errors)
        return translated
