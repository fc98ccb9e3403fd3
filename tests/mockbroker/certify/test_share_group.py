"""What cases ask of share groups: groups that start at offset 0, acknowledgements on the wire, quiet polls."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import mockbroker
from kwire import uuids
from kwire.client import Client
from kwire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest, ShareFetchResponse
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import Polled
from mockbroker.certify.driver.messages import ConsumedRecord, ErrorInfo
from mockbroker.certify.share_group import (
    QuietPolls,
    acknowledgements,
    carrying,
    create_group,
    is_reached,
    session_requests,
    set_group_config,
)


@pytest.fixture
def run() -> Iterator[Any]:
    """What of a run these functions use: a cluster with one topic."""
    with mockbroker.Cluster(topics={"orders": 1}, profile="quick") as cluster:
        yield SimpleNamespace(cluster=cluster, wire=cluster, time_factor=1.0)


def _topic_id(run: Any) -> bytes:
    return uuids.from_text(run.cluster.describe_topic("orders").topic_id)


def _fetch(run: Any, client: Client, *, epoch: int = 0) -> ShareFetchResponse:
    topic_id = _topic_id(run)
    topics = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_index=0)])]
    request = ShareFetchRequest(
        group_id="shop",
        member_id="member",
        share_session_epoch=epoch,
        max_wait_ms=2_000,
        min_bytes=1,
        max_records=100,
        batch_size=100,
        topics=topics,
    )
    response: ShareFetchResponse = client.send(request)
    return response


def _acknowledge(run: Any, client: Client, *batches: tuple[int, int, tuple[int, ...]], epoch: int = 1) -> None:
    rows = [AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=types) for a, b, types in batches]
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=rows)
    topic = AcknowledgeTopic(topic_id=_topic_id(run), partitions=[partition])
    client.send(ShareAcknowledgeRequest(group_id="shop", member_id="member", share_session_epoch=epoch, topics=[topic]))


def test_a_created_group_delivers_records_from_offset_0(run: Any) -> None:
    run.cluster.produce("orders", "before")
    create_group(run, "orders")

    with Client(run.cluster.bootstrap_servers) as client:
        [row] = _fetch(run, client).responses[0].partitions

    assert [(each.first_offset, each.last_offset) for each in row.acquired_records] == [(0, 0)]


def test_acknowledgements_are_listed_by_offset_with_their_results(run: Any) -> None:
    create_group(run, "orders")
    run.cluster.produce_all("orders", [{"value": str(number)} for number in range(4)])
    with Client(run.cluster.bootstrap_servers) as client:
        _fetch(run, client)
        _acknowledge(run, client, (0, 1, (1,)), (2, 3, (2, 3)))
        _acknowledge(run, client, (3, 3, (1,)), epoch=2)
        _acknowledge(run, client, (0, 0, (1,)), epoch=9)

    sent = acknowledgements(run, "orders")

    assert [(each.partition, each.offset, each.type, each.error) for each in sent] == [
        (0, 0, 1, "NONE"),
        (0, 1, 1, "NONE"),
        (0, 2, 2, "NONE"),
        (0, 3, 3, "NONE"),
        (0, 3, 1, "INVALID_RECORD_STATE"),
        (0, 0, 1, "INVALID_SHARE_SESSION_EPOCH"),
    ]
    assert [exchange.api_name for exchange in carrying(sent)] == ["ShareAcknowledge"] * 3
    assert acknowledgements(run, "payments") == []


def test_requests_of_sessions_are_those_of_both_apis_at_a_node(run: Any) -> None:
    create_group(run, "orders")
    run.cluster.produce("orders", "first")
    with Client(run.cluster.bootstrap_servers) as client:
        _fetch(run, client)
        _acknowledge(run, client, (0, 0, (1,)))

    assert [each.api_name for each in session_requests(run)] == ["ShareFetch", "ShareAcknowledge"]
    assert session_requests(run, node=0) == session_requests(run)
    assert [each.api_name for each in session_requests(run, after=session_requests(run)[0].number)] == [
        "ShareAcknowledge"
    ]


def test_the_lock_duration_of_the_group_is_set(run: Any) -> None:
    set_group_config(run, "share.record.lock.duration.ms", 17_000)
    create_group(run, "orders")
    run.cluster.produce("orders", "first")

    with Client(run.cluster.bootstrap_servers) as client:
        assert _fetch(run, client).acquisition_lock_timeout_ms == 17_000


def test_a_refused_configuration_is_an_error_of_the_case(run: Any) -> None:
    with pytest.raises(RuntimeError, match=r"share\.record\.lock\.duration\.ms=1: INVALID_CONFIG"):
        set_group_config(run, "share.record.lock.duration.ms", 1)


def test_a_wait_that_fails_is_no_error(run: Any) -> None:
    assert is_reached(run, lambda: True)
    assert not is_reached(run, lambda: False, timeout_s=0.01)


class _Consumer:
    """A consumer whose polls return what is given."""

    def __init__(self, *results: str | ClientError) -> None:
        self._results = list(results)

    def poll(self, *, timeout_ms: int) -> Polled:
        assert timeout_ms == 200
        result = self._results.pop(0)
        if isinstance(result, ClientError):
            raise result
        return Polled([ConsumedRecord(topic="orders", partition=0, offset=0, key=None, value=result)], [])


def test_quiet_polls_go_on_after_an_error_of_the_client(run: Any) -> None:
    error = ClientError("poll", ErrorInfo(name="UNKNOWN_TOPIC_OR_PARTITION"))
    consumer: Any = _Consumer("first", error, "second")
    polls = QuietPolls(consumer)

    assert polls.until(run, lambda values: "second" in values)
    assert polls.values == ["first", "second"]


def test_quiet_polls_raise_what_the_driver_does_not_support() -> None:
    consumer: Any = _Consumer(ClientError("poll", ErrorInfo(name="LOCAL_UNSUPPORTED")))

    with pytest.raises(ClientError, match="LOCAL_UNSUPPORTED"):
        QuietPolls(consumer).poll()
