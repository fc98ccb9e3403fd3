"""The record batches in messages: the fields that hold them, and summaries without their content."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from struct import Struct
from typing import Any, NamedTuple, cast

import msgspec

from kwire.errors import WireError
from kwire.records import Batch, Codec, read_batches
from kwire.records.batch import HEADER_SIZE, PREFIX_SIZE

Tree = dict[str, object]
Records = bytes | memoryview | None

# Base offset, length, magic, attributes, last offset delta and record count of a record batch.
_HEADER_FIELDS = Struct(">qi4xb4xhi30xi").unpack_from
_INT64_MAX = 2**63 - 1


class RecordsField(NamedTuple):
    """The attributes from the message down to its records, each with its key in the JSON form."""

    topics: tuple[str, str]
    partitions: tuple[str, str]
    records: tuple[str, str]


_TOPICS = ("responses", "responses")
_PARTITIONS = ("partitions", "partitions")
_RECORDS = ("records", "records")
RECORDS_FIELDS = {
    "ProduceRequest": RecordsField(("topic_data", "topicData"), ("partition_data", "partitionData"), _RECORDS),
    "FetchResponse": RecordsField(_TOPICS, _PARTITIONS, _RECORDS),
    "ShareFetchResponse": RecordsField(_TOPICS, _PARTITIONS, _RECORDS),
    "FetchSnapshotResponse": RecordsField(("topics", "topics"), _PARTITIONS, ("unaligned_records", "unalignedRecords")),
}


def read_complete_batches(records: Records) -> Iterator[Batch]:
    """The batches in a message; a truncated last one, as a Fetch response may have it, is omitted.

    Raises: CorruptRecords.
    """
    return read_batches(records if records is not None else b"", verify=False, partial_ok=True)


def codec_label(batch: Batch) -> str:
    """The name of the batch's codec, or its number where Kafka has no name for it."""
    return codec_name(batch.attributes & 0x07)


@cache
def codec_name(number: int) -> str:
    """The name of the codec with this number, as `codec_label`."""
    return Codec(number).label if number in Codec._value2member_map_ else f"codec {number}"


def summarize_records(records: Records) -> Tree | None:
    """Count, size and compression of the records; invalid ones add the key `error`."""
    if records is None:
        return None
    totals = _usual_totals(records)
    if totals is None:
        return summarize_batches(records)
    return {"count": totals[0], "bytes": len(records), "codec": totals[1]}


def summarize_batches(records: bytes | memoryview) -> Tree:
    """The same of any batches, which are read one by one."""
    count = 0
    codecs: dict[str, None] = {}
    failure: Tree = {}
    try:
        for batch in read_complete_batches(records):
            codecs[codec_label(batch)] = None
            count += batch.count
    except WireError as error:
        failure = {"error": str(error)}
    return {"count": count, "bytes": len(records), "codec": ",".join(codecs) or "none", **failure}


def total_records(records: bytes | memoryview) -> tuple[int, str]:
    """The count and the codecs that `summarize_records` has."""
    totals = _usual_totals(records)
    if totals is not None:
        return totals
    summary = cast("dict[str, Any]", summarize_batches(records))
    return summary["count"], summary["codec"]


def _usual_totals(records: bytes | memoryview) -> tuple[int, str] | None:
    """The count and the codec, from the headers of the batches.

    None for cut, damaged and old batches, and for those of different codecs.
    """
    at, end, total, codec = 0, len(records), 0, -1
    while end - at >= HEADER_SIZE:
        base, length, magic, attributes, delta, count = _HEADER_FIELDS(records, at)
        at += PREFIX_SIZE + length
        if magic != 2 or length < HEADER_SIZE - PREFIX_SIZE or at > end or delta < 0 or count < 0:
            return None
        if base > _INT64_MAX - delta or codec not in {-1, attributes & 0x07}:
            return None
        codec, total = attributes & 0x07, total + count
    if at != end:
        return None
    return total, "none" if codec < 0 else codec_name(codec)


def add_summaries(tree: Tree, message: msgspec.Struct) -> None:
    """Put summaries of the records of a message into its JSON form, in the place of the records."""
    place = RECORDS_FIELDS.get(type(message).__name__)
    if place is None:
        return
    attribute, key = place.records
    holders = [
        getattr(partition, attribute)
        for topic in getattr(message, place.topics[0])
        for partition in getattr(topic, place.partitions[0])
    ]
    topics = cast(list[dict[str, list[Tree]]], tree[place.topics[1]])
    partitions = (partition for topic in topics for partition in topic[place.partitions[1]])
    for shown, records in zip(partitions, holders, strict=True):
        shown[key] = summarize_records(records)
