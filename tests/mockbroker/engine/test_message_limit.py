"""Requests with the longest names: their echo in error messages fits into the response, or the connection is closed."""

from __future__ import annotations

import types
import typing
from typing import Any

import msgspec
import pytest

from kwire import headers
from kwire.errors import WireError
from kwire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from mockbroker.engine.message_limit import KEPT_BYTES, shorten_messages
from mockbroker.handlers import ROUTES
from tests.support.brokers.broker import Broker

LONGEST = 32_767


def fill(message_class: type[msgspec.Struct], text: str) -> msgspec.Struct:
    """A message whose texts are all this one, and whose arrays have one element."""
    hints = typing.get_type_hints(message_class)
    values = {field.name: make_value(hints[field.name], text) for field in msgspec.structs.fields(message_class)}
    return message_class(**{name: value for name, value in values.items() if value is not None})


def make_value(hint: Any, text: str) -> Any:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return make_value(next(one for one in arguments if one is not type(None)), text)
    if hint is str:
        return text
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return fill(hint, text)
    if typing.get_origin(hint) is list:
        return [make_value(arguments[0], text)]
    return (text,) if typing.get_origin(hint) is tuple and arguments[0] is str else None


def long_frames(api_key: int) -> list[bytes]:
    """Requests of the newest version that can be filled, with names of ASCII, of two bytes each, and of no UTF-8."""
    low, high = ROUTES[api_key].versions
    for version in range(high, low - 1, -1):
        try:
            frames = [
                headers.encode_request(fill(ROUTES[api_key].request, text), version, 1, "client")
                for text in ("x" * LONGEST, "é" * (LONGEST // 2))
            ]
        except WireError:
            continue
        return [*frames, frames[0].replace(b"x" * LONGEST, b"\xff" * LONGEST)]
    return []


@pytest.mark.parametrize("api_key", ROUTES, ids=lambda key: ROUTES[key].name)
def test_the_longest_names_are_no_internal_error(api_key: int) -> None:
    broker = Broker(topics={"t": 1})
    for number, frame in enumerate(long_frames(api_key)):
        broker.core.submit(broker.connect(str(number)), frame, broker.now_ms)
        broker.core.advance(broker.now_ms)
        broker.core.take_output()


def test_long_messages_are_shortened_wherever_they_are() -> None:
    response = DescribeGroupsResponse(
        groups=[DescribedGroup(error_message="é" * LONGEST), DescribedGroup(error_message="é" * (LONGEST // 2))]
    )

    assert shorten_messages(response)
    first, second = response.groups
    assert first.error_message == "é" * (KEPT_BYTES // 2) + "... (32,767 characters)"
    assert second.error_message == "é" * (LONGEST // 2)
    assert not shorten_messages(response)


def test_the_client_gets_the_error_of_a_long_name() -> None:
    from kwire.messages.describe_groups import DescribeGroupsRequest

    broker = Broker()
    answer = broker.call(DescribeGroupsRequest(groups=("x" * LONGEST,)), 6)

    assert answer.groups[0].error_code == 69
    assert answer.groups[0].error_message.endswith(" characters)")
    assert answer.groups[0].group_id == "x" * LONGEST


def test_a_response_that_cannot_be_encoded_closes_the_connection() -> None:
    """Bytes that are not UTF-8 become three bytes each; Kafka does not answer such a request either."""
    from kwire.messages.describe_groups import DescribeGroupsRequest

    broker = Broker()
    frame = headers.encode_request(DescribeGroupsRequest(groups=("x" * LONGEST,)), 6, 1, "client")
    broker.core.submit(broker.connect("a"), frame.replace(b"x" * LONGEST, b"\xff" * LONGEST), broker.now_ms)
    [close] = broker.core.take_output()

    assert "a response cannot be encoded: DescribeGroupsResponse.groups[0].group_id" in getattr(close, "reason", "")
