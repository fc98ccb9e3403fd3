"""Kafka's schema files are parsed, and an invalid one is an error with a reason."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from kwire.errors import SchemaError
from kwire.schema import Versions, load_schema, message_names, own_message_names, parse_message
from kwire.schema.parse import strip_comments
from kwire.schema.versions import NONE

pytestmark = pytest.mark.slow

#: Every key of Kafka's files, with comments in the same positions.
EVERYTHING = """// Not ours, but read.
// A second line.
{
  // A comment with "quotes" and a // in it.
  "apiKey": 99, /* and one of
  two lines */ "type": "request",
  "listeners": ["broker", "controller"],
  "name": "DemoRequest",
  "validVersions": "1-4", // 0 is gone
  "deprecatedVersions": "1",
  "flexibleVersions": "2+",
  "latestVersionUnstable": true,
  "fields": [
    { "name": "Url", "type": "string", "versions": "0+", "nullableVersions": "2+", "default": "http://a//b",
      "entityType": "topicName", "ignorable": "true", "about": "An \\"address\\" // with slashes." },
    { "name": "V1AndBelowLimit", "type": "int32", "versions": "0-1", "default": "0x7fffffff", "mapKey": false },
    { "name": "Blob", "type": "bytes", "versions": "3+", "zeroCopy": true, "flexibleVersions": "none" },
    { "name": "Epoch", "type": "int64", "versions": "2+", "tag": 0, "taggedVersions": "2+", "default": -1 },
    { "name": "Late", "type": "Part", "taggedVersions": "3+", "tag": "1", "nullableVersions": "3+", "default": "null" },
    { "name": "Rows", "type": "[]Row", "versions": "0+", "fields": [
      { "name": "Id", "type": "uuid", "versions": "0+", "mapKey": true },
      { "name": "Parts", "type": "[]Part", "versions": "2+", "default": null }
    ]}
  ],
  "commonStructs": [
    { "name": "Part", "versions": "2+", "about": "Shared.", "fields": [
      { "name": "Inner", "type": "Deep", "versions": "2+" } ]},
    { "name": "Deep", "versions": "2+", "fields": [ { "name": "Ratio", "type": "float64", "versions": "2+" } ] }
  ]
}
"""


def test_every_key_and_comment_of_a_schema_is_read() -> None:
    spec = parse_message(EVERYTHING, "DemoRequest.json")
    url, limit, blob, epoch, late, rows = spec.fields

    assert (spec.name, spec.kind, spec.api_key) == ("DemoRequest", "request", 99)
    assert spec.listeners == ("broker", "controller")
    assert (str(spec.versions), str(spec.flexible_versions), str(spec.deprecated_versions)) == ("1-4", "2+", "1")
    assert spec.latest_unstable
    assert spec.comment == "Not ours, but read.\nA second line."
    assert (url.default, url.entity_type, url.ignorable) == ("http://a//b", "topicName", True)
    assert url.about == 'An "address" // with slashes.'
    assert (limit.snake_name, limit.json_name, limit.default) == ("v1_and_below_limit", "v1AndBelowLimit", 2**31 - 1)
    assert (blob.zero_copy, blob.flexible_versions, blob.default) == (True, NONE, b"")
    assert (epoch.tag, str(epoch.tagged_versions), epoch.default) == (0, "2+", -1)
    assert (late.tag, str(late.versions), late.default) == (1, "3+", None)
    assert (rows.is_array, rows.element_type, rows.fields[0].map_key) == (True, "Row", True)
    assert rows.fields[1].struct == late.struct == spec.common_structs[0]
    assert [struct.name for struct in spec.common_structs] == ["Part", "Deep"]
    assert spec.common_structs[0].fields[0].struct == spec.common_structs[1]


def _schema(**changes: Any) -> dict[str, Any]:
    tree = {
        "apiKey": 1,
        "type": "request",
        "name": "DemoRequest",
        "validVersions": "0-2",
        "flexibleVersions": "1+",
        "fields": [{"name": "Id", "type": "int32", "versions": "0+"}],
    }
    return {**tree, **changes}


def _field(**changes: Any) -> dict[str, Any]:
    return _schema(fields=[{"name": "Id", "type": "int32", "versions": "0+", **changes}])


def _nested(depth: int) -> dict[str, Any]:
    field: dict[str, Any] = {"name": "Leaf", "type": "int8", "versions": "0+"}
    for level in range(depth):
        field = {"name": f"F{level}", "type": f"S{level}", "versions": "0+", "fields": [field]}
    return _schema(fields=[field])


STRUCT = {"name": "Part", "versions": "0+", "fields": [{"name": "A", "type": "Part", "versions": "0+"}]}

WRONG: list[tuple[object, str, str]] = [
    ("{", "", "is not JSON"),
    ("[" * 100_000, "", "is not JSON"),
    ([], "", "is not a JSON object"),
    (_schema(name=None), "", "name is missing"),
    (_schema(name="import os"), "", "alphanumeric"),
    (_schema(name="class"), "", "word of Python"),
    (_schema(type="requests"), "", "type 'requests' is not one of"),
    (_schema(apiKey=None), "", "needs an apiKey"),
    (_schema(apiKey=1.5), "", "apiKey 1.5 is not an integer"),
    (_schema(apiKey=True), "", "apiKey True is not an integer"),
    (_schema(validVersions="0+"), "", "must end"),
    (_schema(validVersions="3-1"), "", "empty or too high"),
    (_schema(validVersions="-1"), "", "validVersions: '-1' is not a range"),
    (_schema(validVersions=3), "", "validVersions is not a text"),
    (_schema(flexibleVersions="0-1"), "", "must be open at the end"),
    (_schema(flexibleVersions=None), "", "flexibleVersions is missing"),
    (_schema(listeners="broker"), "", "listeners"),
    (_schema(latestVersionUnstable="maybe"), "", "neither true nor false"),
    (_schema(apikey=1), "", "key 'apikey' is not known"),
    (_schema(fields=[1]), "", "fields is not a list of objects"),
    (_schema(commonStructs=[STRUCT]), "commonStructs", "contain themselves"),
    (_schema(commonStructs=[{**STRUCT, "fields": []}] * 2), "commonStructs", "the same name"),
    (_field(name="Id; import os"), "", "alphanumeric"),
    (_field(type="int128"), "Id", "neither a known type nor the name of a struct"),
    (_field(type="[][]int32"), "Id", "neither a known type"),
    (_field(type="[]records"), "Id", "does not exist"),
    (_field(type="Missing"), "Id", "is not defined"),
    (_field(versions=None), "Id", "versions is missing"),
    (_field(versions="x"), "Id", "not a range"),
    (_field(nullableVersions="0+"), "Id", "cannot be null"),
    (_field(tag=0), "Id", "go together"),
    (_field(taggedVersions="1+"), "Id", "go together"),
    (_field(tag=-1, taggedVersions="1+"), "Id", "negative"),
    (_field(tag=0, taggedVersions="1-2"), "Id", "open at the end"),
    (_field(tag=0, taggedVersions="0+"), "Id", "beyond the flexible versions"),
    (_field(tag=1, taggedVersions="1+"), "", "count up from 0"),
    (_field(default="x"), "Id", "not an integer"),
    (_field(default="2147483648"), "Id", "does not fit int32"),
    (_field(default="null"), "Id", "not an integer"),
    (_field(default=[]), "Id", "is not a text"),
    (_field(type="bool", default="yes"), "Id", "neither true nor false"),
    (_field(type="float64", default="NaN"), "Id", "NaN"),
    (_field(type="uuid", default="x"), "Id", "not a UUID"),
    (_field(type="string", default="null"), "Id", "not nullable"),
    (_field(type="[]int32", default="1"), "Id", "empty or null"),
    (_field(flexibleVersions="none"), "Id", "only a string or bytes"),
    (_field(mapkey=True), "Id", "key 'mapkey' is not known"),
    (_field(mapKey=1), "Id", "neither true nor false"),
    (_field(fields=[{"name": "A", "type": "int8", "versions": "0+"}]), "Id", "has no fields"),
    (_field(about=5), "Id", "about is not a text"),
    (_schema(fields=[_field()["fields"][0]] * 2), "Id", "the same name"),
    (_nested(40), "F39.F38", "nested more than"),
]


@pytest.mark.parametrize(("tree", "field", "reason"), WRONG, ids=lambda value: str(value)[:40])
def test_an_invalid_schema_error_names_file_message_field_and_reason(tree: object, field: str, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_message(tree if isinstance(tree, str) else json.dumps(tree), "Demo.json")

    assert caught.value.file == "Demo.json"
    assert caught.value.message == ("DemoRequest" if isinstance(tree, dict) and tree["name"] == "DemoRequest" else "")
    assert caught.value.field.startswith(field)
    assert reason in caught.value.reason


def test_a_struct_must_not_be_defined_twice() -> None:
    part = {"type": "Part", "versions": "0+", "fields": [{"name": "A", "type": "int8", "versions": "0+"}]}

    with pytest.raises(SchemaError, match="another struct or message has the name Part"):
        parse_message(json.dumps(_schema(fields=[{"name": "X", **part}, {"name": "Y", **part}])))


def test_the_schemas_of_all_releases_are_complete() -> None:
    assert (len(message_names()), len(message_names("4.3"))) == (280, 274)
    assert len(own_message_names("4.3")) == 12
    assert len(own_message_names("4.0-early-access")) == 30  # 18 of the RPCs, 4 of the records of share state.
    assert load_schema("ShareFetchRequest", "4.0-early-access").versions == Versions(0, 0)
    assert load_schema("MetadataRequest", "4.0-early-access") is load_schema("MetadataRequest", "4.0-early-access")
    assert load_schema("MetadataRequest", "4.0-early-access") == load_schema("MetadataRequest")


def _spots(tree: Any) -> list[tuple[Any, Any]]:
    """Every value in a JSON tree, by its container and key."""
    pairs = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    return [(tree, key) for key, _ in pairs] + [spot for _, below in pairs for spot in _spots(below)]


ODD: list[object] = [None, True, 0, -1, 2.5, 10**30, "", "x", "0-3", "0+", "none", "[]Row", "\ud800", [], {}, [1], [{}]]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_any_value_at_any_path_of_a_schema_is_accepted_or_rejected_with_a_reason(odd: object) -> None:
    plain = strip_comments(EVERYTHING)

    for number in range(len(_spots(json.loads(plain)))):
        tree = json.loads(plain)
        holder, key = _spots(tree)[number]
        holder[key] = odd
        # Any other exception fails the test.
        with contextlib.suppress(SchemaError):
            parse_message(json.dumps(tree), "Demo.json")
