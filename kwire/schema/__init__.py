"""Kafka's own schema files, read as they are."""

from kwire.schema.library import DEFAULT_EDITION, EDITIONS, layers_of, load, names, own_names, schema_root
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
    "layers_of",
    "load",
    "names",
    "own_names",
    "parse_message",
    "schema_root",
    "snake_case",
]
