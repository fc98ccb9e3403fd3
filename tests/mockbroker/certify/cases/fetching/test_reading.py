"""Which errors brokers can give to a request, by its version and its leader epoch."""

from __future__ import annotations

import pytest

from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mockbroker.certify.cases.fetching.reading import explain_impossible
from mockbroker.journal import Exchange


def _fetch(version: int, leader_epoch: int) -> Exchange:
    partition = FetchPartition(partition=0, current_leader_epoch=leader_epoch, partition_max_bytes=1)
    request = FetchRequest(topics=[FetchTopic(topic="orders", partitions=[partition])])
    return Exchange(
        number=1,
        node_id=0,
        connection_id=1,
        client="",
        api_key=1,
        api_name="Fetch",
        api_version=version,
        correlation_id=1,
        client_id=None,
        arrived_ms=0,
        request=request,
    )


@pytest.mark.parametrize(
    ("version", "leader_epoch", "first_version", "with_epoch", "seen"),
    [
        (10, -1, 13, False, "the client sends Fetch 10: brokers answer with E from version 13 on"),
        (13, -1, 13, False, None),
        (10, -1, 0, True, "the client names no leader epoch in Fetch 10: brokers do not answer with E then"),
        (10, 0, 0, True, None),
        (4, -1, 0, False, None),
    ],
)
def test_an_error_needs_its_version_and_a_leader_epoch(
    version: int, leader_epoch: int, first_version: int, with_epoch: bool, seen: str | None
) -> None:
    sent = _fetch(version, leader_epoch)

    assert explain_impossible(sent, "E", first_version=first_version, with_epoch=with_epoch) == seen
