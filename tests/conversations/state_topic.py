"""Reads what the share coordinator wrote of a group: the records of `__share_group_state`, in their order."""

from __future__ import annotations

from typing import Any

from kwire.codec import decode, to_json
from kwire.messages.early_access import share_snapshot, share_update
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.records import read_batches
from kwire.records.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.records.coordinator.share_update import ShareUpdateKey, ShareUpdateValue
from kwire.registry import DEFAULT_EDITION
from tests.conversations.normal import Json
from tests.conversations.venues import Line

_TOPIC = "__share_group_state"
#: Two bytes before each key say which record it is, two before each value its version.
_Kinds = dict[int, tuple[Any, Any]]
_RELEASED: _Kinds = {0: (ShareSnapshotKey, ShareSnapshotValue), 1: (ShareUpdateKey, ShareUpdateValue)}
_KINDS: dict[str, _Kinds] = {
    "4.0-early-access": {
        0: (share_snapshot.ShareSnapshotKey, share_snapshot.ShareSnapshotValue),
        1: (share_update.ShareUpdateKey, share_update.ShareUpdateValue),
    }
}
_TYPE_SIZE = 2
_FETCH_BYTES = 50_000_000


def state_records(line: Line, group_id: str, edition: str = DEFAULT_EDITION) -> Json:
    """The records of a group, each with its key and value in Kafka's JSON form; without times."""
    kinds = _KINDS.get(edition, _RELEASED)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=_TOPIC)])
    [topic] = _ask(line, request, 12, "MetadataResponse").topics
    found: list[Json] = []
    for index in sorted(row.partition_index for row in topic.partitions):
        for key, value in _read(line, index):
            shown = _shown(key, value, kinds)
            if shown["key"]["groupId"] == group_id:
                found.append(shown)
    return {"records": found}


def _read(line: Line, index: int) -> list[tuple[bytes, bytes | None]]:
    offset = _offset(line, index, earliest=True)
    end = _offset(line, index, earliest=False)
    found: list[tuple[bytes, bytes | None]] = []
    while offset < end:
        partition = FetchPartition(index, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=_FETCH_BYTES, topics=[FetchTopic(_TOPIC, partitions=[partition])]
        )
        [row] = _ask(line, request, 12, "FetchResponse").responses[0].partitions
        assert row.error_code == 0, f"{_TOPIC}-{index}: error {row.error_code}"
        for batch in read_batches(row.records or b"", partial_ok=True):
            for record in batch.records():
                if record.offset >= offset:
                    assert record.key is not None
                    found.append((bytes(record.key), None if record.value is None else bytes(record.value)))
            offset = batch.last_offset + 1
    return found


def _offset(line: Line, index: int, *, earliest: bool) -> int:
    partition = ListOffsetsPartition(index, timestamp=-2 if earliest else -1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(_TOPIC, [partition])])
    answer = _ask(line, request, 7, "ListOffsetsResponse")
    offset = answer.topics[0].partitions[0].offset
    assert isinstance(offset, int)
    return offset


def _ask(line: Line, request: Any, version: int, answer: str) -> Any:
    line.submit(request, version, version, (answer, version))
    return line.receive()[0]


def _shown(key: bytes, value: bytes | None, kinds: _Kinds) -> Json:
    key_class, value_class = kinds[int.from_bytes(key[:_TYPE_SIZE], "big")]
    shown: dict[str, Json] = {
        "record": key_class.__name__.removesuffix("Key"),
        "key": to_json(decode(key_class, 0, key[_TYPE_SIZE:]), 0),
        "value": None,
    }
    if value is not None:
        version = int.from_bytes(value[:_TYPE_SIZE], "big")
        tree = to_json(decode(value_class, version, value[_TYPE_SIZE:]), version)
        shown["value"] = {name: field for name, field in tree.items() if not name.endswith("Timestamp")}
        shown["version"] = version
    return shown
