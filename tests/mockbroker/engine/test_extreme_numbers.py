"""Requests whose numbers are the smallest and the largest of their types are answered, or close their connection."""

from __future__ import annotations

import random

import pytest

from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from mockbroker.handlers import ROUTES
from tests.support.brokers.broker import Broker
from tests.support.messages.filled_requests import filled_request, highest, lowest


@pytest.mark.parametrize("api_key", ROUTES, ids=lambda key: ROUTES[key].name)
def test_extreme_numbers_are_no_internal_error(api_key: int) -> None:
    chance = random.Random(api_key)
    broker = Broker(topics={"t": 2})
    mixed = [lambda bits: chance.choice((lowest(bits), highest(bits), 0, -1, 1))] * 2
    for number, choose in enumerate((lowest, highest, *mixed)):
        request, version = filled_request(api_key, choose)
        broker.call(request, version, connection=str(number))
        broker.advance(100)


@pytest.mark.parametrize(
    ("start", "lag"), [(-(1 << 63), -(1 << 63)), (-5, 5), (-2, 2), ((1 << 63) - 1, 1 - (1 << 63)), (0, 0)]
)
def test_any_start_offset_is_described(start: int, lag: int) -> None:
    """Source: a real 4.4.0, which takes any offset, and whose lag wraps around."""
    broker = Broker(topics={"t": 1})
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=start)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])
    altered = broker.call(AlterShareGroupOffsetsRequest(group_id="g", topics=[topic]), 0)
    described = DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=(0,))
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[described])
    row = broker.call(DescribeShareGroupOffsetsRequest(groups=[group]), 1).groups[0].topics[0].partitions[0]

    assert altered.responses[0].partitions[0].error_code == 0
    assert (row.start_offset, row.lag, row.error_code) == (start, lag, 0)
