"""Translation between the released messages, which simulated clients use, and those of an edition of KIP-932."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from kwire.messages import describe_share_group_offsets as describe
from kwire.messages import read_share_group_state_summary as summary
from kwire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kwire.registry import DEFAULT_EDITION, api_name, codec_of_name, message_class, request_class, response_class
from mockbroker.editions.message_conversion import message_converter
from mockbroker.engine.routes import Route

ResponseTranslator = Callable[[Any], Any]


class TranslatedRequest(NamedTuple):
    """A request of the edition, its version, the class of its response, and the translation of the response back."""

    request: msgspec.Struct
    version: int
    response_class: type[msgspec.Struct]
    translate_response: ResponseTranslator


#: Acknowledge types of early editions by those of 4.3.0; gaps had no type.
_EARLY_TYPES = {1: 0, 2: 1, 3: 2}
_SUMMARY, _DESCRIBE, _DELETE = 87, 90, 92
_ACKNOWLEDGING = frozenset({78, 79})

#: The byte limit of each partition in a session: more than a log of the simulation contains.
_PARTITION_BYTES = 1 << 20
#: Editions in which accept, release and reject are 0, 1 and 2.
_EARLY = frozenset({"kip932-r1", "kip932-r2", "kip932-r3"})


class EditionClient:
    """Translates requests into messages of an edition, and their responses back.

    is_released: no translation is needed.
    """

    def __init__(self, edition: str | None, routes: Mapping[int, Route]) -> None:
        self.is_released = edition is None
        self.edition = edition or DEFAULT_EDITION
        self._routes = routes
        self._early_types = edition in _EARLY

    def lacks_api(self, api_key: int) -> bool:
        """Whether the edition does not have an API."""
        return api_key not in self._routes

    def supported_types(self, types: tuple[int, ...]) -> tuple[int, ...]:
        """Acknowledge types, with ACCEPT instead of GAP where the edition has no gap type."""
        return tuple(each or 1 for each in types) if self._early_types else types

    def translate_request(self, request: msgspec.Struct, version: int) -> TranslatedRequest:
        """Translate a request of a release into the edition."""
        api_key: int = type(request).API_KEY  # type: ignore[attr-defined]
        if self.is_released or request_class(api_key, self.edition) is type(request):
            return TranslatedRequest(request, version, response_class(api_key), lambda answer: answer)
        version, response = self._routes[api_key].versions[1], response_class(api_key, self.edition)
        if api_key == _SUMMARY:
            return TranslatedRequest(self._summary(request), version, response, _translate_summary(request))
        if api_key == _DESCRIBE:
            return TranslatedRequest(self._describe(request), version, response, _translate_description(request))
        name = api_name(api_key)
        translated = message_converter(f"{name}Request", DEFAULT_EDITION, self.edition)(request)
        if api_key == _DELETE:
            for topic in translated.topics:
                topic.partitions = (0,)
            return TranslatedRequest(translated, version, response, _translate_deletion)
        if api_key in _ACKNOWLEDGING:
            self._set_acknowledge_types(translated)
        back = message_converter(f"{name}Response", self.edition, DEFAULT_EDITION)
        return TranslatedRequest(translated, version, response, back)

    def _set_acknowledge_types(self, translated: Any) -> None:
        for topic in translated.topics:
            for partition in topic.partitions:
                if hasattr(partition, "partition_max_bytes"):
                    partition.partition_max_bytes = _PARTITION_BYTES
                for batch in partition.acknowledgement_batches if self._early_types else ():
                    batch.acknowledge_types = tuple(_EARLY_TYPES[each] for each in batch.acknowledge_types)

    def _describe(self, request: Any) -> msgspec.Struct:
        """One group for each request, which must name its topics and their partitions."""
        (group,) = request.groups
        codec = codec_of_name("DescribeShareGroupOffsetsRequest", self.edition)
        row = codec.structs["DescribeShareGroupOffsetsRequestTopic"]
        topics = [row(topic_name=topic.topic_name, partitions=topic.partitions) for topic in group.topics or ()]
        return codec.message(group_id=group.group_id, topics=topics)

    def _summary(self, request: Any) -> msgspec.Struct:
        if api_name(_SUMMARY, self.edition) == "ReadShareGroupStateSummary":
            convert = message_converter("ReadShareGroupStateSummaryRequest", DEFAULT_EDITION, self.edition)
            return cast(msgspec.Struct, convert(request))
        (topic,) = request.topics
        (partition,) = topic.partitions
        pending = message_class("ReadShareGroupOffsetsStateRequest", self.edition)
        return pending(group_id=request.group_id, topic_id=topic.topic_id, partition=partition.partition)


def _translate_summary(request: Any) -> ResponseTranslator:
    """The response for one share partition, as the row of 4.3.0."""
    (topic,) = request.topics
    index = topic.partitions[0].partition

    def translate(answer: Any) -> summary.ReadShareGroupStateSummaryResponse:
        row = answer.results[0].partitions[0] if hasattr(answer, "results") else answer
        result = summary.PartitionResult(index, row.error_code, None, row.state_epoch, start_offset=row.start_offset)
        return summary.ReadShareGroupStateSummaryResponse([summary.ReadStateSummaryResult(topic.topic_id, [result])])

    return translate


def _translate_description(request: Any) -> ResponseTranslator:
    """The rows of one group."""
    (group,) = request.groups

    def translate_row(row: Any) -> describe.DescribeShareGroupOffsetsResponsePartition:
        return describe.DescribeShareGroupOffsetsResponsePartition(
            row.partition_index, row.start_offset, error_code=row.error_code
        )

    def translate(answer: Any) -> describe.DescribeShareGroupOffsetsResponse:
        topics = []
        for topic in answer.responses:
            rows = [translate_row(row) for row in topic.partitions]
            topics.append(describe.DescribeShareGroupOffsetsResponseTopic(topic.topic_name, topic.topic_id, rows))
        described = describe.DescribeShareGroupOffsetsResponseGroup(group.group_id, topics)
        return describe.DescribeShareGroupOffsetsResponse(groups=[described])

    return translate


def _translate_deletion(answer: Any) -> DeleteShareGroupOffsetsResponse:
    codes = [row.error_code for topic in answer.responses for row in topic.partitions]
    return DeleteShareGroupOffsetsResponse(error_code=next((code for code in codes if code), 0))
