"""Messages for the administration of offsets in the drafts: one group in each request, a row for each partition."""

from __future__ import annotations

from typing import Any

from kwire.messages import delete_share_group_offsets as released_delete
from kwire.messages import describe_share_group_offsets as released_describe
from kwire.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.messages.drafts.r4 import alter_share_group_offsets as alter
from kwire.messages.drafts.r4 import delete_share_group_offsets as delete
from kwire.messages.drafts.r4 import describe_share_group_offsets as describe
from kwire.registry import DEFAULT_EDITION
from mockbroker.editions.edition_route import RequestTranslator, ResponseTranslator
from mockbroker.editions.message_conversion import message_converter

_EDITION = "kip932-r4"


def translators_for(key: int) -> tuple[RequestTranslator, ResponseTranslator] | None:
    """The translators for one of the three APIs of the drafts, None for another API."""
    convert_alter = message_converter("AlterShareGroupOffsetsRequest", _EDITION, DEFAULT_EDITION)
    table: dict[int, tuple[RequestTranslator, ResponseTranslator]] = {
        90: (_translate_describe, _translate_describe_response),
        91: (convert_alter, _translate_alter_response),
        92: (_translate_delete, _translate_delete_response),
    }
    return table.get(key)


def _translate_describe(request: Any) -> released_describe.DescribeShareGroupOffsetsRequest:
    topic_class = released_describe.DescribeShareGroupOffsetsRequestTopic
    topics = [topic_class(topic.topic_name, topic.partitions) for topic in request.topics]
    groups = [released_describe.DescribeShareGroupOffsetsRequestGroup(request.group_id, topics)]
    return released_describe.DescribeShareGroupOffsetsRequest(groups)


def _translate_describe_response(
    response: released_describe.DescribeShareGroupOffsetsResponse, request: describe.DescribeShareGroupOffsetsRequest
) -> describe.DescribeShareGroupOffsetsResponse:
    (group,) = response.groups
    topic_class = describe.DescribeShareGroupOffsetsResponseTopic
    row_class = describe.DescribeShareGroupOffsetsResponsePartition
    topics = []
    if group.error_code:
        for requested in request.topics:
            rows = [row_class(index, -1, group.error_code, group.error_message) for index in requested.partitions]
            topics.append(topic_class(requested.topic_name, partitions=rows))
        return describe.DescribeShareGroupOffsetsResponse(response.throttle_time_ms, topics)
    for topic in group.topics:
        rows = [
            row_class(row.partition_index, row.start_offset, row.error_code, row.error_message)
            for row in topic.partitions
        ]
        topics.append(topic_class(topic.topic_name, topic.topic_id, rows))
    return describe.DescribeShareGroupOffsetsResponse(response.throttle_time_ms, topics)


def _translate_alter_response(
    response: AlterShareGroupOffsetsResponse, request: alter.AlterShareGroupOffsetsRequest
) -> alter.AlterShareGroupOffsetsResponse:
    convert = message_converter("AlterShareGroupOffsetsResponse", DEFAULT_EDITION, _EDITION)
    converted: alter.AlterShareGroupOffsetsResponse = convert(response)
    if response.error_code:
        row_class = alter.AlterShareGroupOffsetsResponsePartition
        code, message = response.error_code, response.error_message
        converted.responses = []
        for topic in request.topics:
            rows = [row_class(row.partition_index, code, message) for row in topic.partitions]
            converted.responses.append(alter.AlterShareGroupOffsetsResponseTopic(topic.topic_name, partitions=rows))
    return converted


def _translate_delete(request: Any) -> released_delete.DeleteShareGroupOffsetsRequest:
    topics = [released_delete.DeleteShareGroupOffsetsRequestTopic(topic.topic_name) for topic in request.topics]
    return released_delete.DeleteShareGroupOffsetsRequest(request.group_id, topics)


def _translate_delete_response(
    response: released_delete.DeleteShareGroupOffsetsResponse, request: delete.DeleteShareGroupOffsetsRequest
) -> delete.DeleteShareGroupOffsetsResponse:
    """Topics are deleted as a whole, so each requested partition has the result of its topic."""
    outcomes = {topic.topic_name: topic for topic in response.responses}
    topics = []
    for topic in request.topics:
        outcome = outcomes.get(topic.topic_name)
        failed = response if response.error_code or outcome is None else outcome
        code, message = failed.error_code, failed.error_message
        topic_id = bytes(16) if outcome is None else outcome.topic_id
        rows = [delete.DeleteShareGroupOffsetsResponsePartition(index, code, message) for index in topic.partitions]
        topics.append(delete.DeleteShareGroupOffsetsResponseTopic(topic.topic_name, topic_id, rows))
    return delete.DeleteShareGroupOffsetsResponse(response.throttle_time_ms, topics)
