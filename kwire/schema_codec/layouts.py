"""The layouts of messages: from a schema to a `construct` construct for each version."""

from __future__ import annotations

from functools import lru_cache

from kwire.errors import UnsupportedVersion
from kwire.schema import DEFAULT_EDITION, FieldSpec, MessageSpec, load_schema
from kwire.schema_codec.forms import NUMBERS, Blob, Boolean, Form, Length, Numbers, Text
from kwire.schema_codec.record_batches import Batches
from kwire.schema_codec.structs import Field, Fields, Items, NullableFields, TaggedFields
from kwire.schema_codec.tree import Kind


@lru_cache(maxsize=512)
def layout_of(name: str, version: int, edition: str = DEFAULT_EDITION) -> Fields:
    """The layout of a message of an edition, built on first use.

    Raises: UnsupportedVersion when there is no such message, edition or version.
    """
    spec = load_schema(name, edition)
    if version not in spec.versions:
        raise UnsupportedVersion(name, f"has the versions {spec.versions} in edition {edition}, not {version}")
    return build_layout(spec, version)


def build_layout(spec: MessageSpec, version: int) -> Fields:
    """The layout that a schema gives for one version."""
    return _fields(spec.name, spec.fields, version, spec.is_flexible(version))


def _fields(label: str, specs: tuple[FieldSpec, ...], version: int, flexible: bool) -> Fields:
    existing = [spec for spec in specs if version in spec.versions and not spec.is_tagged(version)]
    fields = [_field(spec, version, flexible) for spec in existing]
    if not flexible:
        return Fields(label, fields)
    known = {spec.tag: _field(spec, version, flexible) for spec in specs if spec.tag is not None}
    tags = {spec.tag for spec in specs if version in spec.versions and spec.is_tagged(version)}
    return Fields(label, fields, TaggedFields(known, tags, version))


def _field(spec: FieldSpec, version: int, flexible: bool) -> Field:
    kind = Kind.LEAF
    if spec.is_array and spec.element_type not in NUMBERS:
        kind = Kind.ARRAY
    elif spec.type == "records":
        kind = Kind.RECORDS
    elif spec.struct is not None:
        kind = Kind.STRUCT
    return Field(spec.snake_name, spec.type, _form(spec, version, flexible), kind)


def _form(spec: FieldSpec, version: int, flexible: bool) -> Form:
    nullable = version in spec.nullable_versions
    compact = spec.is_flexible(version, flexible)
    if spec.is_array:
        count = _length("int32", compact, nullable)
        if spec.element_type in NUMBERS:
            return Numbers(count, NUMBERS[spec.element_type])
        if spec.struct:
            fields = _fields(spec.struct.name, spec.fields, version, flexible)
            return Items(count, spec.element_type, fields, Kind.STRUCT)
        return Items(count, spec.element_type, _single(spec.element_type, compact, nullable=False), Kind.LEAF)
    if spec.struct:
        fields = _fields(spec.struct.name, spec.fields, version, flexible)
        return NullableFields(fields, tagged=spec.is_tagged(version)) if nullable else fields
    return _single(spec.type, compact, nullable)


def _single(type_name: str, compact: bool, nullable: bool) -> Form:
    match type_name:
        case "string":
            return Text(_length("int16", compact, nullable))
        case "bytes":
            return Blob(_length("int32", compact, nullable))
        case "records":
            return Batches(_length("int32", compact, nullable))
        case "bool":
            return Boolean()
    return NUMBERS[type_name]


def _length(type_name: str, compact: bool, nullable: bool) -> Length:
    return Length(None if compact else NUMBERS[type_name], nullable=nullable)
