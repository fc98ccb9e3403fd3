"""Plays sequences with a real Kafka and with mockbroker, in one worker process, and compares the responses."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from kwire.client import ClientError
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from mockbroker.engine.internal_errors import collect_internal_errors
from tools.oracle.conversations.broker_properties import virtual_broker
from tools.oracle.conversations.socket_brokers import RealTimeBroker
from tools.oracle.fuzz.accepted_differences import without_accepted
from tools.oracle.fuzz.comparison import DifferenceClass, StepDifference, compare_answers, request_of
from tools.oracle.fuzz.drawn_ids import IdSource, read_ids, step_that_saves
from tools.oracle.fuzz.playing import RESPONSE_TIMEOUT_MS, play
from tools.oracle.fuzz.script_names import ZERO_UUID
from tools.oracle.fuzz.sequences import make_sequence
from tools.oracle.fuzz.shrinking import Script, shrink

Json = Any

_TAKEN_PRODUCER_IDS = 10
_NONE_SAVED: Mapping[int, Mapping[str, Json]] = MappingProxyType({})

#: A difference has to appear in each of so many further plays.
REPLAYS = 4


class FuzzTarget(NamedTuple):
    """What sequences are made for and played with: HOST:PORT of the real broker, and the release of both."""

    address: str
    release: str
    seed: int
    apis: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()

    def make_script(self, number: int) -> Script:
        """The script of one sequence."""
        return make_sequence(self.seed, number, edition=self.release, apis=self.apis, subjects=self.subjects)


class DifferingSequence(NamedTuple):
    """A sequence with differences, by its number."""

    number: int
    differences: tuple[StepDifference, ...]


@dataclass
class BatchResult:
    """Pairs of a batch by API and version, and the sequences that differ.

    failures: errors of the connection to the real broker. invalid: requests that could not be encoded, by reason.
    """

    pairs: Counter[tuple[str, int]] = field(default_factory=Counter)
    differing: list[DifferingSequence] = field(default_factory=list)
    accepted: int = 0
    invalid: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


class ShrunkScript(NamedTuple):
    """The smallest script of a class, with the responses of both; `script` is None if it did not differ again."""

    difference: DifferenceClass
    script: Script | None
    kafka: list[Json]
    ours: list[Json]
    version: int


def play_batch(target: FuzzTarget, numbers: Sequence[int], threads: int) -> BatchResult:
    """Play the sequences of these numbers, several at a time; internal errors of mockbroker are failures."""
    result = BatchResult()
    with collect_internal_errors() as found, ThreadPoolExecutor(threads) as pool:
        for number, outcome in zip(
            numbers, pool.map(lambda number: _play_number(target, number), numbers), strict=True
        ):
            if isinstance(outcome, str):
                result.failures.append(f"sequence {number}: {outcome}")
            else:
                _add_outcome(result, number, *outcome)
    result.failures += (f"sequences {numbers[0]} to {numbers[-1]}: {line}" for line in found)
    return result


def _play_number(target: FuzzTarget, number: int) -> tuple[Script, dict[int, Json], dict[int, Json]] | str:
    script = target.make_script(number)
    try:
        return script, *play_pair(target, script)
    except ClientError as error:
        return f"{type(error).__name__}: {error}"


def play_pair(target: FuzzTarget, script: Mapping[str, Json]) -> tuple[dict[int, Json], dict[int, Json]]:
    """The responses of the real broker and of mockbroker. Raises: ClientError when there is no real broker."""
    saved: dict[int, dict[str, Json]] = {}
    broker = RealTimeBroker({"PLAINTEXT": target.address}, response_timeout_ms=RESPONSE_TIMEOUT_MS)
    kafka = play(broker, script, saved=saved)
    return kafka, play_ours(script, saved)


def play_ours(script: Mapping[str, Json], saved: Mapping[int, Mapping[str, Json]] = _NONE_SAVED) -> dict[int, Json]:
    """The responses of mockbroker on virtual time, which starts now; its coordinators have been used before.

    Its first producer ids are taken, so that those of the sequence are not the small numbers of unusual values.
    saved: the values that each step has saved of a real broker's responses; topics and members get their ids.
    """
    now_ms, ids = time.time_ns() // 1_000_000, IdSource(7)
    broker = virtual_broker(
        script["broker"], release=script["edition"], now_ms=now_ms, response_timeout_ms=RESPONSE_TIMEOUT_MS, rng=ids
    )
    connection = broker.connect("warm-up")
    for _ in range(_TAKEN_PRODUCER_IDS):
        connection.submit(InitProducerIdRequest(transactional_id=None), 4, 4, ("InitProducerIdResponse", 4))
        connection.receive()
    for key_type, key in ((0, "warm-up"), (1, "warm-up"), (2, f"warm-up:{ZERO_UUID}:0")):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        connection.submit(request, 6, 6, ("FindCoordinatorResponse", 6))
        connection.receive()
    connection.close()

    def give_ids(index: int) -> None:
        ids.given = read_ids(saved.get(step_that_saves(script["steps"], index), {}))

    return play(broker, script, on_step=give_ids)


def _add_outcome(
    result: BatchResult, number: int, script: Script, kafka: dict[int, Json], ours: dict[int, Json]
) -> None:
    for index in kafka.keys() & ours.keys():
        if "invalid" in ours[index]:
            result.invalid[f"{request_of(script['steps'], index)[0]}: {ours[index]['invalid']}"] += 1
        else:
            result.pairs[request_of(script["steps"], index)] += 1
    differences = compare_answers(script["steps"], kafka, ours)
    remaining = without_accepted(differences)
    result.accepted += len(differences) - len(remaining)
    if remaining:
        result.differing.append(DifferingSequence(number, tuple(remaining)))


def shrink_difference(target: FuzzTarget, number: int, difference: DifferenceClass) -> ShrunkScript:
    """Play a sequence again, and shrink it to the steps that a class of difference needs."""

    def first_class_is_it(script: Script) -> bool:
        try:
            differences = _differences(target, script)
        except ClientError:
            return False
        return bool(differences) and differences[0].classes[0] == difference

    script = target.make_script(number)
    try:
        first = _independent_script(target, script, difference)
    except ClientError:
        first = None
    if first is None or not all(first_class_is_it(first) for _ in range(REPLAYS)):
        return ShrunkScript(difference, None, [], [], 0)
    last_answer = _last_answer(first)
    smallest = shrink(first, first_class_is_it, is_plausible=lambda script: _last_answer(script) == last_answer)
    for script in (smallest, smallest, first):
        kafka, ours = play_pair(target, script)
        differences = without_accepted(compare_answers(script["steps"], kafka, ours))
        if differences and differences[0].classes[0] == difference:
            break
    else:
        return ShrunkScript(difference, None, [], [], 0)
    version = differences[0].version
    return ShrunkScript(difference, script, _in_order(kafka), _in_order(ours), version)


def _independent_script(target: FuzzTarget, script: Script, difference: DifferenceClass) -> Script | None:
    """The steps up to the difference, without those that differ before it."""
    for _ in range(10):
        differences = _differences(target, script)
        found = next((row for row in differences if row.classes[0] == difference), None)
        if found is None:
            return None
        script = {**script, "steps": script["steps"][: found.step + 1]}
        if found is differences[0]:
            return script
        dropped = differences[0].step
        script["steps"] = script["steps"][:dropped] + script["steps"][dropped + 1 :]
    return None


def _differences(target: FuzzTarget, script: Script) -> list[StepDifference]:
    return without_accepted(compare_answers(script["steps"], *play_pair(target, script)))


def _last_answer(script: Script) -> Json:
    answers = play_ours(script)
    return answers[max(answers)] if answers else None


def _in_order(answers: dict[int, Json]) -> list[Json]:
    return [answers[index] for index in sorted(answers)]
