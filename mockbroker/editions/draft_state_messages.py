"""Messages of the state RPCs in the drafts: one share partition in each request in r3, and for summaries in r4."""

from __future__ import annotations

from typing import Any

from kwire.error_codes import ErrorCode
from kwire.registry import DEFAULT_EDITION, codec_of_name, message_class
from mockbroker.editions.edition_route import RequestTranslator, ResponseTranslator
from mockbroker.editions.message_conversion import message_converter

_FLAT = "kip932-r3"
_BY_TOPIC = "kip932-r4"
#: The state RPCs of 4.3.0 by key.
_NAMES = {
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
}
_OFFSETS_KEY, _SUMMARY = 87, "ReadShareGroupStateSummary"
#: Drafts have no leader epoch; -1 is not compared.
_NO_EPOCH = -1
#: The fields that are not copied.
_CONVERTED = ("unknown_tagged_fields", "state_batches")


def single_partition_translators(key: int) -> tuple[RequestTranslator, ResponseTranslator] | None:
    """The translators of r3: group, topic and partition at the top of the request, one error in the response."""
    name = _NAMES.get(key)
    if name is None:
        return None
    return _request_wrapper(name), _response_unwrapper(message_class(f"{name}Response", _FLAT))


def topic_translators(key: int) -> tuple[RequestTranslator, ResponseTranslator] | None:
    """The translators of r4: no leader epochs, and summaries for one share partition each."""
    if key == _OFFSETS_KEY:
        response_class = message_class("ReadShareGroupOffsetsStateResponse", _BY_TOPIC)
        return _request_wrapper(_SUMMARY), _response_unwrapper(response_class)
    name = _NAMES.get(key)
    if name is None:
        return None
    convert_request = message_converter(f"{name}Request", _BY_TOPIC, DEFAULT_EDITION)
    convert_response = message_converter(f"{name}Response", DEFAULT_EDITION, _BY_TOPIC)

    def translate_request(request: Any) -> Any:
        converted = convert_request(request)
        for topic in converted.topics:
            for partition in topic.partitions:
                _clear_leader_epoch(partition)
        return converted

    return translate_request, lambda response, request: convert_response(response)


def _request_wrapper(name: str) -> RequestTranslator:
    """A translator of a request for one share partition to one with lists of topics and partitions."""
    released = codec_of_name(f"{name}Request")
    topic_name = next(item for item in released.structs if item.endswith("Data") and item != "PartitionData")
    topic_class = released.structs[topic_name]
    partition_class = released.structs["PartitionData"]
    fields = [field for field in partition_class.__struct_fields__ if field not in _CONVERTED]

    def translate_request(request: Any) -> Any:
        values = {field: getattr(request, field) for field in fields if hasattr(request, field)}
        partition: Any = partition_class(**values)
        if hasattr(request, "state_batches"):
            batch_class = released.structs["StateBatch"]
            partition.state_batches = [
                batch_class(row.base_offset, row.last_offset, row.state, row.delivery_count)
                for row in request.state_batches
            ]
        _clear_leader_epoch(partition)
        return released.message(group_id=request.group_id, topics=[topic_class(request.topic_id, [partition])])

    return translate_request


def _response_unwrapper(response_class: type[Any]) -> ResponseTranslator:
    """A translator of the only row of a response to a response; without a row the request was invalid."""
    fields = [field for field in response_class.__struct_fields__ if field not in _CONVERTED]

    def translate_response(response: Any, request: Any) -> Any:
        rows = [row for topic in response.results for row in topic.partitions]
        if not rows:
            return response_class(error_code=ErrorCode.INVALID_REQUEST)
        converted = response_class(**{field: getattr(rows[0], field) for field in fields})
        if hasattr(converted, "state_batches"):
            batch_class = codec_of_name("ReadShareGroupStateResponse", _FLAT).structs["StateBatch"]
            converted.state_batches = [
                batch_class(item.first_offset, item.last_offset, item.delivery_state, item.delivery_count)
                for item in rows[0].state_batches
            ]
        return converted

    return translate_response


def _clear_leader_epoch(partition: Any) -> None:
    if hasattr(partition, "leader_epoch"):
        partition.leader_epoch = _NO_EPOCH
