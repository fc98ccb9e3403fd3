"""The table of APIs: the handlers that it names exist and fit, as they are imported only by the first request."""

from __future__ import annotations

import typing

from kwire import registry, schema
from kwire.registry import response_class
from mockbroker.engine.context import Context
from mockbroker.engine.routes import Route
from mockbroker.handlers import ROUTES
from tests.support.cases import check_cases

#: The state RPCs have rows only, and their handlers put every refusal into the row it belongs to.
ROWS_ONLY = {83, 84, 85, 86, 87}


def test_the_table_is_in_api_key_order() -> None:
    assert list(ROUTES) == sorted(ROUTES)


def test_a_route_has_the_name_of_its_api_key() -> None:
    assert [registry.api_name(line.api_key) for line in ROUTES.values()] == [line.name for line in ROUTES.values()]


def test_a_handler_takes_the_request_of_its_api() -> None:
    def check(line: Route) -> None:
        hints = typing.get_type_hints(line.handler, localns={"Context": Context})
        parameters = [hint for name, hint in hints.items() if name != "return"]

        assert parameters == [line.request, Context]

    check_cases(ROUTES.values(), check)


def test_every_response_has_a_field_for_an_error() -> None:
    def check(line: Route) -> None:
        has_code = "error_code" in response_class(line.api_key).__struct_fields__

        assert has_code or line.refuse is not None or line.api_key in ROWS_ONLY

    check_cases(ROUTES.values(), check)


def test_the_served_versions_are_versions_of_kafka() -> None:
    def check(line: Route) -> None:
        known = schema.load_schema(f"{line.name}Request").versions

        assert line.versions[0] in known
        assert line.versions[1] in known
        assert line.listed[0] <= line.versions[0]
        assert line.listed[1] == line.versions[1]

    check_cases(ROUTES.values(), check)
