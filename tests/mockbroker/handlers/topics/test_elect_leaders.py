"""ElectLeaders: where the error of a request that is refused as a whole stands."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support.brokers.broker import Broker


@pytest.mark.parametrize(("version", "top_level"), [(0, ErrorCode.NONE), (1, ErrorCode.REQUEST_TIMED_OUT)])
def test_a_request_without_time_is_refused_in_its_rows_and_from_version_1_at_the_top(
    version: int, top_level: ErrorCode
) -> None:
    broker = Broker(topics={"t": 1})

    response = broker.call(ElectLeadersRequest(topic_partitions=[TopicPartitions("t", (0,))], timeout_ms=-1), version)

    assert response.error_code == top_level
    [topic] = response.replica_election_results
    assert [row.error_code for row in topic.partition_result] == [ErrorCode.REQUEST_TIMED_OUT]
