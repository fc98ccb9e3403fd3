"""What simulated clients say in an edition of KIP-932: they think in the released messages, and speak the edition's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kwire.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kwire.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from kwire.registry import DEFAULT_EDITION, api_name, codec_of_name, message_class, response_class
from mockbroker.editions.recast import recast
from mockbroker.routes import Route

Back = Callable[[Any], Any]
#: A request as it goes over the wire, its version, the class of the answer, and the answer as the client takes it.
Spoken = tuple[msgspec.Struct, int, type[msgspec.Struct], Back]

#: Acknowledge types by those of 4.3.0, where gaps had no number yet.
_EARLY_TYPES = {1: 0, 2: 1, 3: 2}
_SUMMARY, _DESCRIBE, _ALTER, _DELETE = 87, 90, 91, 92
_ACKNOWLEDGING = frozenset({78, 79})

#: The limit of each partition, which its session keeps: more than a log of the simulation has.
_PARTITION_BYTES = 1 << 20
#: Editions in which accept, release and reject are 0, 1 and 2.
_EARLY = frozenset({"kip932-r1", "kip932-r2", "kip932-r3"})


def speech_of(edition: str, routes: Mapping[int, Route]) -> Speech:
    """How the clients of an edition speak."""
    return Speech(edition, routes, early_types=edition in _EARLY)


class Speech:
    """Turns what is asked into an edition's words. Which acts an edition has no words for, `lacks` says."""

    def __init__(self, edition: str, routes: Mapping[int, Route], *, early_types: bool) -> None:
        self.edition = edition
        self._routes = routes
        self._early_types = early_types

    @property
    def is_released(self) -> bool:
        """Whether everything is said as it is thought."""
        return self.edition == DEFAULT_EDITION

    def lacks(self, api_key: int) -> bool:
        """Whether there is no such API."""
        return api_key not in self._routes

    def sayable(self, types: tuple[int, ...]) -> tuple[int, ...]:
        """Acknowledge types, without the gap where it had no number: then a hole is accepted."""
        return tuple(each or 1 for each in types) if self._early_types else types

    def say(self, request: msgspec.Struct, version: int) -> Spoken:
        """A request of 4.3.0 in the words of the edition."""
        api_key: int = type(request).API_KEY  # type: ignore[attr-defined]
        if self.is_released or message_class(f"{api_name(api_key, self.edition)}Request", self.edition) is type(
            request
        ):
            return request, version, response_class(api_key), lambda answer: answer
        version, answers = self._routes[api_key].versions[1], response_class(api_key, self.edition)
        if api_key == _SUMMARY:
            return self._summary(request), version, answers, _summed_up(request)
        if api_key == _DESCRIBE:
            return self._describe(request), version, answers, _described(request)
        name = api_name(api_key)
        said = recast(f"{name}Request", DEFAULT_EDITION, self.edition)(request)
        if api_key == _DELETE:
            for topic in said.topics:
                topic.partitions = (0,)
            return said, version, answers, _deleted
        if api_key == _ALTER:
            back = recast("AlterShareGroupOffsetsResponse", self.edition, DEFAULT_EDITION)
            return said, version, answers, lambda answer: _altered(back(answer))
        if api_key in _ACKNOWLEDGING:
            self._give_types(said)
        return said, version, answers, recast(f"{name}Response", self.edition, DEFAULT_EDITION)

    def _give_types(self, said: Any) -> None:
        for topic in said.topics:
            for partition in topic.partitions:
                if hasattr(partition, "partition_max_bytes"):
                    partition.partition_max_bytes = _PARTITION_BYTES
                for batch in partition.acknowledgement_batches if self._early_types else ():
                    batch.acknowledge_types = tuple(_EARLY_TYPES[each] for each in batch.acknowledge_types)

    def _describe(self, request: Any) -> msgspec.Struct:
        """One group a request, which has to name its topics and their partitions."""
        (group,) = request.groups
        codec = codec_of_name("DescribeShareGroupOffsetsRequest", self.edition)
        row = codec.structs["DescribeShareGroupOffsetsRequestTopic"]
        topics = [row(topic_name=topic.topic_name, partitions=topic.partitions) for topic in group.topics or ()]
        return codec.message(group_id=group.group_id, topics=topics)

    def _summary(self, request: Any) -> msgspec.Struct:
        if api_name(_SUMMARY, self.edition) == "ReadShareGroupStateSummary":
            said: msgspec.Struct = recast("ReadShareGroupStateSummaryRequest", DEFAULT_EDITION, self.edition)(request)
            return said
        (topic,) = request.topics
        (partition,) = topic.partitions
        asks = message_class("ReadShareGroupOffsetsStateRequest", self.edition)
        return asks(group_id=request.group_id, topic_id=topic.topic_id, partition=partition.partition)


def _summed_up(request: Any) -> Back:
    """One share-partition's answer at the top of a message, as the row of it that 4.3.0 gives."""
    (topic,) = request.topics
    index = topic.partitions[0].partition

    def back(answer: Any) -> ReadShareGroupStateSummaryResponse:
        row = answer.results[0].partitions[0] if hasattr(answer, "results") else answer
        result = PartitionResult(index, row.error_code, None, row.state_epoch, start_offset=row.start_offset)
        return ReadShareGroupStateSummaryResponse([ReadStateSummaryResult(topic.topic_id, [result])])

    return back


def _described(request: Any) -> Back:
    """The rows of one group."""
    (group,) = request.groups

    def back(answer: Any) -> DescribeShareGroupOffsetsResponse:
        topics = [
            DescribeShareGroupOffsetsResponseTopic(
                topic.topic_name,
                topic.topic_id,
                [
                    DescribeShareGroupOffsetsResponsePartition(
                        row.partition_index, row.start_offset, error_code=row.error_code
                    )
                    for row in topic.partitions
                ],
            )
            for topic in answer.responses
        ]
        return DescribeShareGroupOffsetsResponse(
            groups=[DescribeShareGroupOffsetsResponseGroup(group.group_id, topics)]
        )

    return back


def _altered(answer: AlterShareGroupOffsetsResponse) -> AlterShareGroupOffsetsResponse:
    return answer


def _deleted(answer: Any) -> DeleteShareGroupOffsetsResponse:
    codes = [row.error_code for topic in answer.responses for row in topic.partitions]
    return DeleteShareGroupOffsetsResponse(error_code=next((code for code in codes if code), 0))
