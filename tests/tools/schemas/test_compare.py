"""The comparison with Kafka's jars detects every kind of difference; the schemas have none."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.schema import FieldSpec, MessageSpec, StructSpec, load_schema, parse_message, schema_root
from tests.support import needs
from tools.schemas.__main__ import main
from tools.schemas.compare import compare_schema_sets, compare_schemas
from tools.schemas.jars import SOURCES, cache_folder, fetch_jars, read_schemas
from tools.schemas.removed import removed_schemas

THEIRS = """
// A comment of the file.
{ "apiKey": 1, "type": "request", "name": "SampleRequest", "validVersions": "0-1", "flexibleVersions": "none",
  "fields": [
    // A comment of a field, with a "quote" and a // in it.
    { "name": "Address", "type": "string", "versions": "0+", "default": "tcp://x", "about": "Their words." },
    { "name": "Rows", "type": "[]Row", "versions": "1+", "fields": [
      { "name": "Id", "type": "int32", "versions": "1+", "default": "-1" } ]} ],
  "commonStructs": [ { "name": "Shared", "versions": "0+", "fields": [
    { "name": "Deep", "type": "bool", "versions": "0+" } ] } ]
}
"""
OURS = {
    "apiKey": 1,
    "type": "request",
    "name": "SampleRequest",
    "validVersions": "0-1",
    "flexibleVersions": "none",
    "fields": [
        {"name": "Address", "type": "string", "versions": "0+", "default": "tcp://x", "about": "Ours."},
        {
            "name": "Rows",
            "type": "[]Row",
            "versions": "1+",
            "fields": [{"name": "Id", "type": "int32", "versions": "1+", "default": -1}],
        },
    ],
    "commonStructs": [
        {"name": "Shared", "versions": "0+", "fields": [{"name": "Deep", "type": "bool", "versions": "0+"}]}
    ],
}


def differences(old: str, new: str) -> list[str]:
    text = json.dumps(OURS)
    assert text.count(old) == 1
    return [str(difference) for difference in compare_schemas("SampleRequest.json", text.replace(old, new), THEIRS)]


def test_comments_texts_and_the_notation_of_numbers_are_not_differences() -> None:
    assert compare_schemas("SampleRequest.json", json.dumps(OURS), THEIRS) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"validVersions": "0-1"', '"validVersions": "0-2"', "validVersions: ours 0-2, Kafka's 0-1"),
        ('"tcp://x"', '"tcp://y"', "Address: default: ours tcp://y, Kafka's tcp://x"),
        ('"name": "Id",', '"name": "Id", "ignorable": true,', "Rows.Id: ignorable: ours true, Kafka's missing"),
        ('"default": -1', '"default": 1', "Rows.Id: default: ours 1, Kafka's -1"),
        ('"type": "bool"', '"type": "int8"', "Shared.Deep: type: ours int8, Kafka's bool"),
        ('"name": "Shared"', '"name": "Own"', "Own: commonStructs: ours present, Kafka's missing"),
        ('"name": "Deep"', '"name": "Flat"', "Shared.Flat: fields: ours present, Kafka's missing"),
    ],
)
def test_every_kind_of_difference_is_reported_with_its_path(old: str, new: str, expected: str) -> None:
    assert f"SampleRequest.json: {expected}" in differences(old, new)


def test_fields_in_another_order_are_a_difference() -> None:
    turned = {**OURS, "fields": list(reversed(OURS["fields"]))}  # type: ignore[call-overload]

    found = compare_schemas("SampleRequest.json", json.dumps(turned), THEIRS)

    assert [difference.key for difference in found] == ["order of fields"]


def test_a_file_that_only_one_side_has_is_a_difference() -> None:
    found = compare_schema_sets({"A.json": "{}"}, {"B.json": "{}"})

    assert [str(difference) for difference in found] == [
        "A.json: file: ours present, Kafka's missing",
        "B.json: file: ours missing, Kafka's present",
    ]


def write_jars(folder: Path, change: tuple[str, str] | None = None) -> None:
    """Jars with the project's schemas, but for one change."""
    files = [path for name in ("messages", "records", "metadata") for path in (schema_root() / name).glob("*.json")]
    for artifact in SOURCES["4.4"].artifacts:
        with zipfile.ZipFile(folder / f"{artifact}-4.4.0.jar", "w") as jar:
            for path in files if artifact == "kafka-clients" else []:
                text = path.read_text(encoding="utf-8")
                jar.writestr(f"common/message/{path.name}", text.replace(*change) if change else text)


