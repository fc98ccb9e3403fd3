"""The assertion that requests came in an order."""

from __future__ import annotations

from typing import Any

import pytest

from mockbroker.journal.exchange import Exchange
from mockbroker.journal.request_history import RequestHistory, Snapshot
from mockbroker.journal.request_order import assert_request_order

APIS = {"I": "InitProducerId", "P": "Produce", "E": "EndTxn", "M": "Metadata"}


def _check(sent: str, expected: str, *, dropped: int = 0) -> None:
    """Each character stands for a request."""
    exchanges = tuple(
        Exchange(
            number=dropped + number,
            node_id=0,
            connection_id=1,
            client="127.0.0.1:1",
            api_key=0,
            api_name=APIS[kind],
            api_version=1,
            correlation_id=number,
            client_id="a",
            arrived_ms=0,
        )
        for number, kind in enumerate(sent, 1)
    )
    snapshot = Snapshot(exchanges, dropped, {})
    steps: list[RequestHistory[Any, Any]] = [RequestHistory(snapshot, APIS[kind]) for kind in expected]
    assert_request_order(steps, snapshot.topic_names)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("IP", "IP"),
        ("MIMPPMPE", "IPE"),
        ("IPEIPE", "IPE"),
        ("PEPE", "PEP"),
        ("MIMP", "MIP"),
        ("IIIPPP", "IP"),
        ("PEPEP", "PEPEP"),
    ],
)
def test_the_first_requests_of_each_kind_are_in_this_order(sent: str, expected: str) -> None:
    _check(sent, expected)


@pytest.mark.parametrize(("sent", "expected"), [("PI", "IP"), ("PIP", "IP"), ("I", "IP"), ("PE", "PEP"), ("PEE", "EP")])
def test_another_order_is_an_error(sent: str, expected: str) -> None:
    with pytest.raises(AssertionError, match="expected this order: "):
        _check(sent, expected)


def test_the_message_has_the_order_that_was_seen() -> None:
    with pytest.raises(AssertionError) as error:
        _check("MPMI", "IP")
    assert str(error.value).splitlines() == [
        "expected this order: InitProducerId request; Produce request",
        "seen was:",
        "  #2 Produce v1, 'a', node 0, no response",
        "  #4 InitProducerId v1, 'a', node 0, no response",
    ]

    with pytest.raises(AssertionError, match="none of them was sent"):
        _check("MM", "IP")


def test_one_step_is_no_order() -> None:
    with pytest.raises(ValueError, match="at least two steps, not 1"):
        _check("I", "I")


def test_an_order_cannot_be_decided_where_exchanges_were_dropped() -> None:
    with pytest.raises(AssertionError, match="cannot be decided"):
        _check("IP", "IP", dropped=3)
