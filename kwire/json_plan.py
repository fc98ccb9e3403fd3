"""What Kafka's JSON form of a message has, in one version: its fields, when they are omitted, and which may be null.

All that write JSON follow this plan: `json_form` from decoded messages, and `json_text` from their bytes, in Python and
in the accelerator. `VALUE_FORMS` of `json_form` has the form of each type of value.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kwire.codec_table import Codec
from kwire.registry import codec_of_name
from kwire.schema import FieldSpec, load_schema


class JsonField(NamedTuple):
    """A field that the version has.

    name: of the attribute. key: in JSON. kind: the type of the value, or of the elements; empty for structs.
    is_flexible: its length is a varint. omitted: the values with which a tagged field is omitted; empty for others.
    """

    name: str
    key: str
    kind: str
    is_array: bool
    is_nullable: bool
    is_flexible: bool
    omitted: tuple[object, ...]
    inner: JsonStruct | None


class JsonStruct(NamedTuple):
    """The fields of a message, or of a struct in it, in the order of JSON.

    is_flexible: it ends with tagged fields. absent: the fields that the version does not have and that must not be set,
    each with the values of a field that is not set.
    """

    is_flexible: bool
    fields: tuple[JsonField, ...]
    absent: tuple[tuple[str, tuple[object, ...]], ...]

    @property
    def untagged_fields(self) -> tuple[JsonField, ...]:
        """The fields that are always there, in the order of the wire as well."""
        return tuple(field for field in self.fields if not field.omitted)

    def has_kind(self, kind: str) -> bool:
        """Whether a field that is always there is of this type, at any depth."""
        fields = self.untagged_fields
        return any(field.kind == kind or (field.inner is not None and field.inner.has_kind(kind)) for field in fields)


@cache
def json_plan(name: str, edition: str, version: int) -> JsonStruct:
    """The plan of a message."""
    spec = load_schema(name, edition)
    return _plan_struct(codec_of_name(name, edition), spec.fields, version, is_flexible=spec.is_flexible(version))


def _plan_struct(codec: Codec, fields: tuple[FieldSpec, ...], version: int, *, is_flexible: bool) -> JsonStruct:
    planned = tuple(
        JsonField(
            field.snake_name,
            field.json_name,
            "" if field.struct else field.element_type,
            field.is_array,
            version in field.nullable_versions,
            field.is_flexible(version, is_flexible),
            _default_values(codec, field) if field.is_tagged(version) else (),
            _plan_struct(codec, field.fields, version, is_flexible=is_flexible) if field.struct else None,
        )
        for field in fields
        if version in field.versions
    )
    absent = (field for field in fields if version not in field.versions and not field.ignorable)
    return JsonStruct(
        is_flexible, planned, tuple((field.snake_name, _default_values(codec, field)) for field in absent)
    )


def _default_values(codec: Codec, field: FieldSpec) -> tuple[object, ...]:
    """The values of a field that is not set; an empty array may be a list or a tuple."""
    if field.default == () and field.is_array:
        return [], ()
    if field.default == () and field.struct:
        return (codec.structs[field.struct.name](),)
    return (field.default,)
