"""Kafka's schema files: parsed messages, structs, fields and versions."""

from kwire.schema.library import (
    DEFAULT_EDITION,
    EDITIONS,
    RELEASES,
    REMOVED_EDITION,
    edition_layers,
    edition_of_version,
    load_schema,
    message_names,
    own_message_names,
    removed_versions,
    schema_root,
)
from kwire.schema.parse import parse_message
from kwire.schema.spec import FieldSpec, MessageSpec, StructSpec, camel_case, snake_case
from kwire.schema.versions import Versions

__all__ = [
    "DEFAULT_EDITION",
    "EDITIONS",
    "RELEASES",
    "REMOVED_EDITION",
    "FieldSpec",
    "MessageSpec",
    "StructSpec",
    "Versions",
    "camel_case",
    "edition_layers",
    "edition_of_version",
    "load_schema",
    "message_names",
    "own_message_names",
    "parse_message",
    "removed_versions",
    "schema_root",
    "snake_case",
]
