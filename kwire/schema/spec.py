"""The content of a schema: messages, structs and fields."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from struct import calcsize

from kwire.schema.versions import NONE, Versions

#: Struct defaults and empty arrays are the empty tuple; UUIDs and bytes are bytes.
Default = bool | int | float | str | bytes | tuple[()] | None

#: The struct code of each type of fixed size. A boolean is a byte, so that 2 is an error.
STRUCT_CODES = {
    "bool": "B",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}

#: The sizes in bytes of the types of fixed size.
FIXED_SIZES = {name: calcsize(f">{code}") for name, code in STRUCT_CODES.items()}

#: The smallest and greatest value of every integer type.
INTEGER_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "uint8": (0, 2**8 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}

#: Every type that is neither an array nor a struct.
PRIMITIVES = frozenset(FIXED_SIZES) | {"string", "bytes", "records"}

_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@cache
def snake_case(name: str) -> str:
    """ThrottleTimeMs becomes throttle_time_ms; V3AndBelowTopics becomes v3_and_below_topics."""
    return _WORD_BOUNDARY.sub("_", name).lower()


@cache
def camel_case(name: str) -> str:
    """ThrottleTimeMs becomes throttleTimeMs, as in Kafka's JSON form."""
    return name[:1].lower() + name[1:]


@dataclass(frozen=True, slots=True)
class StructSpec:
    """A struct, nested in a message or shared by its fields."""

    name: str
    versions: Versions
    fields: tuple[FieldSpec, ...]
    about: str = ""


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field: its type, and the versions in which it exists, may be null, or is tagged."""

    name: str
    type: str
    versions: Versions
    nullable_versions: Versions = NONE
    tag: int | None = None
    tagged_versions: Versions = NONE
    flexible_versions: Versions | None = None
    default: Default = None
    ignorable: bool = False
    map_key: bool = False
    entity_type: str | None = None
    zero_copy: bool = False
    about: str = ""
    struct: StructSpec | None = None

    @property
    def snake_name(self) -> str:
        """The attribute's name in Python."""
        return snake_case(self.name)

    @property
    def json_name(self) -> str:
        """The key's name in Kafka's JSON form."""
        return camel_case(self.name)

    @property
    def is_array(self) -> bool:
        """Whether the field is an array."""
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        """The type of the elements of an array, else the type itself."""
        return self.type.removeprefix("[]")

    @property
    def fields(self) -> tuple[FieldSpec, ...]:
        """The fields of the field's struct; empty when it has none."""
        return self.struct.fields if self.struct else ()

    def is_tagged(self, version: int) -> bool:
        """Whether the field is a tagged field in this version."""
        return version in self.tagged_versions

    def is_flexible(self, version: int, message_is_flexible: bool) -> bool:
        """Whether the field's length is a varint; a field may keep the old form in a flexible message."""
        return message_is_flexible if self.flexible_versions is None else version in self.flexible_versions


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """A request, response, header, record or other message."""

    name: str
    kind: str
    versions: Versions
    flexible_versions: Versions
    fields: tuple[FieldSpec, ...]
    api_key: int | None = None
    listeners: tuple[str, ...] = ()
    deprecated_versions: Versions = NONE
    latest_unstable: bool = False
    common_structs: tuple[StructSpec, ...] = ()
    about: str = ""
    comment: str = ""
    file: str = field(default="", compare=False)

    def is_flexible(self, version: int) -> bool:
        """Whether lengths are varints and structs end with tagged fields in this version."""
        return version in self.flexible_versions
