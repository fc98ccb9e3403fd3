"""The generated code is up to date, and a new schema file works like the others."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.generate.__main__ import main, render_all

ROOT = Path(__file__).parents[3]

#: Every type, single and in arrays, null and tagged, in versions with and without compact lengths.
NEW_SCHEMA = {
    "apiKey": 4000,
    "type": "request",
    "listeners": ["broker"],
    "name": "BrandNewRequest",
    "validVersions": "0-2",
    "flexibleVersions": "1+",
    "fields": [
        {"name": "Type", "type": "bool", "versions": "0+", "default": "true"},
        {"name": "Data", "type": "uint16", "versions": "0+", "about": 'Quotes """ and a backslash \\ at the end\\'},
        {"name": "Len", "type": "uint32", "versions": "0+"},
        {"name": "Ratio", "type": "float64", "versions": "0+"},
        {"name": "At", "type": "string", "versions": "0+", "default": 'say "hi"\n'},
        {"name": "Message", "type": "bytes", "versions": "0+", "nullableVersions": "1+"},
        {"name": "Parts", "type": "records", "versions": "0+", "nullableVersions": "0+"},
        {"name": "Flags", "type": "[]bool", "versions": "0+", "nullableVersions": "2+"},
        {"name": "Tiny", "type": "[]int8", "versions": "0+", "nullableVersions": "0+"},
        {"name": "Ports", "type": "[]uint16", "versions": "0+"},
        {"name": "Wide", "type": "[]uint32", "versions": "0+"},
        {"name": "Offsets", "type": "[]int64", "versions": "0+"},
        {"name": "Ratios", "type": "[]float64", "versions": "0+"},
        {"name": "Ids", "type": "[]uuid", "versions": "0+"},
        {"name": "Names", "type": "[]string", "versions": "0+", "nullableVersions": "0+"},
        {"name": "Blobs", "type": "[]bytes", "versions": "0+"},
        {"name": "Old", "type": "string", "versions": "1+", "flexibleVersions": "none", "nullableVersions": "2+"},
        {"name": "Pairs", "type": "[]Pair", "versions": "0+", "nullableVersions": "0+"},
        {"name": "One", "type": "Pair", "versions": "0+", "nullableVersions": "1+"},
        {"name": "Late", "type": "Pair", "taggedVersions": "1+", "tag": 0, "nullableVersions": "1+", "default": "null"},
        {"name": "Count", "type": "int32", "versions": "0+", "taggedVersions": "1+", "tag": 1, "default": "5"},
        {"name": "Flag", "type": "bool", "versions": "1+", "taggedVersions": "1+", "tag": 2},
        {"name": "More", "type": "[]Pair", "versions": "2+", "taggedVersions": "2+", "tag": 3, "ignorable": True},
    ],
    "commonStructs": [
        {
            "name": "Pair",
            "versions": "0+",
            "fields": [
                {"name": "Left", "type": "int64", "versions": "0+"},
                {"name": "Right", "type": "int16", "versions": "1+", "ignorable": True, "default": "-1"},
                {"name": "Note", "type": "string", "taggedVersions": "2+", "tag": 0, "ignorable": True},
            ],
        }
    ],
}

USE_IT = """
from kwire import schema_codec, decode, encode, from_json, to_json
from kwire.messages.brand_new import BrandNewRequest, Pair
from kwire.registry import codec_of_class, api_name

one, two = Pair(1, 2, "n"), Pair(-1, 3)
for many in (0, 1, 2, 31, 32, 33, 127, 128, 300):
    for version in (0, 1, 2):
        message = BrandNewRequest(
            False, 65535, 4294967295, 0.25, "x" * many, b"m" * many, b"r" * many, (True, False) * many, (-1,) * many,
            (65535,) * many, (7,) * many, (-(1 << 63),) * many, (1.5,) * many, (b"i" * 16,) * many, ("n",) * many,
            (b"b",) * many, pairs=[one, two] * many, one=two, more=[one] * many,
        )
        if version:
            message.old, message.late, message.count, message.flag = "o" * many, one, 6, True
        raw = encode(message, version)
        found = decode(BrandNewRequest, version, raw)
        codec = codec_of_class(BrandNewRequest)
        fast, end = codec.readers[version](raw, 0)
        assert end == len(raw) and fast == found == schema_codec.read_message(codec, version, raw, 0)
        assert encode(found, version) == raw == schema_codec.write_message(codec, version, found)
        assert from_json(BrandNewRequest, version, to_json(found, version)) == found
        if version == 2:
            assert found == message
empty = BrandNewRequest(flags=None, parts=None, tiny=None, names=None, pairs=None, one=None, message=None, old=None)
assert decode("BrandNewRequest", 2, encode(empty, 2)) == empty
assert BrandNewRequest().at == 'say "hi"\\n'
print("works", api_name(4000), encode(BrandNewRequest(), 2).hex())
"""


def test_the_generated_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out


def test_check_lists_what_would_change_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, text in render_all().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    messages = tmp_path / "kwire" / "messages"
    edited, surplus, missing = (messages / f"{name}.py" for name in ("fetch", "surplus", "metadata"))
    edited.write_text(edited.read_text(encoding="utf-8") + "# by hand\n", encoding="utf-8")
    surplus.write_text("", encoding="utf-8")
    missing.unlink()

    assert main(["--check", "--root", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"would change: kwire/messages/{name}.py" for name in ("fetch", "metadata", "surplus")
    ]
    assert surplus.exists()
    assert not missing.exists()
    assert main(["--root", str(tmp_path)]) == 0
    assert main(["--check", "--root", str(tmp_path)]) == 0
    assert not surplus.exists()


def test_a_new_schema_file_becomes_a_message_like_the_others(tmp_path: Path) -> None:
    for part in ("kwire", "schemas", "tools/generate"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tools" / "__init__.py", tmp_path / "tools")
    schema = tmp_path / "schemas" / "messages" / "BrandNewRequest.json"
    schema.write_text("// A comment, as in Kafka's files.\n" + json.dumps(NEW_SCHEMA), encoding="utf-8")
    response = {**NEW_SCHEMA, "type": "response", "name": "BrandNewResponse", "fields": [], "commonStructs": []}
    del response["listeners"]
    schema.with_name("BrandNewResponse.json").write_text(json.dumps(response), encoding="utf-8")

    assert _run(tmp_path, "-m", "tools.generate", "--check").returncode == 1
    assert _run(tmp_path, "-m", "tools.generate").returncode == 0
    used = _run(tmp_path, "-c", USE_IT)

    assert used.stderr == ""
    assert used.stdout.startswith("works BrandNew 01")


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
