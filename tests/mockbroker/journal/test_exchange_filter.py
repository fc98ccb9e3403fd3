"""Conditions on exchanges of any API."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from mockbroker.journal import Exchange
from mockbroker.journal.exchange_filter import ExchangeFilter

PAGE = Path(__file__).parents[3] / "docs" / "live-page.md"


def exchange(**fields: Any) -> Exchange:
    """A ShareFetch that was answered after 30 ms."""
    request = ShareFetchRequest(group_id="g", member_id="m")
    whole = {
        "number": 1,
        "node_id": 0,
        "connection_id": 1,
        "client": "127.0.0.1:5",
        "api_key": 78,
        "api_name": "ShareFetch",
        "api_version": 2,
        "correlation_id": 9,
        "client_id": "a",
        "arrived_ms": 1_000,
        "answered_ms": 1_030,
        "request": request,
        "response": ShareFetchResponse(error_code=122),
        **fields,
    }
    return Exchange(**whole)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("api=ShareFetch and api=78", True),
        ("error=SHARE_SESSION_NOT_FOUND and error=122 and error!=0", True),
        ("error=0", False),
        ("latency=30ms and latency>=0.03s and latency<31ms", True),
        ("group=g and member=m and user=ANONYMOUS and client ~ ^a", True),
        ("fault=null and closed=null", True),
        ("topic=orders or partition=0", False),
    ],
)
def test_a_condition_reads_the_fields_of_an_exchange(text: str, holds: bool) -> None:
    assert ExchangeFilter(text, None, {}).matches(exchange()) is holds


def test_a_request_that_waits_has_neither_latency_nor_error() -> None:
    waiting = exchange(answered_ms=None, response=None)

    for text in ("latency>=0", "error=0", "error!=0", "resp_bytes>=0"):
        assert not ExchangeFilter(text, None, {}).matches(waiting), text


def test_with_an_api_fields_of_its_request_are_added() -> None:
    both = ExchangeFilter("max_records=0 and latency>20ms", "ShareFetch", {})

    assert both.matches(exchange())
    assert not both.matches(exchange(request=None))
    with pytest.raises(ValueError, match="'max_records' is no field of exchanges of any API; fields of requests need"):
        ExchangeFilter("max_records=0", None, {})


def test_the_page_lists_every_field() -> None:
    table = PAGE.read_text("utf-8").split("| field | value |", 1)[1].split("\n\n", 1)[0]
    listed = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    with pytest.raises(ValueError, match="there are ") as refused:
        ExchangeFilter("zzzzzzzz", None, {})

    assert listed == set(re.split(r", ", str(refused.value).split("there are ")[1].split("\n")[0]))
