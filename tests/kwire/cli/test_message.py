"""``kwire message``: hex to JSON, tree and annotated hex, and JSON to hex."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from kwire.cli.main import main
from tests.support.cli.commands import Capsys
from tests.support.messages.golden_vectors import GOLDEN

ONE_TOPIC = "00000001000161"


def decode(capsys: Capsys, *arguments: str, code: int = 0) -> str:
    assert main(["message", "decode", *arguments]) == code
    return capsys.readouterr().out


def test_golden_vectors_decode_to_their_json_and_encode_to_their_hex(capsys: Capsys) -> None:
    with gzip.open(GOLDEN / "vectors-4.4.jsonl.gz", "rt", encoding="utf-8") as lines:
        vectors = [json.loads(line) for line in lines]
    chosen = [vector for vector in vectors if "unknownTaggedFields" not in vector][::40]
    for vector in chosen:
        name, version = vector["message"], str(vector["version"])
        assert json.loads(decode(capsys, name, version, vector["hex"], "--show-secrets")) == vector["json"]
        assert main(["message", "encode", name, version, json.dumps(vector["json"])]) == 0
        assert capsys.readouterr().out.strip() == vector["hex"]
    assert len(chosen) > 30


def test_hex_may_have_blanks_colons_and_prefixes_and_come_from_stdin(
    capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = {"topics": [{"name": "a"}]}
    assert json.loads(decode(capsys, "MetadataRequest", "1", "0x00000001 00:01:61")) == want
    monkeypatch.setattr("sys.stdin", io.StringIO("00000001\n000161\n"))
    assert json.loads(decode(capsys, "MetadataRequest", "1", "-")) == want


def test_json_may_come_from_stdin(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"topics": [{"name": "a"}]}'))

    assert main(["message", "encode", "MetadataRequest", "1", "-"]) == 0
    assert capsys.readouterr().out == f"{ONE_TOPIC}\n"


def test_tree_and_hex_show_the_offsets_of_fields(capsys: Capsys) -> None:
    assert '4-7        name: string = "a"' in decode(capsys, "MetadataRequest", "1", ONE_TOPIC, "--format", "tree")
    assert "00 01 61 " in decode(capsys, "MetadataRequest", "1", ONE_TOPIC, "--format", "hex")


def test_an_edition_decodes_by_its_own_schema(capsys: Capsys) -> None:
    body = "00" * 2 + "00000000" * 4 + "010100"

    tree = decode(capsys, "ShareFetchRequest", "0", body, "--edition", "4.0-early-access", "--format", "tree")

    assert "ShareFetchRequest v0" in tree


def test_a_version_that_kafka_4_removed_needs_no_edition(capsys: Capsys) -> None:
    hex_ = "ffffffff00000001000161000000010000000000000000000000050000000a"

    text = decode(capsys, "ListOffsetsRequest", "0", hex_)
    assert '"maxNumOffsets": 10' in text
    assert "max_num_offsets: int32 = 10" in decode(capsys, "ListOffsetsRequest", "0", hex_, "--format", "tree")
    assert main(["message", "encode", "ListOffsetsRequest", "0", text]) == 0
    assert capsys.readouterr().out.strip() == hex_


@pytest.mark.parametrize("shape", ["json", "tree", "hex"])
def test_damaged_bytes_are_code_1_and_a_line_with_path_and_offset(shape: str, capsys: Capsys) -> None:
    assert main(["message", "decode", "MetadataRequest", "1", ONE_TOPIC[:-2], "--format", shape]) == 1
    shown = capsys.readouterr()
    assert "MetadataRequest.topics[0].name at byte" in shown.err
    # The tree covers the available bytes.
    assert ("!! needs 1 bytes, but 0 are left" in shown.out) == (shape != "json")


def test_lenient_accepts_what_kafka_accepts_and_prints_warnings(capsys: Capsys) -> None:
    odd = ["message", "decode", "MetadataRequest", "4", ONE_TOPIC + "07"]
    assert main(odd) == 1
    assert "allow_auto_topic_creation" in capsys.readouterr().err

    assert main([*odd, "--lenient"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["allowAutoTopicCreation"] is True
    assert "MetadataRequest.allow_auto_topic_creation at byte 7" in shown.err


def test_secrets_are_hidden_unless_requested(capsys: Capsys) -> None:
    secret = ["SaslAuthenticateRequest", "0", "00000003616263"]

    assert json.loads(decode(capsys, *secret)) == {"authBytes": "***"}
    assert json.loads(decode(capsys, *secret, "--show-secrets")) == {"authBytes": "YWJj"}
    assert "616263" not in decode(capsys, *secret, "--format", "tree")
    assert "616263" in decode(capsys, *secret, "--format", "tree", "--show-secrets")


def test_control_characters_are_escaped_and_json_stays_json(capsys: Capsys) -> None:
    text = "k\u00e4\u202e\x1b\x7f\U000e0041"
    raw = text.encode()

    shown = decode(capsys, "MetadataRequest", "1", "00000001" + len(raw).to_bytes(2).hex() + raw.hex())

    assert json.loads(shown) == {"topics": [{"name": text}]}
    assert "k\u00e4" in shown
    assert all(line.isprintable() for line in shown.splitlines())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["decode", "MetadataRequest", "1", "0g"], "HEX: 'g' is not a hexadecimal digit"),
        (["decode", "MetadataRequest", "1", "000"], "HEX: 3 digits are not whole bytes"),
        (["decode", "MetadataReqest", "1", "00"], "did you mean MetadataRequest"),
        (["decode", "MetadataRequest", "99", "00"], "99"),
        (["decode", "MetadataRequest", "one", "00"], "invalid int value: 'one'"),
        (["encode", "MetadataRequest", "1", "{"], "JSON: "),
        (["encode", "MetadataRequest", "1", "[" * 100_000], "JSON: "),
        ([], "ACTION"),
    ],
)
def test_usage_errors_are_code_2(arguments: list[str], line: str, capsys: Capsys) -> None:
    assert main(["message", *arguments]) == 2
    assert line in capsys.readouterr().err


def test_json_that_does_not_fit_is_code_1_with_the_field(capsys: Capsys) -> None:
    assert main(["message", "encode", "MetadataRequest", "1", '{"topics": [{"name": 7}]}']) == 1
    assert "topics[0].name" in capsys.readouterr().err
