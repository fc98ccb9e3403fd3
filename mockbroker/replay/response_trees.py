"""Responses in Kafka's JSON form: which fields differ from run to run, which arrays have no order, and differences."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from kwire.records import Record, read_batches

Json = Any  # A parsed JSON tree has no narrower type.

#: Fields with ids of nodes.
NODE_KEYS = frozenset(
    {
        *("nodeId", "brokerId", "leaderId", "controllerId", "preferredReadReplica", "brokerIds"),
        *("replicaNodes", "isrNodes", "offlineReplicas", "replicas", "isr"),
    }
)
#: Fields whose values differ from run to run and say nothing.
VARYING_KEYS = frozenset(
    {
        *("throttleTimeMs", "transactionStartTimeMs", "issueTimestampMs"),
        *("clusterId", "brokerEpoch", "finalizedFeaturesEpoch"),
    }
)
#: Arrays whose order matters; that of all others does not.
ORDERED_KEYS = frozenset(["acquiredRecords", "abortedTransactions", "records", "stateBatches", "endOffsets"])
_SHOWN_LENGTH = 40


def sort_key(tree: Json) -> str:
    """JSON without spaces, by which unordered arrays are sorted."""
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def is_text_for_people(key: str) -> bool:
    """Whether a field is a sentence, which may differ between brokers that answer the same."""
    return key.lower().endswith(("errormessage", "statusdetail", "documentation"))


def summarize_records(api: str, answer: Json, *, offsets: bool = False, contents: bool = False) -> None:
    """Replace record bytes by [base offset, last offset, codec, is control, is transactional] for each batch.

    offsets: followed by the offsets of its records, which have gaps after compaction. For a ShareFetch the number of
    bytes of a partial batch at the end is added. contents: one entry for each record instead, whatever the batches are.
    """
    if api in ("Fetch", "ShareFetch"):
        for topic in answer["responses"]:
            for row in topic["partitions"]:
                row.pop("recordsSizeInBytes", None)
                raw = base64.b64decode(row.get("records") or "")
                if contents:
                    row["records"] = [
                        _record_contents(record)
                        for batch in read_batches(raw, partial_ok=True)
                        for record in batch.records()
                    ]
                    continue
                row["records"] = [
                    [b.base_offset, b.last_offset, b.codec.name.lower(), b.is_control, b.is_transactional]
                    + ([[record.offset for record in b.records()]] if offsets else [])
                    for b in read_batches(raw, partial_ok=True)
                ]
                partial_size = len(raw) - sum(batch.size for batch in read_batches(raw, partial_ok=True))
                if partial_size and api == "ShareFetch":
                    row["records"].append(partial_size)


def _record_contents(record: Record) -> Json:
    """Offset, key, value and headers; a value that is longer than 40 bytes is its length."""
    value = None if record.value is None else record.value.decode("utf-8", "replace")
    return {
        "offset": record.offset,
        "key": None if record.key is None else record.key.decode("utf-8", "replace"),
        "value": f"{len(value)} bytes" if value is not None and len(value) > _SHOWN_LENGTH else value,
        "headers": [
            f"{name}={None if content is None else content.decode('utf-8', 'replace')}"
            for name, content in record.headers
        ],
    }


class Difference(NamedTuple):
    """A place in which two trees differ. path: "/topics/0/errorCode"."""

    path: str
    expected: Json
    got: Json

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, got {self.got}"


def find_differences(expected: Json, got: Json, at: str = "") -> Iterator[Difference]:
    """Every place in which two trees differ; what one lacks is "(nothing)"."""
    if expected == got and isinstance(expected, bool) == isinstance(got, bool):
        return
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in sorted(expected.keys() | got.keys()):
            yield from find_differences(expected.get(key, NOTHING), got.get(key, NOTHING), f"{at}/{key}")
    elif isinstance(expected, list) and isinstance(got, list):
        count = max(len(expected), len(got))
        for index in range(count):
            left, right = ((tree + [NOTHING] * count)[index] for tree in (expected, got))
            yield from find_differences(left, right, f"{at}/{index}")
    else:
        yield Difference(at, expected, got)


NOTHING = "(nothing)"
