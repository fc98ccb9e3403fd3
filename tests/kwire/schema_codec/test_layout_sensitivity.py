"""Each rule of each field is broken once in a schema; the comparison of layouts and generated code must detect it.

Only the layout uses the broken schema, so the generated code is the reference. The comparison is symmetric: the same
vectors detect a rule that is broken in the generated code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import kwire
from kwire.layout import describe_bytes, describe_spec
from kwire.schema import (
    EDITIONS,
    FieldSpec,
    MessageSpec,
    StructSpec,
    Versions,
    load_schema,
    own_message_names,
    parse_message,
)
from kwire.schema.versions import HIGHEST, NONE
from tests.support.cases import check_cases
from tests.support.messages.filled_messages import filled_vectors
from tests.support.messages.golden_vectors import Vector
from tests.support.messages.layout_agreement import disagreements

pytestmark = pytest.mark.slow

MESSAGES = [
    (edition, name)
    for edition in EDITIONS
    for name in own_message_names(edition)
    if load_schema(name, edition).versions
]
#: They run in parallel.
PARTS = 8


def is_detected(spec: MessageSpec, vectors: tuple[Vector, ...]) -> bool:
    """Whether any of the vectors reads differently by this schema than by the generated code."""
    return any(
        disagreements(
            describe_spec(spec, vector.version, vector.raw),
            kwire.decode(vector.message, vector.version, vector.raw, edition=vector.edition),
        )
        for vector in vectors
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_full_messages_agree_with_the_generated_code_and_every_broken_rule_is_detected(part: int) -> None:
    def check(message: tuple[str, str]) -> None:
        edition, name = message
        vectors = filled_vectors(name, edition)
        for vector in vectors:
            tree = describe_bytes(name, vector.version, vector.raw, edition=edition)
            assert disagreements(tree, kwire.decode(name, vector.version, vector.raw, edition=edition)) == []

        broken = broken_schemas(load_schema(name, edition))
        assert [what for what, schema in broken if not is_detected(schema, vectors)] == []

    check_cases(MESSAGES[part::PARTS], check)


def test_every_kind_of_rule_is_broken() -> None:
    rules = {
        what.rpartition(": ")[2] for edition, name in MESSAGES for what, _ in broken_schemas(load_schema(name, edition))
    }

    assert rules == {
        "a version later",
        "a version earlier",
        "not nullable",
        "nullable",
        "another tag",
        "not tagged",
        "own flexible versions lost",
        "flexible a version later",
    }


def test_a_version_rule_changed_in_a_copy_of_a_schema_file_is_detected(tmp_path: Path) -> None:
    original = Path(load_schema("ShareFetchRequest").file)
    text = original.read_text(encoding="utf-8")
    rule = '"name": "IsRenewAck", "type": "bool", "versions": "2+"'
    copy = tmp_path / original.name
    copy.write_text(text.replace(rule, rule.replace("2+", "1+")), encoding="utf-8")

    true, broken = parse_message(text), parse_message(copy.read_text(encoding="utf-8"), str(copy))

    assert not is_detected(true, filled_vectors("ShareFetchRequest", "4.3"))
    assert is_detected(broken, filled_vectors("ShareFetchRequest", "4.3"))


def broken_schemas(spec: MessageSpec) -> Iterator[tuple[str, MessageSpec]]:
    """The schema with one rule broken, once for each rule of each field that affects the encoding."""
    for path, field, above in uses(spec.fields, spec.versions, ()):
        for what, broken in broken_fields(field, above):
            yield f"{spec.name}.{'.'.join(path)}: {what}", replace(spec, fields=put(spec.fields, path, broken))
    low = max(spec.flexible_versions.low, spec.versions.low)
    if spec.flexible_versions and low <= spec.versions.high:
        yield f"{spec.name}: flexible a version later", replace(spec, flexible_versions=Versions(low + 1, HIGHEST))


Path_ = tuple[str, ...]


def uses(fields: tuple[FieldSpec, ...], above: Versions, path: Path_) -> Iterator[tuple[Path_, FieldSpec, Versions]]:
    """Every path of a field, with the versions of the struct around it."""
    for field in fields:
        there = field.versions.intersect(above)
        if there:
            yield (*path, field.name), field, above
            yield from uses(field.fields, there, (*path, field.name))


def broken_fields(field: FieldSpec, above: Versions) -> Iterator[tuple[str, FieldSpec]]:
    there = field.versions.intersect(above)
    yield "a version later", replace(field, versions=Versions(there.low + 1, HIGHEST))
    # A struct without fields in the earlier version takes no bytes.
    is_empty = field.struct is not None and not any(there.low - 1 in below.versions for below in field.fields)
    if there.low > above.low and (field.is_array or not is_empty):
        yield "a version earlier", replace(field, versions=Versions(there.low - 1, field.versions.high))
    nullable = field.nullable_versions.intersect(there)
    if nullable and not (field.tag is not None and field.default is None):
        yield "not nullable", replace(field, nullable_versions=NONE)
    if not nullable and field.struct and not field.is_array:
        # Only a struct has a marker byte for null; a nullable length has the same bytes.
        yield "nullable", replace(field, nullable_versions=Versions(0, HIGHEST))
    if field.tag is not None and field.tagged_versions.intersect(there):
        yield "another tag", replace(field, tag=field.tag + 100)
        yield "not tagged", replace(field, tagged_versions=NONE)
    if field.flexible_versions is not None:
        yield "own flexible versions lost", replace(field, flexible_versions=None)


def put(fields: tuple[FieldSpec, ...], path: Path_, new: FieldSpec) -> tuple[FieldSpec, ...]:
    """The fields with the one at this path replaced, only at this path, even if its struct is shared."""
    return tuple(_put(field, path, new) if field.name == path[0] else field for field in fields)


def _put(field: FieldSpec, path: Path_, new: FieldSpec) -> FieldSpec:
    if len(path) == 1:
        return new
    assert field.struct is not None
    below = StructSpec(field.struct.name, field.struct.versions, put(field.struct.fields, path[1:], new))
    return replace(field, struct=below)
