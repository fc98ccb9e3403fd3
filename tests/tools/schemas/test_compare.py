"""The comparison with Kafka's jars finds every kind of difference, and there is none."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.schema import FieldSpec, MessageSpec, StructSpec, load, parse_message, schema_root
from tests import needs
from tools.schemas.__main__ import main
from tools.schemas.compare import compare, compare_all
from tools.schemas.jars import SOURCES, cache_folder, fetch, schemas_in

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
    return [str(difference) for difference in compare("SampleRequest.json", text.replace(old, new), THEIRS)]


def test_comments_prose_and_the_spelling_of_numbers_are_no_differences() -> None:
    assert compare("SampleRequest.json", json.dumps(OURS), THEIRS) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"validVersions": "0-1"', '"validVersions": "0-2"', "validVersions: ours 0-2, Kafka's 0-1"),
        ('"tcp://x"', '"tcp://y"', "Address: default: ours tcp://y, Kafka's tcp://x"),
        ('"name": "Id",', '"name": "Id", "ignorable": true,', "Rows.Id: ignorable: ours true, Kafka's missing"),
        ('"default": -1', '"default": 1', "Rows.Id: default: ours 1, Kafka's -1"),
        ('"type": "bool"', '"type": "int8"', "Shared.Deep: type: ours int8, Kafka's bool"),
        ('"name": "Shared"', '"name": "Own"', "Own: commonStructs: ours there, Kafka's missing"),
        ('"name": "Deep"', '"name": "Flat"', "Shared.Flat: fields: ours there, Kafka's missing"),
    ],
)
def test_every_kind_of_difference_is_told_with_its_place(old: str, new: str, told: str) -> None:
    assert f"SampleRequest.json: {told}" in differences(old, new)


def test_fields_in_another_order_are_a_difference() -> None:
    turned = {**OURS, "fields": list(reversed(OURS["fields"]))}  # type: ignore[call-overload]

    found = compare("SampleRequest.json", json.dumps(turned), THEIRS)

    assert [difference.key for difference in found] == ["order of fields"]


def test_a_file_that_only_one_side_has_is_a_difference() -> None:
    found = compare_all({"A.json": "{}"}, {"B.json": "{}"})

    assert [str(difference) for difference in found] == [
        "A.json: file: ours there, Kafka's missing",
        "B.json: file: ours missing, Kafka's there",
    ]


def write_jars(folder: Path, change: tuple[str, str] | None = None) -> None:
    """Jars of our own making that say what our schemas say, but for one change."""
    files = [*(schema_root() / "messages").glob("*.json"), *(schema_root() / "records").glob("*.json")]
    for artifact in SOURCES["4.3"].artifacts:
        with zipfile.ZipFile(folder / f"{artifact}-4.3.0.jar", "w") as jar:
            for path in files if artifact == "kafka-clients" else []:
                text = path.read_text(encoding="utf-8")
                jar.writestr(f"common/message/{path.name}", text.replace(*change) if change else text)


def test_the_command_answers_1_and_prints_the_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    field = '"name": "ShareSessionEpoch", "type": '
    write_jars(tmp_path, (f'{field}"int32"', f'{field}"int64"'))

    assert main(["--jars", str(tmp_path)]) == 1
    assert "ShareFetchRequest.json: ShareSessionEpoch: type: ours int32, Kafka's int64" in capsys.readouterr().out


def test_the_command_answers_2_when_a_jar_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jars", str(tmp_path)]) == 2
    assert "kafka-clients-4.3.0.jar" in capsys.readouterr().err


def test_schemas_are_those_of_the_official_jars(capsys: pytest.CaptureFixture[str]) -> None:
    needs.tool("mvn")

    code = main([])

    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.splitlines() == [
        "edition 4.3: 248 files compared with Kafka 4.3.0, 0 differences",
        "edition 4.0-early-access: 36 files compared with Kafka 4.0.0, 0 differences",
    ]
    assert code == 0


def test_kafkas_own_files_with_their_comments_are_read_as_they_are() -> None:
    needs.tool("mvn")
    source = SOURCES["4.3"]
    fetch(source, cache_folder())

    texts = schemas_in(source, cache_folder())

    assert len(texts) == 248
    for file, text in texts.items():
        theirs = parse_message(text, file)
        assert without_prose(theirs) == without_prose(load(theirs.name))


def without_prose(spec: MessageSpec) -> MessageSpec:
    common = tuple(replace(struct, fields=muted(struct.fields), about="") for struct in spec.common_structs)
    return replace(spec, fields=muted(spec.fields), common_structs=common, about="", comment="")


def muted(fields: tuple[FieldSpec, ...]) -> tuple[FieldSpec, ...]:
    return tuple(replace(field, about="", struct=muted_struct(field.struct)) for field in fields)


def muted_struct(struct: StructSpec | None) -> StructSpec | None:
    return struct and replace(struct, fields=muted(struct.fields), about="")
