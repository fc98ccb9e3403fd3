"""Compares the extension with the Python code on random mutations of golden vectors.

    python -m tests.kwire.accelerator.differential [--messages N] [--seconds S] [--seed N]

Each mutation is decoded by both; where both accept it, the messages are compared, and what both write. One in eight
messages gets a wrong value, and is written by both. One in ten mutations is of the records of a random batch, three in
ten of an exchange, whose summary and JSON texts are compared. Prints each difference with the input that repeats it.

Exit codes: 0 no difference, 1 a difference, 2 wrong usage, or no extension.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from kwire.accelerator import is_accelerated
from kwire.primitives import FAILURES
from kwire.registry import codec_of_name
from kwire.schema import load_schema, own_message_names
from tests.kwire.accelerator.body_mutations import body_difference
from tests.kwire.accelerator.comparison import read_difference, write_difference
from tests.kwire.accelerator.mutations import mutate_message, mutated_bytes
from tests.kwire.accelerator.record_mutations import record_difference
from tests.support.messages.filled_messages import filled_vectors
from tests.support.messages.golden_vectors import FILES, Vector, own_vectors

_DIFFERENCES_SHOWN = 20


def corpus() -> list[Vector]:
    """The golden vectors of all editions, and of each of their messages one with a value in every field."""
    filled = [
        vector
        for edition in FILES
        for name in own_message_names(edition)
        if load_schema(name, edition).versions
        for vector in filled_vectors(name, edition)
    ]
    return [*own_vectors(), *filled]


def compare_mutation(vector: Vector, chance: random.Random) -> str | None:
    """One mutation of a vector: None, or the difference with the input."""
    raw = mutated_bytes(vector.raw, chance)
    if difference := read_difference(vector, raw):
        return f"{vector.edition} {vector.message} v{vector.version} {raw.hex()}: {difference}"
    if chance.randrange(8):
        return None
    codec = codec_of_name(vector.message, vector.edition)
    try:
        message, _ = codec.pure_readers[vector.version](vector.raw, 0)
    except FAILURES as error:
        return f"{vector.label}: the Python code refuses it: {error!r}"
    mutate_message(message, chance)
    if difference := write_difference(codec, vector.version, message):
        return f"{vector.edition} {vector.message} v{vector.version} {message!r}: {difference}"
    return None


def compare_any(vectors: list[Vector], chance: random.Random) -> str | None:
    """One mutation of records, of an exchange or of a message: None, or the difference with the input."""
    kind = chance.randrange(10)
    if kind == 0:
        return record_difference(chance)
    return body_difference(chance) if kind <= 3 else compare_mutation(chance.choice(vectors), chance)


def main(arguments: list[str] | None = None) -> int:
    """Run until the number of messages, or the time, is reached."""
    parser = argparse.ArgumentParser(prog="python -m tests.kwire.accelerator.differential", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, help="how many mutations")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop earlier after this time")
    parser.add_argument("--seed", type=int, default=0, help="repeats a run")
    options = parser.parse_args(arguments)
    if not is_accelerated():
        print("there is no extension to compare: it is not built, or KWIRE_PURE is set", file=sys.stderr)
        return 2
    chance = random.Random(options.seed)
    vectors = corpus()
    deadline = time.monotonic() + options.seconds
    differences = done = 0
    while done < options.messages and time.monotonic() < deadline and differences < _DIFFERENCES_SHOWN:
        done += 1
        if difference := compare_any(vectors, chance):
            differences += 1
            print(difference, flush=True)
    corpus_text = f"{len(vectors):,} messages, of record batches and of exchanges"
    print(f"{done:,} mutations of {corpus_text}, seed {options.seed}: {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
