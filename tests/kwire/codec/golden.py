"""The golden vectors: written by Kafka's own classes, with the JSON that Kafka's own converters give."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = {"4.3": "vectors.jsonl.gz", "4.0-early-access": "vectors-4.0-early-access.jsonl.gz"}

#: What the golden files leave out: a version that 4.3.0 never writes, and the records of 4.0.0, which a real broker's
#: topics show (tests/mockbroker/editions/early_records.jsonl). Hypothesis covers all in test_round_trips.
WITHOUT_VECTORS = {
    "4.3": {("TransactionLogValue", 0)},
    "4.0-early-access": {
        (f"Share{kind}{half}", 0)
        for kind in (
            *("Snapshot", "Update", "GroupMetadata", "GroupPartitionMetadata"),
            *("GroupStatePartitionMetadata", "GroupTargetAssignmentMetadata"),
        )
        for half in ("Key", "Value")
    },
}


@dataclass(frozen=True)
class Vector:
    """One message in one version, as bytes and as JSON."""

    edition: str
    message: str
    version: int
    raw: bytes
    json: dict[str, object]
    tags: tuple[tuple[int, bytes], ...]

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
