"""``kwire check`` passes on Kafka's own vectors and batches, and finds every kind of difference."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kwire.cli.main import main
from tests.support.cli.commands import Capsys

GOLDEN = Path(__file__).parents[3] / "golden"


def first_line(name: str, **wanted: object) -> dict[str, Any]:
    """The first golden line that has these values."""
    with gzip.open(GOLDEN / name, "rt") as lines:
        for line in lines:
            tree: dict[str, Any] = json.loads(line)
            if all(tree.get(key) == value for key, value in wanted.items()):
                return tree
    raise AssertionError(f"no line with {wanted}")


def check(path: Path, *lines: object, capsys: Capsys) -> tuple[int, str]:
    """The exit code and the output for a file of these lines; strings are written unchanged."""
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    code = main(["check", str(path)])
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "summary"),
    [
        ([GOLDEN / "vectors-4.4.jsonl.gz"], "2094 passed, 0 failed"),
        (["--edition", "4.0-early-access", GOLDEN / "vectors-4.0-early-access.jsonl.gz"], "108 passed, 0 failed"),
        ([GOLDEN / "batches.jsonl.gz"], "200 passed, 0 failed"),
        ([GOLDEN / "batches.jsonl.gz", GOLDEN / "vectors-4.4.jsonl.gz"], "2294 passed, 0 failed"),
    ],
)
def test_all_golden_files_pass(argv: list[object], summary: str, capsys: Capsys) -> None:
    assert main(["check", *map(str, argv)]) == 0
    assert capsys.readouterr().out == f"{summary}\n"


def test_the_early_access_vectors_fail_in_the_default_edition(capsys: Capsys) -> None:
    assert main(["check", str(GOLDEN / "vectors-4.0-early-access.jsonl.gz")]) == 1
    assert capsys.readouterr().out.splitlines()[-1] != "108 passed, 0 failed"


VECTOR = first_line("vectors-4.4.jsonl.gz", message="MetadataResponse", version=12)
TAGGED = {
    "message": "ApiVersionsRequest", "version": 3, "hex": "026b0231018f4e03010203",
    "json": {"clientSoftwareName": "k", "clientSoftwareVersion": "1"}, "unknownTaggedFields": [[9999, "010203"]],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"hex": VECTOR["hex"][:-2]}, "MetadataResponse"),
        ({"hex": VECTOR["hex"] + "00"}, "MetadataResponse v12: MetadataResponse"),
        ({"hex": "zz"}, "hex is not a string of hex digits"),
        ({"hex": " 00"}, "hex is not a string of hex digits"),
        ({"hex": None}, "hex is not a string of hex digits"),
        ({"version": 99}, "version 99 is outside"),
        ({"version": "12"}, "version is not a number"),
        ({"version": True}, "version is not a number"),
        ({"message": "NoSuchResponse"}, "is not a message"),
        ({"message": 7}, "message is not a name"),
        ({"json": {**VECTOR["json"], "throttleTimeMs": -123456}}, "json.throttleTimeMs: expected -123456, got"),
        ({"json": {**VECTOR["json"], "extra": 1}}, "json.extra: expected 1, but it is not there"),
        ({"json": {k: v for k, v in VECTOR["json"].items() if k != "brokers"}}, "json.brokers: not expected"),
        ({"json": {**VECTOR["json"], "brokers": [1, 2, 3, 4, 5, 6, 7, 8]}}, "json.brokers: expected 8 elements"),
        ({"json": []}, "json: expected [], got"),
        ({"unknownTaggedFields": [[1000, "00"]]}, "unknownTaggedFields"),
        ({"unknownTaggedFields": [1000]}, "unknownTaggedFields is not a list of [tag, hex] pairs"),
        ({"unknownTaggedFields": 5}, "unknownTaggedFields is not a list of [tag, hex] pairs"),
        ({"unknownTaggedFields": [["1", "00"]]}, "is not a number"),
        ({"about": "?"}, "keys that cannot be compared: about"),
    ],
)
def test_a_wrong_vector_is_reported_with_line_message_and_difference(
    change: dict[str, object], complaint: str, tmp_path: Path, capsys: Capsys
) -> None:
    path = tmp_path / "some.jsonl"

    code, output = check(path, VECTOR, {**VECTOR, **change}, VECTOR, capsys=capsys)

    assert code == 1
    failure, summary = output.splitlines()
    assert failure.startswith(f"{path}:2: ")
    assert complaint in failure
    assert summary == "2 passed, 1 failed"


def test_booleans_and_numbers_are_different_things(tmp_path: Path, capsys: Capsys) -> None:
    wrong = {**VECTOR, "json": {**VECTOR["json"], "throttleTimeMs": float(VECTOR["json"]["throttleTimeMs"])}}

    assert check(tmp_path / "x.jsonl", wrong, capsys=capsys)[0] == 1


def test_unknown_tagged_fields_are_compared_and_written_back(tmp_path: Path, capsys: Capsys) -> None:
    other = {**TAGGED, "unknownTaggedFields": [[9999, "010204"]]}
    unsaid = {key: value for key, value in TAGGED.items() if key != "unknownTaggedFields"}

    code, output = check(tmp_path / "x.jsonl", TAGGED, other, unsaid, capsys=capsys)

    assert code == 1
    assert "unknownTaggedFields[0][1]: expected '010204', got '010203'" in output
    assert ":3: ApiVersionsRequest v3: hex, encoded from json: at byte 4" in output
    assert output.endswith("1 passed, 2 failed\n")


def test_records_are_compared_whether_the_json_has_them_or_not(tmp_path: Path, capsys: Capsys) -> None:
    def produce(records: str) -> dict[str, object]:
        topics = [{"name": "t", "partitionData": [{"index": 0, "records": records}]}]
        body = {"transactionalId": None, "acks": 1, "timeoutMs": 9, "topicData": topics}
        hexed = "ffff00010000000900000001000174000000010000000000000003010203"
        return {"message": "ProduceRequest", "version": 3, "hex": hexed, "json": body}

    code, output = check(tmp_path / "x.jsonl", produce(""), produce("AQID"), produce("AQIE"), capsys=capsys)

    assert code == 1
    assert "records: expected 'AQIE', got ''" in output
    assert output.endswith("2 passed, 1 failed\n")


BATCHES = first_line("batches.jsonl.gz")


def changed_batch(**change: object) -> dict[str, object]:
    return {**BATCHES, "batches": [{**BATCHES["batches"][0], **change}, *BATCHES["batches"][1:]]}


@pytest.mark.parametrize("key", sorted(BATCHES["batches"][0]))
def test_every_key_of_a_batch_is_compared(key: str, tmp_path: Path, capsys: Capsys) -> None:
    code, output = check(tmp_path / "x.jsonl", BATCHES, changed_batch(**{key: "wrong"}), capsys=capsys)

    assert code == 1
    assert f"x.jsonl:2: record batches: batches[0] (magic 0).{key}: expected 'wrong', got" in output
    assert output.endswith("1 passed, 1 failed\n")


@pytest.mark.parametrize("key", ["offset", "timestamp", "key", "value", "headers"])
def test_every_key_of_a_record_is_compared(key: str, tmp_path: Path, capsys: Capsys) -> None:
    records = [dict(record) for record in BATCHES["batches"][0]["records"]]
    records[1][key] = "wrong"

    code, output = check(tmp_path / "x.jsonl", changed_batch(records=records), capsys=capsys)

    assert code == 1
    assert f".records[1].{key}: expected 'wrong', got" in output


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({**BATCHES, "batches": []}, "expected 0, got 1"),
        ({**BATCHES, "batches": {}}, "batches is not a list"),
        ({**BATCHES, "batches": [{}]}, "nothing to compare with"),
        ({**BATCHES, "hex": BATCHES["hex"][:-2]}, "are left"),
        ({**BATCHES, "hex": BATCHES["hex"][:-2] + "00"}, "CRC-32"),
        ({"batches": BATCHES["batches"]}, "the line lacks hex"),
        (changed_batch(colour=1), "keys that cannot be compared: colour"),
        (VECTOR, "the line lacks batches"),
    ],
)
def test_wrong_batch_lines_are_reported(line: object, complaint: str, tmp_path: Path, capsys: Capsys) -> None:
    code, output = check(tmp_path / "x.jsonl", BATCHES, line, capsys=capsys)

    assert code == 1
    assert complaint in output
    assert output.endswith("1 passed, 1 failed\n")


@pytest.mark.parametrize("line", ["{", "[]", "7", "null", '{"a": "\\ud8"}', "[" * 200_000, '{"hex": "00"}'])
def test_invalid_lines_fail_and_the_rest_is_checked(line: str, tmp_path: Path, capsys: Capsys) -> None:
    code, output = check(tmp_path / "x.jsonl", VECTOR, line, "", VECTOR, capsys=capsys)

    assert code == 1
    assert output.startswith(f"{tmp_path}/x.jsonl:2: ")
    assert output.endswith("2 passed, 1 failed\n")


def test_a_gzip_file_that_ends_early_fails_there(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes((GOLDEN / "vectors-4.4.jsonl.gz").read_bytes()[:20_000])

    assert main(["check", str(path)]) == 1
    *_, failure, summary = capsys.readouterr().out.splitlines()
    assert "cannot be read from here on" in failure
    assert summary.endswith(", 1 failed")


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_a_file_in_which_nothing_is_checked_is_a_failure(content: bytes, tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)

    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().out == "0 passed, 0 failed\n"


def test_bytes_that_are_no_text_are_a_failure(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "binary.jsonl"
    path.write_bytes(b"\xff\xfe\x00\n")

    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().out.endswith("0 passed, 1 failed\n")


@pytest.mark.parametrize("argv", [[], ["no-such-file.jsonl"], ["--edition", "5.0", str(GOLDEN / "batches.jsonl.gz")]])
def test_usage_errors_are_exit_code_2(argv: list[str], capsys: Capsys) -> None:
    assert main(["check", *argv]) == 2
    assert capsys.readouterr().err


def test_control_characters_in_a_line_do_not_reach_the_terminal(tmp_path: Path, capsys: Capsys) -> None:
    _, output = check(tmp_path / "x.jsonl", {"message": "\x1b[31m", "version": 0, "hex": ""}, capsys=capsys)

    assert "\x1b" not in output
