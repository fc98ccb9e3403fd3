"""The state RPCs of the drafts: one share-partition a request in r3, and in r4 too where only offsets are read."""

from __future__ import annotations

from typing import Any

from kwire.error_codes import ErrorCode
from kwire.registry import DEFAULT_EDITION, codec_of_name, message_class
from mockbroker.editions.dialect import Arrive, Depart
from mockbroker.editions.recast import recast

_FLAT = "kip932-r3"
_BY_TOPIC = "kip932-r4"
#: The state RPCs by key, as 4.3.0 calls them.
_NAMES = {
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
}
_OFFSETS_KEY, _SUMMARY = 87, "ReadShareGroupStateSummary"
#: Drafts know no epoch of a leader, and -1 asks no question of it.
_NO_EPOCH = -1


def flat(key: int) -> tuple[Arrive, Depart] | None:
    """How r3 speaks a state RPC: group, topic and partition at the top of the request, one error in the response."""
    name = _NAMES.get(key)
    return None if name is None else (_wrap(name, _FLAT), _unwrap(message_class(f"{name}Response", _FLAT)))


def by_topic(key: int) -> tuple[Arrive, Depart] | None:
    """How r4 speaks what it does not speak as 4.3.0 but for names: no leader epochs, and offsets read one by one."""
    if key == _OFFSETS_KEY:
        return _wrap(_SUMMARY, ""), _unwrap(message_class("ReadShareGroupOffsetsStateResponse", _BY_TOPIC))
    name = _NAMES.get(key)
    if name is None:
        return None
    arrive, depart = (
        recast(f"{name}Request", _BY_TOPIC, DEFAULT_EDITION),
        recast(f"{name}Response", DEFAULT_EDITION, _BY_TOPIC),
    )

    def arrived(request: Any) -> Any:
        asked = arrive(request)
        for topic in asked.topics:
            for partition in topic.partitions:
                _forget_leader_epoch(partition)
        return asked

    return arrived, lambda response, request: depart(response)


def _wrap(name: str, edition: str) -> Arrive:
    """A request for one share-partition, as one for a list of topics with a list of partitions."""
    released = codec_of_name(f"{name}Request")
    topic_class = released.structs[
        next(each for each in released.structs if each.endswith("Data") and each != "PartitionData")
    ]
    partition_class = released.structs["PartitionData"]

    def arrived(request: Any) -> Any:
        content = {
            field: getattr(request, field)
            for field in partition_class.__struct_fields__
            if hasattr(request, field) and field not in ("unknown_tagged_fields", "state_batches")
        }
        partition: Any = partition_class(**content)
        if hasattr(request, "state_batches"):
            batch_class = released.structs["StateBatch"]
            partition.state_batches = [
                batch_class(each.base_offset, each.last_offset, each.state, each.delivery_count)
                for each in request.state_batches
            ]
        _forget_leader_epoch(partition)
        return released.message(group_id=request.group_id, topics=[topic_class(request.topic_id, [partition])])

    return arrived


def _unwrap(made: type[Any]) -> Depart:
    """The one row of a response, as a response of its own; a request that got none was not a proper one."""
    fields = [each for each in made.__struct_fields__ if each not in ("unknown_tagged_fields", "state_batches")]

    def departed(response: Any, request: Any) -> Any:
        rows = [row for topic in response.results for row in topic.partitions]
        if not rows:
            return made(error_code=ErrorCode.INVALID_REQUEST)
        answer = made(**{field: getattr(rows[0], field) for field in fields})
        if hasattr(answer, "state_batches"):
            batch_class = codec_of_name("ReadShareGroupStateResponse", _FLAT).structs["StateBatch"]
            answer.state_batches = [
                batch_class(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                for each in rows[0].state_batches
            ]
        return answer

    return departed


def _forget_leader_epoch(partition: Any) -> None:
    if hasattr(partition, "leader_epoch"):
        partition.leader_epoch = _NO_EPOCH