def test_the_command_returns_1_and_prints_the_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    field = '"name": "ShareSessionEpoch", "type": '
    write_jars(tmp_path, (f'{field}"int32"', f'{field}"int64"'))

    assert main(["--jars", str(tmp_path)]) == 1
    assert "ShareFetchRequest.json: ShareSessionEpoch: type: ours int32, Kafka's int64" in capsys.readouterr().out


def test_the_command_returns_2_when_a_jar_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jars", str(tmp_path)]) == 2
    assert "kafka-clients-4.4.0.jar" in capsys.readouterr().err


def test_schemas_are_those_of_the_official_jars(capsys: pytest.CaptureFixture[str]) -> None:
    needs.tool("mvn")

    code = main([])

    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.splitlines() == [
        "edition 4.4: 280 files compared with Kafka 4.4.0, 0 differences",
        "edition 4.3: 274 files compared with Kafka 4.3.0, 0 differences",
        "edition before-4.0: 49 files compared with Kafka 3.9.1, 0 differences",
        "edition 4.0-early-access: 36 files compared with Kafka 4.0.0, 0 differences",
    ]
    assert code == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{ not JSON", "is not JSON with comments"),
        (b"[]", "is not a JSON object"),
        (b'{"name": "A", "fields": {}}', "fields: is not a list"),
        (b'{"name": "A", "fields": [{"name": "B", "fields": [{"type": "int8"}]}]}', "fields[0].fields[0]: is not an"),
        (b"\xff{}", "is not UTF-8"),
    ],
)
def test_a_file_that_is_no_schema_is_named_and_the_exit_code_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, reason: str
) -> None:
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages" / "A.json").write_bytes(content)

    assert main(["--schemas", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"tools.schemas: {tmp_path / 'messages' / 'A.json'}: {reason}")
    assert printed.err.count("\n") == 1


def test_of_an_earlier_release_only_the_versions_below_the_newest_and_their_fields_are_compared() -> None:
    earlier = {
        "A.json": THEIRS.replace('"0-1"', '"0-5"'),
        "Gone.json": THEIRS,
        "Kept.json": THEIRS,
        "Missing.json": THEIRS,
        "ShareA.json": THEIRS.replace('"0-1"', '"0-5"'),
    }
    newest = {
        "A.json": THEIRS.replace('"0-1"', '"1-9"'),
        "Gone.json": THEIRS.replace('"0-1"', '"none"'),
        "Kept.json": THEIRS.replace('"0-1"', '"0-9"'),
        "ShareA.json": THEIRS.replace('"0-1"', '"1-9"'),
    }

    removed = {file: json.loads(text) for file, text in removed_schemas(earlier, newest).items()}

    assert {file: tree["validVersions"] for file, tree in removed.items()} == {"A.json": "0", "Gone.json": "0-1"}
    assert [field["name"] for field in removed["A.json"]["fields"]] == ["Address"]
    assert [field["name"] for field in removed["Gone.json"]["fields"]] == ["Address", "Rows"]
    assert [struct["name"] for struct in removed["A.json"]["commonStructs"]] == ["Shared"]


@pytest.mark.parametrize("folder", ["", "messages"])
def test_a_folder_without_schemas_is_named_and_the_exit_code_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)

    assert main(["--schemas", str(tmp_path)]) == 2
    text = f"tools.schemas: {tmp_path / 'messages'}: has no schemas, which edition 4.4 needs\n"
    assert capsys.readouterr().err == text


def test_kafkas_files_are_parsed_with_their_comments() -> None:
    needs.tool("mvn")
    source = SOURCES["4.4"]
    fetch_jars(source, cache_folder())

    texts = read_schemas(source, cache_folder())

    assert len(texts) == 280
    for file, text in texts.items():
        theirs = parse_message(text, file)
        assert without_prose(theirs) == without_prose(load_schema(theirs.name))


def without_prose(spec: MessageSpec) -> MessageSpec:
    common = tuple(replace(struct, fields=muted(struct.fields), about="") for struct in spec.common_structs)
    return replace(spec, fields=muted(spec.fields), common_structs=common, about="", comment="")


def muted(fields: tuple[FieldSpec, ...]) -> tuple[FieldSpec, ...]:
    return tuple(replace(field, about="", struct=muted_struct(field.struct)) for field in fields)


def muted_struct(struct: StructSpec | None) -> StructSpec | None:
    return struct and replace(struct, fields=muted(struct.fields), about="")
