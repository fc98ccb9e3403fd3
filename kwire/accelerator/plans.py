"""Describes one version of a message for the extension, from the field tables that generated modules have.

The extension turns a description into a plan (`src/plan.c`) when a version is read or written for the first time. All
numbers here are those of `src/plan.h`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

#: The first and last of some versions; the last is lower where there are none.
VersionRange = tuple[int, int]

#: A field of a struct: its attribute, type ("[]" before the element's), versions, nullable versions, flexible versions
#: (None: those of the message), tag (-1: none), tagged versions, whether it is ignorable, and its default.
FieldRow = tuple[str, str, VersionRange, VersionRange, VersionRange | None, int, VersionRange, bool, object]

#: The fields of each struct, and of the message itself, by their names in the schema.
FieldTables = Mapping[str, tuple[FieldRow, ...]]

_KINDS = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string", "bytes",
    "records",
)  # fmt: skip
KIND_STRUCT = len(_KINDS)
KIND_NUMBERS = {name: number for number, name in enumerate(_KINDS)}

_DEFAULT_OBJECT, _DEFAULT_LIST, _DEFAULT_STRUCT = range(3)

_UNKNOWN_TAGGED_FIELDS = "unknown_tagged_fields"

Description = tuple[Any, ...]


class NativeCodec(Protocol):
    """What a `MessageCodec` of the extension has, for one version of a message."""

    def read(self, data: bytes, at: int, /) -> tuple[Any, int]:
        """The message at an offset, and the offset behind it. Raises: FastPathError, or another of FAILURES."""

    def write(self, message: Any, /) -> list[bytes | bytearray | memoryview]:
        """Parts to be joined. Raises as the Python code does."""

    def encode(self, message: Any, /) -> bytes:
        """The bytes. Raises as the Python code does."""


class NativeJsonWriter(Protocol):
    """What a `JsonWriter` of the extension has, for one version of a message."""

    def write(self, data: bytes, at: int, /) -> str:
        """The text of the message at an offset. Raises: FastPathError, or another of FAILURES."""

    def write_each(self, data: bytes, offsets: tuple[int, ...], /) -> list[str | None]:
        """The texts of the messages at these offsets; None for each that `write` raises an error for."""


class NativeSummaryReader(Protocol):
    """What a `SummaryReader` of the extension has, for one version of a message."""

    def read(
        self,
        answers: NativeSummaryReader,
        data: bytes,
        places: tuple[tuple[int, ...], tuple[int, ...]],
        heads: dict[bytes, str],
        make_head: Callable[[int, int], str],
        /,
    ) -> tuple[list[str | None], list[int]]:
        """The summaries of exchanges, and the longest waits of their requests in milliseconds; None and 0 for those
        that Python code must decode.

        Args: answers: the reader of the responses. places: the offsets of the requests and those of the responses, -1
        without one. heads: the texts of fields by their bytes; those that are missing
        are made by `make_head` with both offsets, and stored.
        """


class MessageDescriber:
    """Describes one version of a message; called without arguments, it returns the description.

    Args: message: the class; structs: the classes of its structs by their names in the schema; flexible: the versions
        in which lengths are varints and structs end with tagged fields.
    """

    __slots__ = ("_flexible", "_message", "_structs", "_tables", "_version")

    def __init__(
        self,
        message: type[msgspec.Struct],
        structs: Mapping[str, type[msgspec.Struct]],
        tables: FieldTables,
        flexible: VersionRange,
        version: int,
    ) -> None:
        self._message = message
        self._structs = structs
        self._tables = tables
        self._flexible = _contains(flexible, version)
        self._version = version

    def __call__(self) -> Description:
        """The description: class, whether flexible, tags of the schema, fields, defaults, tagged fields, and the name
        of the attribute with the unknown tagged fields.
        """
        # The name of the message itself is that of its class.
        return self._describe_struct(self._message.__name__, self._message)

    def _describe_struct(self, name: str, struct: type[msgspec.Struct]) -> Description:
        rows = self._tables[name]
        fields = [self._describe_field(row) for row in rows if self._is_present(row)]
        defaults = tuple(self._describe_default(row) for row in rows)
        tagged = sorted(
            (row[5], live, index, self._describe_field(row) if live else None)
            for index, row in enumerate(rows)
            for live in [_contains(row[6], self._version)]
            if row[5] >= 0
        )
        unknown = _UNKNOWN_TAGGED_FIELDS if _UNKNOWN_TAGGED_FIELDS in struct.__struct_fields__ else None
        return (struct, self._flexible, len(tagged), tuple(fields), defaults, tuple(tagged), unknown)

    def _is_present(self, row: FieldRow) -> bool:
        """Whether the version has the field, outside of the tagged fields."""
        return _contains(row[2], self._version) and not _contains(row[6], self._version)

    def _describe_field(self, row: FieldRow) -> Description:
        name, type_name, _, nullable_versions, flexible_versions, _, tagged_versions, _, _ = row
        element = type_name.removeprefix("[]")
        kind = KIND_NUMBERS.get(element, KIND_STRUCT)
        flexible = self._flexible if flexible_versions is None else _contains(flexible_versions, self._version)
        return (
            name,
            kind,
            element != type_name,
            _contains(nullable_versions, self._version),
            flexible,
            _contains(tagged_versions, self._version),
            self._describe_struct(element, self._structs[element]) if kind == KIND_STRUCT else None,
        )

    def _describe_default(self, row: FieldRow) -> Description:
        name, type_name, versions, nullable_versions, _, _, _, ignorable, default = row
        kind, struct = _DEFAULT_OBJECT, None
        if default == () and type_name.removeprefix("[]") not in KIND_NUMBERS:
            kind = _DEFAULT_LIST
            if not type_name.startswith("[]"):
                kind, struct = _DEFAULT_STRUCT, self._describe_struct(type_name, self._structs[type_name])
        required = not _contains(versions, self._version) and not ignorable
        return (
            name,
            kind,
            default,
            self._is_present(row),
            required,
            nullable_versions[0] <= nullable_versions[1],
            struct,
        )


def _contains(versions: VersionRange, version: int) -> bool:
    return versions[0] <= version <= versions[1]
