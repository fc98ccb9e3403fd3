"""The administration of offsets in the drafts: one group a request, every answer in rows of partitions."""

from __future__ import annotations

from typing import Any

from kwire.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)
from kwire.messages.drafts.r4 import alter_share_group_offsets as alter
from kwire.messages.drafts.r4 import delete_share_group_offsets as delete
from kwire.messages.drafts.r4 import describe_share_group_offsets as describe
from kwire.registry import DEFAULT_EDITION
from mockbroker.editions.dialect import Arrive, Depart
from mockbroker.editions.recast import recast

_EDITION = "kip932-r4"


def flat(key: int) -> tuple[Arrive, Depart] | None:
    """How the drafts speak one of the three, or None for another API."""
    alters = recast("AlterShareGroupOffsetsRequest", _EDITION, DEFAULT_EDITION)
    table: dict[int, tuple[Arrive, Depart]] = {
        90: (_describe, _described),
        91: (alters, _altered),
        92: (_delete, _deleted),
    }
    return table.get(key)


def _describe(request: Any) -> DescribeShareGroupOffsetsRequest:
    topics = [DescribeShareGroupOffsetsRequestTopic(topic.topic_name, topic.partitions) for topic in request.topics]
    return DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(request.group_id, topics)])


def _described(
    response: DescribeShareGroupOffsetsResponse, request: describe.DescribeShareGroupOffsetsRequest
) -> describe.DescribeShareGroupOffsetsResponse:
    (group,) = response.groups
    rows = [
        describe.DescribeShareGroupOffsetsResponseTopic(
            topic.topic_name,
            topic.topic_id,
            [
                describe.DescribeShareGroupOffsetsResponsePartition(
                    row.partition_index, row.start_offset, row.error_code, row.error_message
                )
                for row in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    if group.error_code:
        rows = [
            describe.DescribeShareGroupOffsetsResponseTopic(
                topic.topic_name,
                partitions=[
                    describe.DescribeShareGroupOffsetsResponsePartition(
                        index, -1, group.error_code, group.error_message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    return describe.DescribeShareGroupOffsetsResponse(response.throttle_time_ms, rows)


def _altered(
    response: AlterShareGroupOffsetsResponse, request: alter.AlterShareGroupOffsetsRequest
) -> alter.AlterShareGroupOffsetsResponse:
    made: alter.AlterShareGroupOffsetsResponse = recast("AlterShareGroupOffsetsResponse", DEFAULT_EDITION, _EDITION)(
        response
    )
    if response.error_code:
        made.responses = [
            alter.AlterShareGroupOffsetsResponseTopic(
                topic.topic_name,
                partitions=[
                    alter.AlterShareGroupOffsetsResponsePartition(
                        row.partition_index, response.error_code, response.error_message
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    return made


def _delete(request: Any) -> DeleteShareGroupOffsetsRequest:
    topics = [DeleteShareGroupOffsetsRequestTopic(topic.topic_name) for topic in request.topics]
    return DeleteShareGroupOffsetsRequest(request.group_id, topics)


def _deleted(
    response: DeleteShareGroupOffsetsResponse, request: delete.DeleteShareGroupOffsetsRequest
) -> delete.DeleteShareGroupOffsetsResponse:
    """A topic goes as a whole, so each partition that was named has the outcome of its topic."""
    outcomes = {topic.topic_name: topic for topic in response.responses}
    rows = []
    for topic in request.topics:
        outcome = outcomes.get(topic.topic_name)
        code, message = response.error_code, response.error_message
        if not code and outcome is not None:
            code, message = outcome.error_code, outcome.error_message
        rows.append(
            delete.DeleteShareGroupOffsetsResponseTopic(
                topic.topic_name,
                outcome.topic_id if outcome is not None else bytes(16),
                [delete.DeleteShareGroupOffsetsResponsePartition(index, code, message) for index in topic.partitions],
            )
        )
    return delete.DeleteShareGroupOffsetsResponse(response.throttle_time_ms, rows)
