"""The JSON Schema of the protocol: as published, and equal to what the typed reader accepts."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from typing import Any

import jsonschema
import msgspec
import pytest

from mockbroker.certify.driver.methods import METHODS, driver_schema
from tests.support.certify.scripted_driver import answer

_PLACE = {"topic": "orders", "partition": 0}
#: Requests with all of their optional fields, by method.
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("hello", {"protocol": 1}),
    ("open", {"client": "p", "kind": "producer", "settings": {"acks": "all"}}),
    (
        "send",
        {"client": "p", "topic": "orders", "records": [{"value": None, "headers": [["h", None]]}], "timeout_ms": 1},
    ),
    (
        "assign",
        {"client": "c", "partitions": [{**_PLACE, "offset": "earliest"}, {**_PLACE, "offset": 3}], "timeout_ms": 1},
    ),
    ("poll", {"client": "c", "timeout_ms": 1, "max_records": 1, "wakeup_after_ms": 1}),
    ("acknowledge", {"client": "c", "records": [{**_PLACE, "offset": 1, "type": "renew"}], "timeout_ms": 1}),
    (
        "list_offsets",
        {"client": "a", "partitions": [{**_PLACE, "spec": "latest"}, {**_PLACE, "spec": 5}], "timeout_ms": 1},
    ),
]
#: Results that the reader refuses, by method.
WRONG_RESULTS: list[tuple[str, Any]] = [
    ("hello", {"protocol": "1", "name": "a", "version": "1", "language": "C", "capabilities": []}),
    ("poll", {"records": [{**_PLACE, "offset": -1, "key": None, "value": None}]}),
    ("poll", {"events": [{"type": "rebalanced", "partitions": []}]}),
    ("send", {"deliveries": [{"topic": "orders", "offset": -1}]}),
    ("send", {"deliveries": [{**_PLACE, "offset": None}]}),
    ("send", {"deliveries": [{"error": None}]}),
    ("commit", {"partitions": [{"topic": "orders"}]}),
    ("committed", {"offsets": [_PLACE]}),
    ("describe_cluster", {"cluster_id": "x", "controller": 1, "nodes": [{"id": "1"}]}),
]


def _validator(schema: dict[str, Any]) -> Any:
    return jsonschema.Draft202012Validator({**schema, "$defs": driver_schema()["$defs"]})


def _result_schema(method: str) -> dict[str, Any]:
    schema: dict[str, Any] = driver_schema()["x-results"][method]
    return schema


def test_results_are_decoded_by_several_threads_at_once_without_a_crash() -> None:
    """msgspec 0.22 crashes if threads build its description of a type, which a decoder that exists has, at once."""
    program = """
import msgspec, sys, threading
from mockbroker.certify.driver.methods import RESULT_DECODERS
sys.setswitchinterval(1e-6)
barrier = threading.Barrier(8)
def decode():
    barrier.wait()
    for decoder in RESULT_DECODERS.values():
        try:
            decoder.decode(b'{"records": [{}], "deliveries": [{}], "events": [{}]}')
        except msgspec.ValidationError:
            pass
threads = [threading.Thread(target=decode) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_published_schema_is_that_of_the_types() -> None:
    published = resources.files("mockbroker.certify.driver").joinpath("driver.schema.json").read_text("utf-8")

    assert _sort_alternatives(json.loads(published)) == _sort_alternatives(json.loads(json.dumps(driver_schema())))
    jsonschema.Draft202012Validator.check_schema(driver_schema())


def _sort_alternatives(schema: Any) -> Any:
    """The schema with sorted alternatives: their order has no meaning, and msgspec before 0.22 has another one."""
    if isinstance(schema, list):
        return [_sort_alternatives(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _sort_alternatives(value) for key, value in schema.items()}
    if isinstance(found.get("anyOf"), list):
        found["anyOf"].sort(key=repr)
    return found


@pytest.mark.parametrize(("method", "params"), REQUESTS)
def test_a_request_is_valid_and_is_written_as_it_was_read(method: str, params: dict[str, Any]) -> None:
    jsonschema.validate({"id": 1, "method": method, "params": params}, driver_schema())

    typed = msgspec.convert(params, METHODS[method].params)

    assert json.loads(msgspec.json.encode(typed)) == params


def test_a_request_with_an_unknown_setting_is_invalid() -> None:
    params = {"client": "p", "kind": "producer", "settings": {"colour": "red"}}

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"id": 1, "method": "open", "params": params}, driver_schema())


@pytest.mark.parametrize("method", ["hello", "open", "close", "send"])
def test_results_of_a_correct_driver_are_valid(method: str) -> None:
    line = {"id": 1, **answer("good", {"method": method, "params": {"client": "p", "records": [{"value": "a"}]}})}

    jsonschema.validate(line, driver_schema())
    _validator(_result_schema(method)).validate(line["result"])
    msgspec.convert(line["result"], METHODS[method].result)


@pytest.mark.parametrize(("method", "result"), WRONG_RESULTS)
def test_reader_and_schema_refuse_the_same_results(method: str, result: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        _validator(_result_schema(method)).validate(result)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(result, METHODS[method].result)
