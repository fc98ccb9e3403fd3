"""What Kafka's own decoder makes of damaged bytes, recorded for machines without Java.

`python -m tools.oracle.judge` changes the golden vectors by a seed, asks the classes of Kafka 4.3.0 (`Judge.java`), and
writes tests/golden/judged.jsonl.gz; the test beside it holds `kwire.decode_lenient` to every line.
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

from tools.oracle.jars import jars

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
RECORDED = GOLDEN / "judged.jsonl.gz"
_JUDGE = Path(__file__).with_name("Judge.java")

#: Vectors above this size are left out, so that the recording stays small.
_SIZE_MAX = 300
_SEED = 20
_PATIENCE_S = 300

#: What no seed would find: nulls of tagged structs in every form, halves of surrogate pairs, endless counts.
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


class Verdict(NamedTuple):
    """What Kafka did: how many bytes it took, or None when it failed; what it wrote, or None when it could not."""

    message: str
    version: int
    raw: bytes
    used: int | None
    written: bytes | None


def changed(raw: bytes, chance: random.Random) -> bytes:
    """Bytes with one to three small damages: bytes replaced, flipped, taken out or put in."""
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


def recorded() -> list[Verdict]:
    """The verdicts of the recording."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [
        Verdict(
            row["message"],
            row["version"],
            bytes.fromhex(row["hex"]),
            row.get("used"),
            bytes.fromhex(row["written"]) if "written" in row else None,
        )
        for row in rows
    ]


def _questions() -> Iterable[tuple[str, int, str]]:
    chance = random.Random(_SEED)
    with gzip.open(GOLDEN / "vectors.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            raw = bytes.fromhex(row["hex"])
            if len(raw) <= _SIZE_MAX:
                yield row["message"], row["version"], changed(raw, chance).hex()
    for message, version, text in SPECIAL:
        yield message, version, text.replace(" ", "")


def _ask(questions: list[tuple[str, int, str]]) -> list[str]:
    text = "".join(f"{message} {version} {raw}\n" for message, version, raw in questions)
    command = ["java", "-cp", f"{jars()}/*", str(_JUDGE)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    answers = done.stdout.splitlines()
    if done.returncode or len(answers) != len(questions):
        raise RuntimeError(f"the judge gave {len(answers)} answers to {len(questions)} questions:\n{done.stderr}")
    return answers


def main() -> int:
    """Record the verdicts again."""
    questions = list(_questions())
    rows = []
    for (message, version, raw), answer in zip(questions, _ask(questions), strict=True):
        row: dict[str, object] = {"message": message, "version": version, "hex": raw}
        verdict, _, rest = answer.partition(" ")
        if verdict == "ok":
            used, _, written = rest.partition(" ")
            row["used"] = int(used)
            if not written.startswith("!"):
                row["written"] = written
        rows.append(json.dumps(row))
    # Without a time in it, the same verdicts give the same file.
    RECORDED.write_bytes(gzip.compress("".join(f"{row}\n" for row in rows).encode(), mtime=0))
    print(f"{len(rows)} verdicts, {sum('used' in row for row in rows)} of them messages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
