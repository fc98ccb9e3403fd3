"""The golden vectors: messages written by Kafka's classes, with the JSON of Kafka's converters."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kwire.schema import load_schema, message_names, own_message_names

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = {edition: f"vectors-{edition}.jsonl.gz" for edition in ("4.4", "4.3", "4.0-early-access", "before-4.0")}


def metadata_record_versions(edition: str) -> set[tuple[str, int]]:
    """The records of the metadata log by version; tests/kwire/test_metadata_record.py has those of a real log."""
    specs = [load_schema(name, edition) for name in message_names(edition)]
    return {(spec.name, version) for spec in specs if spec.kind == "metadata" for version in spec.versions.to_range()}


#: Messages without golden vectors: a version that Kafka never writes, metadata records, and the records of 4.0.0,
#: recorded from the topics of a real broker (tests/mockbroker/editions/early_records.jsonl). test_round_trips covers
#: all of them.
WITHOUT_VECTORS = {
    "4.4": {("TransactionLogValue", 0), *metadata_record_versions("4.4")},
    "4.3": {("TransactionLogValue", 0), *metadata_record_versions("4.3")},
    "4.0-early-access": {
        (f"Share{kind}{half}", 0)
        for kind in (
            *("Snapshot", "Update", "GroupMetadata", "GroupPartitionMetadata"),
            *("GroupStatePartitionMetadata", "GroupTargetAssignmentMetadata"),
        )
        for half in ("Key", "Value")
    },
    "before-4.0": set(),
}


@dataclass(frozen=True)
class Vector:
    """One message in one version, as bytes and as JSON."""

    edition: str
    message: str
    version: int
    raw: bytes
    json: dict[str, object] = field(default_factory=dict, hash=False)
    tags: tuple[tuple[int, bytes], ...] = ()

    @property
    def label(self) -> str:
        return f"{self.edition} {self.message} v{self.version} {self.raw[:40].hex()}"


@cache
def vectors(edition: str) -> list[Vector]:
    with gzip.open(GOLDEN / FILES[edition], "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [
        Vector(
            edition,
            row["message"],
            row["version"],
            bytes.fromhex(row["hex"]),
            row["json"],
            tuple((tag, bytes.fromhex(content)) for tag, content in row.get("unknownTaggedFields", ())),
        )
        for row in rows
    ]


def all_vectors() -> list[Vector]:
    return [vector for edition in FILES for vector in vectors(edition)]


def own_vectors() -> list[Vector]:
    """The vectors of all editions, without those of messages that an edition inherits."""
    own = {edition: set(own_message_names(edition)) for edition in FILES}
    return [vector for vector in all_vectors() if vector.message in own[vector.edition]]


@cache
def vectors_by_message(edition: str) -> dict[tuple[str, int], list[Vector]]:
    """The vectors of an edition by message name and version."""
    by_message: dict[tuple[str, int], list[Vector]] = defaultdict(list)
    for vector in vectors(edition):
        by_message[vector.message, vector.version].append(vector)
    return by_message
