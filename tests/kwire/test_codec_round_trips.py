"""Any message that its schema allows comes back as it was: every message, every version, values by hypothesis."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kwire import decode, encode, from_json, to_json
from kwire.registry import EDITIONS, codec_of_name
from kwire.schema import FieldSpec, load_schema, own_message_names
from kwire.schema.spec import INTEGER_RANGES

pytestmark = pytest.mark.slow

ALL_MESSAGES = [(name, edition) for edition in EDITIONS for name in own_message_names(edition)]
MESSAGES = [(name, edition) for name, edition in ALL_MESSAGES if load_schema(name, edition).versions]
#: Examples for each version; the whole file stays below half a minute with it.
EXAMPLES = 6

# Lengths around 127 and 128, where a varint gets its second byte, are made by repeating; long lists would be slow.
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["", "ä" * 63, "x" * 126, "x" * 127, "x" * 128, "y" * 300]))
BLOBS = st.one_of(st.binary(max_size=8), st.sampled_from([b"", b"\0" * 126, b"\1" * 127, b"\2" * 16384]))
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    **{name: st.integers(low, high) for name, (low, high) in INTEGER_RANGES.items()},
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": TEXTS,
    "bytes": BLOBS,
    "records": BLOBS,
}


def messages(name: str, edition: str, version: int) -> st.SearchStrategy[msgspec.Struct]:
    spec = load_schema(name, edition)
    flexible = spec.is_flexible(version)
    structs = codec_of_name(name, edition).structs

    def struct(made: type[msgspec.Struct], fields: tuple[FieldSpec, ...]) -> st.SearchStrategy[msgspec.Struct]:
        values = {each.snake_name: field(each) for each in fields if version in each.versions}
        if flexible:
            # Tags that no schema has yet, ascending.
            tags = st.dictionaries(st.integers(100, 2**31 - 1), st.binary(max_size=3), max_size=2)
            values["unknown_tagged_fields"] = tags.map(lambda found: tuple(sorted(found.items())))
        return st.builds(made, **values)

    def field(each: FieldSpec) -> st.SearchStrategy[Any]:
        one = PRIMITIVES.get(each.element_type)
        if each.struct:
            one = struct(structs[each.struct.name], each.fields)
        assert one is not None
        if each.is_array:
            many = st.lists(one, max_size=2)
            one = many if each.struct else st.one_of(many, st.lists(one, min_size=31, max_size=33)).map(tuple)
        return st.one_of(st.none(), one) if version in each.nullable_versions else one

    return struct(codec_of_name(name, edition).message, spec.fields)


@pytest.mark.parametrize(("name", "edition"), MESSAGES, ids=[f"{name}-{edition}" for name, edition in MESSAGES])
def test_every_message_round_trips_through_bytes_and_json(name: str, edition: str) -> None:
    for version in load_schema(name, edition).versions.to_range():
        _comes_back(name, edition, version)


def _comes_back(name: str, edition: str, version: int) -> None:
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(messages(name, edition, version))
    def check(message: msgspec.Struct) -> None:
        raw = encode(message, version)

        assert decode(name, version, raw, edition=edition) == message
        plain = from_json(name, version, to_json(message, version), edition=edition)
        assert to_json(plain, version) == to_json(message, version)

    check()
