"""Summaries and JSON texts of the extension are those of the Python code, whatever the bytes are."""

from __future__ import annotations

import gc
import random
import sys
from typing import Any

import pytest

from kwire.accelerator import NATIVE, is_accelerated
from kwire.accelerator.plans import KIND_NUMBERS, KIND_STRUCT
from kwire.capture.columnar.summary_reader import SummaryReader
from kwire.capture.kafka.topic_names import TopicNames
from kwire.json_text import json_texts_writer
from kwire.primitives import FAILURES
from tests.kwire.accelerator.body_mutations import bodies, body_difference
from tests.kwire.accelerator.growth import CALLS, growth
from tests.kwire.accelerator.mutations import mutated_bytes

pytestmark = pytest.mark.skipif(not is_accelerated(), reason="the accelerator is not built, or KWIRE_PURE is set")

CODECS = (b"",) * 8
STRING = KIND_NUMBERS["string"]


def test_both_agree_on_mutated_exchanges() -> None:
    chance = random.Random(8)

    assert [body_difference(chance) for _ in range(3000)] == [None] * 3000


def test_a_nesting_that_is_too_deep_is_refused() -> None:
    assert NATIVE is not None
    summary: Any = (False, ())
    message: Any = (False, ())
    for _ in range(200_000):
        summary = (False, ((KIND_STRUCT, False, False, False, 0, summary),))
        message = (False, ((KIND_STRUCT, False, False, False, b"", message),))

    with pytest.raises(RecursionError):
        NATIVE.SummaryReader(summary, CODECS, ())
    with pytest.raises(RecursionError):
        NATIVE.JsonWriter(message, (b"none",), str, str, str, False)


@pytest.mark.parametrize("name", [b"x" * 17, b"\xff", b"a\0b"])
def test_names_that_a_summary_has_no_place_for_are_refused(name: bytes) -> None:
    assert NATIVE is not None
    for codecs, acks in (((name, *CODECS[1:]), ()), (CODECS, (name,))):
        with pytest.raises(ValueError, match="at most 16 ASCII characters"):
            NATIVE.SummaryReader((False, ()), codecs, acks)


def test_a_function_that_makes_a_text_sees_no_list_with_empty_places() -> None:
    assert NATIVE is not None
    seen: list[int] = []

    def text_of(data: bytes) -> str:
        lists = [one for one in gc.get_objects() if type(one) is list]
        seen.append(sum(len(gc.get_referents(one)) != len(one) for one in lists))
        return f'"{data.decode()}"'

    writer = NATIVE.JsonWriter(
        (False, ((STRING, False, False, False, b'"a":', None),)), (b"none",), text_of, str, str, False
    )

    assert writer.write_each(b"\0\2\xc3\xa9", (9, 0, 0)) == [None, '{"a":"é"}', '{"a":"é"}']
    reader = NATIVE.SummaryReader((False, ()), CODECS, ())
    found = reader.read(reader, b"", ((0, 0), (-1, -1)), {}, lambda at, answer_at: text_of(b"x"))
    assert found == (['"x"', '"x"'], [0, 0])
    assert seen == [0, 0, 0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_errors_that_are_not_of_the_message_end_the_call(error: type[BaseException]) -> None:
    assert NATIVE is not None

    def fail(data: bytes) -> str:
        raise error

    writer = NATIVE.JsonWriter((False, ((STRING, False, False, False, b"", None),)), (b"none",), fail, str, str, False)
    with pytest.raises(error):
        writer.write_each(b"\0\2\xc3\xa9", (9, 0, 0))


def make_head(at: int, answer_at: int) -> str:
    return ""


def test_offsets_of_a_wrong_type_or_size_are_refused() -> None:
    assert NATIVE is not None
    writer = NATIVE.JsonWriter((False, ()), (b"none",), str, str, str, False)
    reader = NATIVE.SummaryReader((False, ()), CODECS, ())
    for call in (
        writer.write_each,
        lambda data, offsets: reader.read(reader, data, (offsets, (-1,) * len(offsets)), {}, make_head),
        lambda data, offsets: reader.read(reader, data, ((0,) * len(offsets), offsets), {}, make_head),
    ):
        for offsets, error in (((0, "0"), TypeError), ((0, None), TypeError), ((0, 1 << 70), OverflowError)):
            with pytest.raises(error):
                call(b"", offsets)


@pytest.mark.parametrize("name", ["Metadata", "ShareFetch", "Fetch"])
def test_a_count_beyond_the_bytes_allocates_nothing(name: str) -> None:
    for version, raws in bodies()[f"{name}Response"].items():
        write_each = json_texts_writer(f"{name}Response", version)
        assert write_each is not None
        data = raws[0][:6] + b"\x7f\xff\xff\xff" * 3
        write_each(data, (0,))
        blocks = sys.getallocatedblocks()

        assert write_each(data, (0,)) == [None]
        assert sys.getallocatedblocks() - blocks < 100


def test_summaries_and_texts_leave_no_references_behind() -> None:
    chance = random.Random(2)
    cases = []
    for name in ("Fetch", "ShareFetch", "ShareAcknowledge", "Produce", "Metadata"):
        asked, answered = bodies()[f"{name}Request"], bodies()[f"{name}Response"]
        version = max(asked.keys() & answered.keys())
        request, response = asked[version][0], answered[version][0]
        reader = SummaryReader(f"{name}Request", f"{name}Response", version, TopicNames({}))
        writer = json_texts_writer(f"{name}Response", version)
        assert writer is not None
        wrong = [mutated_bytes(response, chance) for _ in range(5)]
        cases.append((reader, writer, request, [response, response[: len(response) * 2 // 3], *wrong]))

    def work() -> None:
        for reader, write_each, request, responses in cases:
            for response in responses:
                data, at = request + response, len(request)
                write_each(data, (at, -1, len(data) + 1))
                try:
                    reader.read(data, [0], [at])
                    reader.read(data, [0], [-1])
                    write_each(data, (at, 1 << 70))
                except (*FAILURES, OverflowError):
                    continue

    assert growth(work) < CALLS


def test_refused_descriptions_leave_no_references_behind() -> None:
    assert NATIVE is not None
    native = NATIVE
    inner = (True, ((STRING, True, False, False, 1, None),))
    wrong = (True, ((KIND_STRUCT, True, False, True, 1, inner), (STRING, True, False, False, 99, None)))
    nested = (True, ((KIND_STRUCT, True, False, True, 1, inner), (KIND_STRUCT, True, False, True, 1, wrong)))

    def work() -> None:
        native.SummaryReader(inner, CODECS, ())
        for description, codecs in ((wrong, CODECS), (nested, CODECS), (inner, (b"",)), (inner, (b"\xff",) * 8)):
            with pytest.raises(ValueError, match=r"kind|numbers|ASCII"):
                native.SummaryReader(description, codecs, ())

    assert growth(work) < CALLS
