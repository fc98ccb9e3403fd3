"""Every request and response of every version, as Kafka's own classes write them, goes through the capture reader."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from kwire import registry
from kwire.capture.rows import Row
from kwire.cli.main import main
from kwire.payload import PLACES
from kwire.redact import CONFIG_MESSAGES, SECRET_FIELDS
from tests.kwire.capture.wire import Talk, issue_kinds, pcap

GOLDEN = Path(__file__).parents[2] / "golden" / "vectors.jsonl.gz"
Vector = dict[str, object]


@cache
def vectors() -> dict[tuple[str, int], list[Vector]]:
    found: dict[tuple[str, int], list[Vector]] = defaultdict(list)
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        for line in lines:
            vector = json.loads(line)
            found[vector["message"], vector["version"]].append(vector)
    return found


def header(name: str, version: int, *fields: object) -> bytes:
    codec = registry.codec_of_name(name)
    return b"".join(codec.writers[version](codec.message(*fields)))


def body(vector: Vector) -> bytes:
    return bytes.fromhex(str(vector["hex"]))


def conversation() -> tuple[Talk, list[tuple[Vector, Vector]]]:
    """One connection that carries every version of every API, each vector of a request with one of its response."""
    talk, told = Talk().open(), []
    first = next(iter(vectors()["ApiVersionsRequest", 0]))
    told.append((first, vectors()["ApiVersionsResponse", 0][0]))
    for api_key in registry.API_KEYS:
        name, (low, high) = registry.api_name(api_key), registry.api_versions(api_key)
        for version in range(low, high + 1):
            pairs = zip(vectors()[f"{name}Request", version], vectors()[f"{name}Response", version], strict=True)
            told += list(pairs)
    for number, (request, response) in enumerate(told):
        api_key = registry.codec_of_name(str(request["message"])).api_key
        assert api_key is not None
        version = int(str(request["version"]))
        asked, answered = registry.header_versions(api_key, version)
        talk.asks(header("RequestHeader", asked, api_key, version, number, "me") + body(request))
        if not is_silent(request):
            talk.answers(header("ResponseHeader", answered, number) + body(response))
    return talk, told


def is_silent(request: Vector) -> bool:
    """A Produce without acks, which no broker answers."""
    tree = request["json"]
    assert isinstance(tree, dict)
    return request["message"] == "ProduceRequest" and tree["acks"] == 0


def row_of(found: list[Row]) -> dict[object, Row]:
    return {row["correlation_id"]: row for row in found}


def is_changed(name: str) -> bool:
    """Messages whose JSON is not shown as it is."""
    return name in SECRET_FIELDS or name in CONFIG_MESSAGES or name in PLACES


def test_every_version_of_every_api_is_matched_and_decoded_to_its_golden_json() -> None:
    talk, told = conversation()
    found = row_of(talk.rows())

    assert len(told) > 900
    assert len(found) == len(told)
    for number, (request, response) in enumerate(told):
        row = found[number]
        assert row["status"] == "ok", (request["message"], request["version"], row["issues"])
        assert f"{row['api_name']}Request" == request["message"]
        if not is_changed(str(request["message"])):
            assert json.loads(str(row["body_request"])) == request["json"]
        is_fallback = "version_fallback" in issue_kinds([row])
        if row["body_response"] is not None and not is_fallback and not is_changed(str(response["message"])):
            assert json.loads(str(row["body_response"])) == response["json"]


@pytest.mark.parametrize("level", ["partitions", "share_acquired", "share_acks", "records"])
def test_every_level_can_be_made_of_every_message(level: str) -> None:
    talk, _ = conversation()

    assert talk.rows(level)


@pytest.mark.parametrize("form", ["table", "tree"])
def test_every_message_can_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    talk, told = conversation()
    path = tmp_path / "all.pcap"
    path.write_bytes(pcap(talk.wires))

    assert main(["decode", str(path), "--format", form]) == 0
    text = capsys.readouterr().out
    assert text.count("\n") > len(told)
    # Records in the golden vectors are no batches; but every message must end where its frame does.
    assert "behind the end of the message" not in text
