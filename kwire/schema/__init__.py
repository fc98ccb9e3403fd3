"""Kafka's own schema files, read as they are."""

from kwire.schema.library import DEFAULT_EDITION, EDITIONS, load, names, schema_root
from kwire.schema.parse import parse_message
from kwire.schema.spec import FieldSpec, MessageSpec, StructSpec, camel_case, snake_case
from kwire.schema.versions import Versions

__all__ = [
    "DEFAULT_EDITION",
    "EDITIONS",
    "FieldSpec",
    "MessageSpec",
    "StructSpec",
    "Versions",
    "camel_case",
    "load",
    "names",
    "parse_message",
    "schema_root",
    "snake_case",
]
