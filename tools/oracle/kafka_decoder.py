"""The results of Kafka's decoder for damaged messages, recorded for machines without Java.

`python -m tools.oracle.kafka_decoder` damages the golden vectors by a seed, decodes them with the classes of Kafka
4.4.0 (`KafkaDecoder.java`), and writes tests/golden/kafka_decoder.jsonl.gz. A test compares every line with
`kwire.decode_lenient`.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tools.oracle.jars import NEWEST_VERSION, fetch_jars

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
RECORDING = GOLDEN / "kafka_decoder.jsonl.gz"
_PROGRAM = Path(__file__).with_name("KafkaDecoder.java")

#: Larger vectors are omitted, so that the recording stays small.
_SIZE_MAX = 300
_SEED = 20
_TIMEOUT_S = 300

#: Cases that no seed would generate: nulls of tagged structs in every form, lone surrogates, endless counts.
SPECIAL = (
    *(("ConsumerGroupMemberMetadataValue", 0, f"0000010101 00 ffffffff 00 01 00 {rest}") for rest in (
        "01 00", "07 01 00000005 01 00", "07 ff 00000005 01 00", "07 80 00000005 01 00", "08 8100 00000005 01 00",
        "02 8000", "08 ff01 00000005 01 00", "07 02 00000005 01 00", "0b ffffffff0f 00000005 01 00",
    )),
    *(("FindCoordinatorRequest", 0, f"{len(text) // 2:04x}{text}") for text in (
        "eda080", "edbfbf", "eda0", "ed", "eda041", "edb0b0b0", "e6eda5", "e080af", "f09f98", "f0808080", "f4908080",
        "f8888080", "c0af", "80", "feff", "eda0bdedb880", "e28282e2", "f0c3a4", "edeeeded",
    )),
    ("AddPartitionsToTxnRequest", 4, "01ffffffff0f00"),
    ("AddPartitionsToTxnRequest", 4, "018080808008"),
    ("FindCoordinatorRequest", 3, "8080808010"),
    ("FindCoordinatorRequest", 3, "81808080700000"),
)  # fmt: skip


class KafkaResult(NamedTuple):
    """The result of Kafka: the number of bytes it read, or None when it failed; the bytes it wrote, or None."""

    message: str
    version: int
    raw: bytes
    used: int | None
    written: bytes | None


def damage_bytes(raw: bytes, chance: random.Random) -> bytes:
    """The bytes with one to three changes: bytes replaced, flipped, removed or inserted."""
    damaged = bytearray(raw or b"\0")
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(damaged) + 1)
        match chance.randrange(5):
            case 0:
                damaged[at : at + 1] = chance.randbytes(1)
            case 1:
                damaged[at : at + 1] = bytes([chance.choice((0, 1, 2, 127, 128, 255))])
            case 2:
                damaged[at : at + 1] = bytes(byte ^ 1 << chance.randrange(8) for byte in damaged[at : at + 1])
            case 3:
                del damaged[at : at + chance.choice((1, 2, 4))]
            case _:
                damaged[at:at] = chance.choice((chance.randbytes(1), chance.randbytes(4), b"\xff\xff\xff\xff\x0f"))
    return bytes(damaged)


def load_recording() -> list[KafkaResult]:
    """The recorded results."""
    results = []
    with gzip.open(RECORDING, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            written = bytes.fromhex(row["written"]) if "written" in row else None
            raw = bytes.fromhex(row["hex"])
            results.append(KafkaResult(row["message"], row["version"], raw, row.get("used"), written))
    return results


def _damaged_messages() -> Iterable[tuple[str, int, str]]:
    chance = random.Random(_SEED)
    with gzip.open(GOLDEN / "vectors-4.4.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            raw = bytes.fromhex(row["hex"])
            if len(raw) <= _SIZE_MAX:
                yield row["message"], row["version"], damage_bytes(raw, chance).hex()
    for message, version, text in SPECIAL:
        yield message, version, text.replace(" ", "")


def _run_kafka_decoder(messages: list[tuple[str, int, str]]) -> list[str]:
    text = "".join(f"{message} {version} {raw}\n" for message, version, raw in messages)
    command = ["java", "-cp", f"{fetch_jars(NEWEST_VERSION)}/*", str(_PROGRAM)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    answers = done.stdout.splitlines()
    if done.returncode or len(answers) != len(messages):
        raise RuntimeError(f"{len(answers)} results for {len(messages)} messages:\n{done.stderr}")
    return answers


def main() -> int:
    """Record the results again."""
    messages = list(_damaged_messages())
    rows = []
    for (message, version, raw), answer in zip(messages, _run_kafka_decoder(messages), strict=True):
        row: dict[str, object] = {"message": message, "version": version, "hex": raw}
        status, _, rest = answer.partition(" ")
        if status == "ok":
            used, _, written = rest.partition(" ")
            row["used"] = int(used)
            if not written.startswith("!"):
                row["written"] = written
        rows.append(json.dumps(row))
    # Without a time stamp, the same results give the same file.
    RECORDING.write_bytes(gzip.compress("".join(f"{row}\n" for row in rows).encode(), mtime=0))
    print(f"{len(rows)} results, {sum('used' in row for row in rows)} of them messages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
