"""Decoding and encoding by other libraries: kio (Rust decoder), kafka-python 3 and aiokafka."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Work = Callable[[], Any]

_KIO = {
    "metadata_v12": ("metadata.v12.response", "MetadataResponse"),
    "metadata_v5": ("metadata.v5.response", "MetadataResponse"),
    "fetch_v17": ("fetch.v17.response", "FetchResponse"),
    "fetch_v11": ("fetch.v11.response", "FetchResponse"),
    "produce_v9": ("produce.v9.request", "ProduceRequest"),
    "apiversions_v4": ("api_versions.v4.response", "ApiVersionsResponse"),
    "sharefetch_v1": ("share_fetch.v1.response", "ShareFetchResponse"),
    "shareack_v1": ("share_acknowledge.v1.request", "ShareAcknowledgeRequest"),
    "offsetcommit_v9": ("offset_commit.v9.request", "OffsetCommitRequest"),
    "offsetcommit_v3": ("offset_commit.v3.request", "OffsetCommitRequest"),
}
_KAFKA_PYTHON = {
    "metadata_v12": ("metadata", "MetadataResponse"),
    "metadata_v5": ("metadata", "MetadataResponse"),
    "fetch_v17": ("consumer", "FetchResponse"),
    "fetch_v11": ("consumer", "FetchResponse"),
    "produce_v9": ("producer", "ProduceRequest"),
    "apiversions_v4": ("metadata", "ApiVersionsResponse"),
    "offsetcommit_v9": ("consumer", "OffsetCommitRequest"),
    "offsetcommit_v3": ("consumer", "OffsetCommitRequest"),
}
_AIOKAFKA = {
    "metadata_v5": ("metadata", "MetadataResponse_v5"),
    "fetch_v11": ("fetch", "FetchResponse_v11"),
    "offsetcommit_v3": ("commit", "OffsetCommitRequest_v3"),
}


class Case(NamedTuple):
    """A message to measure, of a size as in real traffic."""

    name: str
    message: str
    version: int
    data: bytes


class Pair(NamedTuple):
    """Decoding and encoding of a case by one library."""

    decode: Work
    encode: Work


def load_cases() -> Iterator[Case]:
    """The messages of the comparison."""
    with gzip.open(Path(__file__).with_name("cases.jsonl.gz"), "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            yield Case(row["case"], row["message"], row["version"], bytes.fromhex(row["hex"]))


def peer_pairs(case: Case) -> dict[str, Pair]:
    """The libraries that support the message in this version; checks that each writes the same bytes."""
    pairs: dict[str, Pair] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's way of loading its schemas.
        for name, make in (("kio", _kio_pair), ("kafka-python", _kafka_python_pair), ("aiokafka", _aiokafka_pair)):
            pair = make(case)
            if pair is None:
                continue
            if bytes(pair.encode()) != case.data:
                raise ValueError(f"{name} writes other bytes for {case.name}")
            pairs[name] = pair
    return pairs


def _class_of(package: str, place: tuple[str, str]) -> Any:
    module, name = place
    return getattr(importlib.import_module(f"{package}.{module}"), name)


def _kio_pair(case: Case) -> Pair | None:
    if case.name not in _KIO:
        return None
    serial = importlib.import_module("kio.serial")
    entity = _class_of("kio.schema", _KIO[case.name])
    read, write = serial.entity_reader(entity), serial.entity_writer(entity)
    value = read(case.data, 0)[0]

    def encode() -> bytes:
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    return Pair(lambda: read(case.data, 0), encode)


def _kafka_python_pair(case: Case) -> Pair | None:
    if case.name not in _KAFKA_PYTHON:
        return None
    entity = _class_of("kafka.protocol", _KAFKA_PYTHON[case.name])
    value = entity.decode(case.data, version=case.version)
    value._header = None  # Without it encode() raises an AttributeError for a message that was decoded.
    return Pair(lambda: entity.decode(case.data, version=case.version), lambda: value.encode(version=case.version))


def _aiokafka_pair(case: Case) -> Pair | None:
    if case.name not in _AIOKAFKA:
        return None
    entity = _class_of("aiokafka.protocol", _AIOKAFKA[case.name])
    value = entity.decode(case.data)
    return Pair(lambda: entity.decode(case.data), value.encode)
