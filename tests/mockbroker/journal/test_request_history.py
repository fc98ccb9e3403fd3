"""Questions to the journal: filters, conditions on fields, and the text of assertions that fail."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kwire.messages import find_coordinator, metadata, produce, share_fetch
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.messages.share_fetch import ShareFetchRequest
from mockbroker.journal.exchange import Exchange
from mockbroker.journal.request_history import RequestHistory, Snapshot

ORDERS = bytes(15) + b"\x01"
API_KEYS = {"ShareFetch": 78, "Produce": 0, "Metadata": 3, "FindCoordinator": 10}


def _exchange(number: int, request: msgspec.Struct, response: msgspec.Struct | None = None, **fields: Any) -> Exchange:
    api = type(request).__name__.removesuffix("Request")
    answered_ms = None if response is None else 12
    values = {"node_id": 0, "connection_id": 1, "client": "127.0.0.1:1", "client_id": "a", **fields}
    return Exchange(
        number=number,
        api_key=API_KEYS[api],
        api_name=api,
        api_version=1,
        correlation_id=number,
        arrived_ms=10,
        request=request,
        response=response,
        answered_ms=answered_ms,
        **values,
    )


def _share_fetch(number: int, max_records: int, **fields: Any) -> Exchange:
    partitions = [share_fetch.FetchPartition(partition_index=number % 2)]
    topics = [share_fetch.FetchTopic(topic_id=ORDERS, partitions=partitions)]
    return _exchange(number, ShareFetchRequest(group_id="g", max_records=max_records, topics=topics), **fields)


def _produce(number: int, error_code: int | None) -> Exchange:
    if error_code is None:
        return _exchange(number, ProduceRequest(transactional_id="t"))
    partition = produce.PartitionProduceResponse(index=0, error_code=error_code)
    response = ProduceResponse(responses=[produce.TopicProduceResponse(name="orders", partition_responses=[partition])])
    return _exchange(number, ProduceRequest(transactional_id="t"), response)


def _ask(*exchanges: Exchange, api: str | type | None = None, dropped: int = 0, **filters: Any) -> Any:
    snapshot = Snapshot(tuple(exchanges), dropped, {ORDERS: "orders"})
    return RequestHistory.filtered(snapshot, api, filters)


def _numbers(history: RequestHistory[Any, Any]) -> list[int]:
    return [exchange.number for exchange in history]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [1, 2, 3]),
        ({"client_id": "b"}, [2]),
        ({"node": 1}, [3]),
        ({"connection": 9}, [3]),
        ({"version": 1}, [1, 2, 3]),
        ({"version": 2}, []),
        ({"principal": "User:alice"}, [2]),
        ({"group": "g"}, [1, 2, 3]),
        ({"group": "h"}, []),
        ({"topic": "orders"}, [1, 2, 3]),
        ({"topic": "orders", "partition": 1}, [1, 3]),
        ({"partition": 0}, [2]),
        ({"topic": "bills"}, []),
        ({"after": 1}, [2, 3]),
        ({"where": {"max_records": 500}}, [1, 3]),
        ({"where": {"max_records": 500}, "node": 0}, [1]),
        ({"where": lambda request: request.max_records < 500}, [2]),
    ],
)
def test_each_filter_selects_requests(filters: dict[str, Any], expected: list[int]) -> None:
    exchanges = [
        _share_fetch(1, 500),
        _share_fetch(2, 100, client_id="b", principal="User:alice"),
        _share_fetch(3, 500, node_id=1, connection_id=9),
    ]

    assert _numbers(_ask(*exchanges, api="ShareFetch", **filters)) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"topics.partitions.partition_index": 1}, [1]),
        ({"topics.topic_id": ORDERS}, [1, 2]),
        ({"topics.topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}, [1, 2]),
        ({"max_records": lambda count: count > 200}, [1]),
        ({"group_id": "g", "max_records": 100}, [2]),
    ],
)
def test_nested_fields_and_functions_are_conditions(where: dict[str, Any], expected: list[int]) -> None:
    assert _numbers(_ask(_share_fetch(1, 500), _share_fetch(2, 100), api="ShareFetch").where(where)) == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"max_record": 1}, "ShareFetchRequest has no field 'max_record'; did you mean 'max_records'"),
        ({"topics.partition": 1}, "ShareFetchRequest.topics has no field 'partition'; did you mean 'partitions'"),
        ({"max_records.x": 1}, "ShareFetchRequest.max_records has no fields of its own"),
        ({"max_records": "500"}, "max_records='500': the field has values of type int"),
    ],
)
def test_a_field_or_value_that_cannot_match_is_an_error(where: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _ask(_share_fetch(1, 500), api="ShareFetch").where(where)


def test_the_coordinator_key_counts_as_the_name_of_a_group() -> None:
    keys = find_coordinator.FindCoordinatorRequest
    groups, transactions = keys(coordinator_keys=("g",)), keys(key_type=1, coordinator_keys=("g",))

    assert _numbers(_ask(_exchange(1, groups), _exchange(2, transactions), api=FindCoordinatorRequest, group="g")) == [
        1
    ]


@pytest.mark.parametrize(
    ("api", "filters", "error", "message"),
    [
        ("Metadata", {"group": "g"}, ValueError, "MetadataRequest names no group"),
        ("Heartbeat", {"topic": "orders"}, ValueError, "HeartbeatRequest and its response name no topic"),
        ("ShareFetch", {"clientid": "a"}, TypeError, "'clientid' is not a filter; did you mean 'client_id'"),
        ("ShareFetch", {"max_records": 1}, TypeError, r"for the field of the request, where=\{'max_records': ...\}"),
        ("Sharefetch", {}, ValueError, "did you mean 'ShareFetch'"),
        (None, {"where": {"max_records": 1}}, ValueError, "only in requests of one API"),
        ("ShareFetch", {"where": 5}, TypeError, "expected a mapping of fields or a function"),
        ("ShareFetch", {"after": "x"}, TypeError, "expected an exchange or its number"),
    ],
)
def test_a_filter_that_cannot_match_is_an_error(
    api: str | None, filters: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        _ask(api=api, **filters)


def test_responses_are_selected_by_any_of_their_errors() -> None:
    history = _ask(_produce(1, 0), _produce(2, 6), _produce(3, None), api="Produce")

    assert _numbers(history.answered()) == [1, 2]
    assert _numbers(history.answered(error="NOT_LEADER_OR_FOLLOWER")) == [2]
    assert _numbers(history.answered(error=6)) == [2]
    assert _numbers(history.answered(error="NONE")) == [1]
    assert _numbers(history.unanswered()) == [3]
    with pytest.raises(ValueError, match="did you mean 'NOT_LEADER_OR_FOLLOWER'"):
        history.answered(error="NOT_LEADER")


def test_a_history_is_a_sequence_and_a_snapshot() -> None:
    exchanges = [_share_fetch(1, 500), _share_fetch(2, 500)]
    history = _ask(*exchanges, api="ShareFetch")
    exchanges.append(_share_fetch(3, 500))

    assert len(history) == 2
    assert history[0].number == 1
    assert [exchange.number for exchange in history[1:]] == [2]
    assert exchanges[1] in history
    assert repr(history.where(max_records=1)) == "<RequestHistory: ShareFetch request with max_records=1: 0 of 2>"


def test_a_failed_assert_sent_lists_the_nearest_requests_first() -> None:
    history = _ask(_share_fetch(1, 100, client_id="b"), _share_fetch(2, 100), api="ShareFetch", client_id="a").where(
        max_records=500
    )

    with pytest.raises(AssertionError) as error:
        history.assert_sent()
    assert str(error.value).splitlines() == [
        "no ShareFetch request with client_id='a', max_records=500 was sent; nearest of 2 ShareFetch requests:",
        "  #2 ShareFetch v1, 'a', node 0, group g, orders[0], no response",
        "      max_records 100",
        "  #1 ShareFetch v1, 'b', node 0, group g, orders[1], no response",
        "      client_id 'b'; max_records 100",
    ]


def test_without_a_request_of_the_api_the_message_lists_what_was_sent() -> None:
    history = _ask(_exchange(1, MetadataRequest()), _exchange(2, MetadataRequest()), _produce(3, 0), api="ShareFetch")

    with pytest.raises(AssertionError, match="no ShareFetch request was sent; sent were 2 Metadata, 1 Produce"):
        history.assert_sent()
    with pytest.raises(AssertionError, match="sent were nothing"):
        _ask(api="ShareFetch").assert_sent()


def test_assert_never_lists_what_was_sent() -> None:
    _ask(_produce(1, 0), api="ShareFetch").assert_never()

    with pytest.raises(AssertionError) as error:
        _ask(_produce(1, 0), _produce(2, 6), api="Produce").assert_never()
    assert str(error.value).splitlines() == [
        "expected no Produce request, but 2 were sent:",
        "  #1 Produce v1, 'a', node 0, orders[0], NONE after 2 ms",
        "  #2 Produce v1, 'a', node 0, orders[0], NOT_LEADER_OR_FOLLOWER after 2 ms",
    ]


def test_assert_count_lists_those_that_match_and_the_nearest_others() -> None:
    history = _ask(_produce(1, 0), _produce(2, 6), api="Produce").answered(error="NONE")
    assert history.assert_count(1) is history

    with pytest.raises(AssertionError) as error:
        history.assert_count(2)
    assert str(error.value).splitlines() == [
        "expected 2 Produce requests with error=NONE, but there is 1; nearest of 2 Produce requests:",
        "  #2 Produce v1, 'a', node 0, orders[0], NOT_LEADER_OR_FOLLOWER after 2 ms",
        "      error NOT_LEADER_OR_FOLLOWER",
        "matching:",
        "  #1 Produce v1, 'a', node 0, orders[0], NONE after 2 ms",
    ]


def test_what_the_journal_has_dropped_cannot_be_asserted_to_be_absent() -> None:
    with pytest.raises(AssertionError, match="cannot be decided: the journal has dropped its 4 oldest exchanges"):
        _ask(_produce(5, 0), api="Metadata", dropped=4).assert_never()
    with pytest.raises(AssertionError, match="cannot be decided"):
        _ask(_produce(5, 0), api="Produce", dropped=4, after=3).assert_count(1)

    _ask(_produce(5, 0), api="Metadata", dropped=4, after=4).assert_never()
    _ask(_produce(5, 0), api="Produce", dropped=4).assert_sent()


def test_messages_contain_no_secrets_and_no_control_characters() -> None:
    exchange = _exchange(1, metadata.MetadataRequest(), client_id="a\x1b[31m\n")

    with pytest.raises(AssertionError) as error:
        _ask(exchange, api="Metadata", version=9).assert_sent()
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(
    ("topics", "version", "text"),
    [
        (None, 1, "all topics"),
        ([], 1, "no topics"),
        ([], 0, "all topics"),
        (["bills"], 1, "topics bills"),
    ],
)
def test_a_request_for_all_topics_differs_in_texts_from_one_for_none(
    topics: list[str] | None, version: int, text: str
) -> None:
    named = None if topics is None else [metadata.MetadataRequestTopic(name=name) for name in topics]
    asked = msgspec.structs.replace(_exchange(1, MetadataRequest(topics=named)), api_version=version)

    with pytest.raises(AssertionError) as raised:
        _ask(asked, api="Metadata", topic="orders").assert_sent()

    assert f"      {text}" in str(raised.value).splitlines()
