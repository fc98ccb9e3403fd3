"""The second opinion is worth something only if it notices: each rule of each field is broken once, and must be told.

The broken schema is read by the layout alone, so the generated code stands for the truth; as the comparison is
symmetric, a rule that is broken in the generated code is told by the same vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import kwire
from kwire.layout import describe_bytes, describe_spec
from kwire.schema import EDITIONS, FieldSpec, MessageSpec, StructSpec, Versions, load, names, parse_message
from kwire.schema.versions import HIGHEST, NONE
from tests.kwire.layout.agreement import Vector, disagreements
from tests.kwire.layout.filled import filled_vectors

MESSAGES = [(edition, name) for edition in EDITIONS for name in names(edition) if load(name, edition).versions]


def is_told(spec: MessageSpec, vectors: tuple[Vector, ...]) -> bool:
    """Whether any of these bytes reads differently by this schema than by the generated code."""
    return any(
        disagreements(
            describe_spec(spec, vector.version, vector.data),
            kwire.decode(vector.message, vector.version, vector.data, edition=vector.edition),
        )
        for vector in vectors
    )


@pytest.mark.parametrize(("edition", "name"), MESSAGES)
def test_full_messages_agree_with_the_generated_code(edition: str, name: str) -> None:
    for vector in filled_vectors(name, edition):
        tree = describe_bytes(name, vector.version, vector.data, edition=edition)

        message = kwire.decode(name, vector.version, vector.data, edition=edition)
        assert disagreements(tree, message) == []


@pytest.mark.parametrize(("edition", "name"), MESSAGES)
def test_every_broken_rule_of_every_field_is_told(edition: str, name: str) -> None:
    spec = load(name, edition)
    vectors = filled_vectors(name, edition)

    broken = list(broken_schemas(spec))

    assert [what for what, schema in broken if not is_told(schema, vectors)] == []


def test_breaking_reaches_every_kind_of_rule() -> None:
    rules = {what.rpartition(": ")[2] for edition, name in MESSAGES for what, _ in broken_schemas(load(name, edition))}

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


def test_a_version_rule_changed_in_a_copy_of_a_schema_file_is_told(tmp_path: Path) -> None:
    original = Path(load("ShareFetchRequest").file)
    text = original.read_text(encoding="utf-8")
    rule = '"name": "IsRenewAck", "type": "bool", "versions": "2+"'
    copy = tmp_path / original.name
    copy.write_text(text.replace(rule, rule.replace("2+", "1+")), encoding="utf-8")

    true, broken = parse_message(text), parse_message(copy.read_text(encoding="utf-8"), str(copy))

    assert not is_told(true, filled_vectors("ShareFetchRequest", "4.3"))
    assert is_told(broken, filled_vectors("ShareFetchRequest", "4.3"))


def broken_schemas(spec: MessageSpec) -> Iterator[tuple[str, MessageSpec]]:
    """The schema with one rule broken, once for each rule of each field that decides about bytes."""
    for path, field, above in uses(spec.fields, spec.versions, ()):
        for what, broken in broken_fields(field, above):
            yield f"{spec.name}.{'.'.join(path)}: {what}", replace(spec, fields=put(spec.fields, path, broken))
    low = max(spec.flexible_versions.low, spec.versions.low)
    if spec.flexible_versions and low <= spec.versions.high:
        yield f"{spec.name}: flexible a version later", replace(spec, flexible_versions=Versions(low + 1, HIGHEST))


Path_ = tuple[str, ...]


def uses(fields: tuple[FieldSpec, ...], above: Versions, path: Path_) -> Iterator[tuple[Path_, FieldSpec, Versions]]:
    """Every place where a field can be on the wire, with the versions in which the struct around it can."""
    for field in fields:
        there = field.versions.intersect(above)
        if there:
            yield (*path, field.name), field, above
            yield from uses(field.fields, there, (*path, field.name))


def broken_fields(field: FieldSpec, above: Versions) -> Iterator[tuple[str, FieldSpec]]:
    there = field.versions.intersect(above)
    yield "a version later", replace(field, versions=Versions(there.low + 1, HIGHEST))
    # A struct that is there too early without any field of its own takes no bytes.
    is_empty = field.struct is not None and not any(there.low - 1 in below.versions for below in field.fields)
    if there.low > above.low and (field.is_array or not is_empty):
        yield "a version earlier", replace(field, versions=Versions(there.low - 1, field.versions.high))
    nullable = field.nullable_versions.intersect(there)
    if nullable and not (field.tag is not None and field.default is None):
        yield "not nullable", replace(field, nullable_versions=NONE)
    if not nullable and field.struct and not field.is_array:
        # Only a struct has a byte that says whether it is there; a length that may be null has the same bytes.
        yield "nullable", replace(field, nullable_versions=Versions(0, HIGHEST))
    if field.tag is not None and field.tagged_versions.intersect(there):
        yield "another tag", replace(field, tag=field.tag + 100)
        yield "not tagged", replace(field, tagged_versions=NONE)
    if field.flexible_versions is not None:
        yield "own flexible versions lost", replace(field, flexible_versions=None)


def put(fields: tuple[FieldSpec, ...], path: Path_, new: FieldSpec) -> tuple[FieldSpec, ...]:
    """The fields with the one at this path replaced, in this place alone even if its struct is shared."""
    return tuple(_put(field, path, new) if field.name == path[0] else field for field in fields)


def _put(field: FieldSpec, path: Path_, new: FieldSpec) -> FieldSpec:
    if len(path) == 1:
        return new
    assert field.struct is not None
    below = StructSpec(field.struct.name, field.struct.versions, put(field.struct.fields, path[1:], new))
    return replace(field, struct=below)
