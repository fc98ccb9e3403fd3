"""Describe for the accelerator which fields of a message its one-line summary depends on, and how.

The fields are those that `kwire.capture.rows.exchange_summary` reads in a decoded message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwire.accelerator.plans import KIND_NUMBERS, KIND_STRUCT
from kwire.capture.kafka.message_fields import SKIPPED_FIELDS, FieldShape, field_shape
from kwire.capture.rows.exchange_summary import summary_fields
from kwire.registry import codec_of_version
from kwire.schema import load_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from kwire.codec_table import Codec
    from kwire.schema import FieldSpec

#: As `src/summary.c` reads it: whether a struct ends with tagged fields, and a row for each of its fields.
Description = tuple[bool, tuple[tuple[Any, ...], ...]]

# What a field is for; `src/summary.h` has the same numbers.
_NONE, _KEY, _RECORDS, _RANGE_FIRST, _RANGE_LAST, _RANGE_COUNT, _ACK_FIRST, _ACK_LAST, _ACK_TYPES = range(9)
_EPOCH, _WAIT = 9, 10
# Where the role is in the row of a field.
_ROLE = 4
_NUMBERS = {"share_session_epoch": _EPOCH, "max_wait_ms": _WAIT}
_RANGES = {"first_offset": _RANGE_FIRST, "last_offset": _RANGE_LAST, "delivery_count": _RANGE_COUNT}
_ACKNOWLEDGEMENTS = {"first_offset": _ACK_FIRST, "last_offset": _ACK_LAST, "acknowledge_types": _ACK_TYPES}

#: The roles of fields by their paths, which are attributes.
_Path = tuple[str, ...]


def describe_message(name: str, version: int) -> Description | None:
    """The description of a message; None if it must be decoded."""
    codec = codec_of_version(name, version)
    describer = _Describer(codec, version)
    spec = load_schema(codec.name, codec.edition)
    return describer.describe_struct(spec.fields, codec.message, (), is_flexible=spec.is_flexible(version))


class _Describer:
    """Describes the structs of one version of a message."""

    def __init__(self, codec: Codec, version: int) -> None:
        self._codec = codec
        self._version = version
        self._roles = _special_roles(codec)

    def describe_struct(
        self,
        fields: tuple[FieldSpec, ...],
        message: type[msgspec.Struct],
        path: _Path,
        *,
        is_flexible: bool,
        is_skipped: bool = False,
    ) -> Description | None:
        """The description of a struct. Args: is_skipped: its topics are not those of the message."""
        shape, version = field_shape(message), self._version
        rows: list[tuple[Any, ...]] = []
        for field in fields:
            here = (*path, field.snake_name)
            role = self._roles.get(here, _NONE)
            if version not in field.versions or field.is_tagged(version):
                if role not in {_NONE, _KEY}:
                    # Its default would count.
                    return None
                continue
            if role == _NONE and path and not is_skipped and _names_topic(field.snake_name, shape):
                role = _KEY
            if role == _NONE and not path and field.snake_name in shape.names:
                role = _KEY
            inner = None
            if field.struct is not None:
                struct = self._codec.structs[field.struct.name]
                below = is_skipped or field.snake_name in SKIPPED_FIELDS
                inner = self.describe_struct(
                    field.struct.fields, struct, here, is_flexible=is_flexible, is_skipped=below
                )
                if inner is None:
                    return None
                # The key has the counts of all arrays with elements in it, so that no other fields have the same key.
                role = _KEY if any(row[_ROLE] == _KEY for row in inner[1]) else _NONE
            kind = KIND_STRUCT if field.struct is not None else KIND_NUMBERS[field.element_type]
            is_nullable, has_uvarint = version in field.nullable_versions, field.is_flexible(version, is_flexible)
            rows.append((kind, field.is_array, is_nullable, has_uvarint, role, inner))
        return is_flexible, tuple(rows)


def _special_roles(codec: Codec) -> Mapping[_Path, int]:
    """The roles of the fields that do not name topics."""
    used = summary_fields(codec.message)
    names = codec.message.__struct_fields__
    roles: dict[_Path, int] = {}
    if codec.name.endswith("Request"):
        roles |= {(field,): _KEY for field, _ in used.fields}
        roles |= {(field,): role for field, role in _NUMBERS.items() if field in names}
    elif used.has_error:
        roles |= {("error_code",): _KEY, ("error_message",): _KEY}
    if used.records is not None:
        topics, partitions, records = used.records
        roles[topics[0], partitions[0], records[0]] = _RECORDS
    if used.has_acquired:
        roles |= {("responses", "partitions", "acquired_records", field): role for field, role in _RANGES.items()}
    if used.has_acknowledgements:
        path = ("topics", "partitions", "acknowledgement_batches")
        roles |= {(*path, field): role for field, role in _ACKNOWLEDGEMENTS.items()}
    return roles


def _names_topic(name: str, shape: FieldShape) -> bool:
    """Whether a field of a struct has the name, the id or partitions of a topic."""
    return name in {shape.name, shape.number, "topic_id", *shape.numbers, *shape.names}
