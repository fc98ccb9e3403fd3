"""From a schema to its description: a construct for each version of each message."""

from __future__ import annotations

from functools import lru_cache

import construct

from kwire.errors import UnsupportedVersion
from kwire.layout.batches import Batches
from kwire.layout.forms import NUMBERS, Blob, Boolean, Construct, Fixed, Length, Named, Numbers, Text
from kwire.layout.structs import Fields, Items, NullableFields, TaggedFields
from kwire.layout.tree import Kind
from kwire.schema import DEFAULT_EDITION, FieldSpec, MessageSpec, load


@lru_cache(maxsize=512)
def layout(name: str, version: int, edition: str = DEFAULT_EDITION) -> Fields:
    """The description of a message of an edition, made on first use.

    Raises: UnsupportedVersion when there is no such message, edition or version.
    """
    spec = load(name, edition)
    if version not in spec.versions:
        what = f"has the versions {spec.versions} in edition {edition}, not {version}"
        raise UnsupportedVersion(name, what)
    return build(spec, version)


def build(spec: MessageSpec, version: int) -> Fields:
    """The description that a schema gives for one version."""
    return _struct(spec.fields, version, spec.is_flexible(version))


def _struct(fields: tuple[FieldSpec, ...], version: int, flexible: bool) -> Fields:
    there = [field for field in fields if version in field.versions]
    plain: list[Construct] = [_named(field, version, flexible) for field in there if not field.is_tagged(version)]
    if flexible:
        tagged = {field.tag: _named(field, version, flexible) for field in there if field.is_tagged(version)}
        plain.append(TaggedFields({tag: named for tag, named in tagged.items() if tag is not None}))
    return Fields(plain)


def _named(field: FieldSpec, version: int, flexible: bool) -> Named:
    kind = Kind.LEAF
    if field.is_array and (field.struct is not None or field.element_type in {"string", "bytes"}):
        kind = Kind.ARRAY
    elif field.type == "records":
        kind = Kind.RECORDS
    elif field.struct is not None:
        kind = Kind.STRUCT
    return Named(field.snake, field.type, _form(field, version, flexible), kind)


def _form(field: FieldSpec, version: int, flexible: bool) -> Construct:
    nullable = version in field.nullable_versions
    compact = field.is_flexible(version, flexible)
    # Before the flexible versions a string's length is an int16, every other one an int32.
    count = Length(None if compact else construct.Int32sb, nullable=nullable)
    if field.is_array:
        return _array(field, count, version, flexible)
    match field.type:
        case "string":
            return Text(Length(None if compact else construct.Int16sb, nullable=nullable))
        case "bytes":
            return Blob(count)
        case "records":
            return Batches(count)
        case "bool":
            return Boolean()
    if field.type in NUMBERS:
        return Fixed(NUMBERS[field.type])
    struct = _struct(field.fields, version, flexible)
    return NullableFields(struct, tagged=field.is_tagged(version)) if nullable else struct


def _array(field: FieldSpec, count: Length, version: int, flexible: bool) -> Construct:
    element = field.element_type
    if element in NUMBERS:
        return Numbers(count, NUMBERS[element])
    if element == "string":
        text = Text(Length(None if flexible else construct.Int16sb, nullable=False))
        return Items(count, element, text, Kind.LEAF)
    if element == "bytes":
        blob = Blob(Length(None if flexible else construct.Int32sb, nullable=False))
        return Items(count, element, blob, Kind.LEAF)
    if element == "bool":
        return Items(count, element, Boolean(), Kind.LEAF)
    return Items(count, element, _struct(field.fields, version, flexible), Kind.STRUCT)
