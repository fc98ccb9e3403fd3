"""Parses the text of a schema file to a `MessageSpec`, and rejects invalid schemas with a reason."""

from __future__ import annotations

import json
import keyword
import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Never

from kwire.errors import SchemaError
from kwire.schema.defaults import parse_default
from kwire.schema.spec import FIXED_SIZES, PRIMITIVES, FieldSpec, MessageSpec, StructSpec, snake_case
from kwire.schema.versions import HIGHEST, NONE, Versions

Json = dict[str, object]

_KINDS = {"request", "response", "header", "data", "metadata", "coordinator-key", "coordinator-value"}
_MESSAGE_KEYS = {
    *("apiKey", "type", "listeners", "name", "validVersions", "deprecatedVersions", "flexibleVersions"),
    *("latestVersionUnstable", "fields", "commonStructs", "about"),
}
_FIELD_KEYS = {
    *("name", "type", "versions", "nullableVersions", "tag", "taggedVersions", "flexibleVersions", "default"),
    *("ignorable", "mapKey", "entityType", "zeroCopy", "about", "fields"),
}
_STRUCT_KEYS = {"name", "versions", "about", "fields"}

#: Names become Python identifiers in generated code, so only ASCII alphanumeric characters are allowed.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,99}")
#: A string, or a comment; Kafka's files have `//` comments anywhere between tokens.
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
#: Structs in structs: Kafka has five levels; a file with many more is a mistake, or an attack on the stack.
_DEPTH_MAX = 16


def parse_message(text: str, file: str = "") -> MessageSpec:
    """The message that a schema file describes. Raises: SchemaError naming file, message, field and reason."""
    return _Parser(file).parse_message(text)


def strip_comments(text: str) -> str:
    """The text of a schema file as plain JSON."""

    # Newlines stay, so that the JSON parser's line numbers are those of the file.
    def blank(match: re.Match[str]) -> str:
        text = match[0]
        return text if text.startswith('"') else "\n" * text.count("\n")

    return _STRING_OR_COMMENT.sub(blank, text)


def _leading_comment(text: str) -> str:
    lines = takewhile(lambda line: line.startswith("//"), text.splitlines())
    return "\n".join(line.removeprefix("//").strip() for line in lines)


@dataclass
class _Parser:
    """Parses one file; errors name the file and the message."""

    file: str
    name: str = ""

    def fail(self, field: str, reason: str) -> Never:
        raise SchemaError(self.file, self.name, field, reason)

    def parse_message(self, text: str) -> MessageSpec:
        try:
            tree = json.loads(strip_comments(text))
        except (ValueError, RecursionError) as error:
            self.fail("", f"is not JSON with comments: {error}")
        if not isinstance(tree, dict):
            self.fail("", "is not a JSON object")
        self.name = self.get_identifier(tree, "")
        self.check_keys(tree, _MESSAGE_KEYS, "")
        kind = self.get_text(tree, "type", "")
        if kind not in _KINDS:
            self.fail("", f"type {kind!r} is not one of {', '.join(sorted(_KINDS))}")
        versions = self.get_versions(tree, "validVersions", "")
        if versions.high == HIGHEST:
            self.fail("", "validVersions must end")
        # Files of removed messages, as StopReplica in 4.x, have no other keys.
        flexible = self.get_versions(tree, "flexibleVersions", "", NONE if not versions else None)
        if flexible and flexible.high != HIGHEST:
            self.fail("", f"flexibleVersions {flexible} must be open at the end, or none")
        api_key = self.get_number(tree, "apiKey", "")
        if api_key is None and kind in {"request", "response"}:
            self.fail("", "a request or response needs an apiKey")
        common = self.parse_common_structs(tree, versions, flexible)
        scope = _Scope(versions, flexible, {struct.name: struct for struct in common}, {self.name})
        fields = self.parse_fields(tree, "", scope, depth=0)
        return MessageSpec(
            name=self.name,
            kind=kind,
            versions=versions,
            flexible_versions=flexible,
            fields=fields,
            api_key=api_key,
            listeners=self.parse_listeners(tree),
            deprecated_versions=self.get_versions(tree, "deprecatedVersions", "", NONE),
            latest_unstable=self.get_boolean(tree, "latestVersionUnstable", ""),
            common_structs=common,
            about=self.get_text(tree, "about", "", ""),
            comment=_leading_comment(text),
            file=self.file,
        )

    def parse_listeners(self, tree: Json) -> tuple[str, ...]:
        """The roles to which a request may be sent: `broker`, `controller`."""
        value = tree.get("listeners") or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail("", "listeners is not a list of names")
        return tuple(value)

    def parse_common_structs(self, tree: Json, valid: Versions, flexible: Versions) -> tuple[StructSpec, ...]:
        """The shared structs. They may refer to each other, so those without open references come first."""
        pending = self.get_objects(tree, "commonStructs", "")
        done: dict[str, StructSpec] = {}
        names = [self.get_identifier(item, "commonStructs") for item in pending]
        if len(set(names)) != len(names):
            self.fail("commonStructs", "two structs have the same name")
        while pending:
            ready = [item for item in pending if not (_element_types(item) & set(names)) - done.keys()]
            if not ready:
                self.fail("commonStructs", "structs that contain themselves are not supported")
            for item in ready:
                pending.remove(item)
                name = self.get_identifier(item, "commonStructs")
                self.check_keys(item, _STRUCT_KEYS, name)
                scope = _Scope(valid, flexible, done, {self.name, *names})
                done[name] = StructSpec(
                    name=name,
                    versions=self.get_versions(item, "versions", name),
                    fields=self.parse_fields(item, name, scope, depth=1),
                    about=self.get_text(item, "about", name, ""),
                )
        return tuple(done[name] for name in names)

    def parse_fields(self, tree: Json, path: str, scope: _Scope, depth: int) -> tuple[FieldSpec, ...]:
        """The fields of a message or struct; checks that names are unique and tags have no gaps."""
        if depth > _DEPTH_MAX:
            self.fail(path, f"structs are nested more than {_DEPTH_MAX} deep")
        fields = tuple(self.parse_field(item, path, scope, depth) for item in self.get_objects(tree, "fields", path))
        snakes = [field.snake_name for field in fields]
        for field in fields:
            if snakes.count(field.snake_name) > 1:
                self.fail(f"{path}.{field.name}".strip("."), "another field of the struct has the same name")
        tags = sorted(field.tag for field in fields if field.tag is not None)
        if tags != list(range(len(tags))):
            self.fail(path, f"tags must count up from 0 without gaps, not {tags}")
        return fields

    def parse_field(self, tree: Json, parent: str, scope: _Scope, depth: int) -> FieldSpec:
        name = self.get_identifier(tree, parent)
        path = f"{parent}.{name}" if parent else name
        self.check_keys(tree, _FIELD_KEYS, path)
        type_name = self.get_text(tree, "type", path)
        tagged = self.get_versions(tree, "taggedVersions", path, NONE)
        tag = self.get_number(tree, "tag", path)
        # As in Kafka's generator, a tagged field without versions exists where it is tagged.
        versions = self.get_versions(tree, "versions", path, tagged or None)
        nullable = self.get_versions(tree, "nullableVersions", path, NONE)
        struct = self.parse_struct(tree, type_name, path, scope, versions=versions, depth=depth)
        self.check_tag(path, tag, tagged, scope)
        element = type_name.removeprefix("[]")
        if nullable and element == type_name and element in FIXED_SIZES:
            self.fail(path, f"a field of type {type_name} cannot be null")
        try:
            default = parse_default(type_name, tree.get("default"), nullable, versions, scope.valid)
        except ValueError as error:
            self.fail(path, str(error))
        return FieldSpec(
            name=name,
            type=type_name,
            versions=versions,
            nullable_versions=nullable,
            tag=tag,
            tagged_versions=tagged,
            flexible_versions=self.parse_flexible_versions(tree, type_name, path),
            default=default,
            ignorable=self.get_boolean(tree, "ignorable", path),
            map_key=self.get_boolean(tree, "mapKey", path),
            entity_type=self.get_text(tree, "entityType", path, "") or None,
            zero_copy=self.get_boolean(tree, "zeroCopy", path),
            about=self.get_text(tree, "about", path, ""),
            struct=struct,
        )

    def parse_struct(
        self, tree: Json, type_name: str, path: str, scope: _Scope, *, versions: Versions, depth: int
    ) -> StructSpec | None:
        """The struct a field holds: written inside the field, or one of the shared ones."""
        element = type_name.removeprefix("[]")
        if element in PRIMITIVES:
            if element == "records" and type_name != element:
                self.fail(path, "an array of records does not exist")
            if tree.get("fields"):
                self.fail(path, f"a field of type {type_name} has no fields")
            return None
        if _NAME.fullmatch(element) is None or not element[0].isupper():
            self.fail(path, f"type {type_name!r} is neither a known type nor the name of a struct")
        if not tree.get("fields"):
            struct = scope.common.get(element)
            if struct is None:
                self.fail(path, f"struct {element} is not defined in the message")
            return struct
        if element in scope.used_names or element in scope.common:
            self.fail(path, f"another struct or message has the name {element}")
        scope.used_names.add(element)
        return StructSpec(name=element, versions=versions, fields=self.parse_fields(tree, path, scope, depth + 1))

    def check_tag(self, path: str, tag: int | None, tagged: Versions, scope: _Scope) -> None:
        """Check that a field is tagged in flexible versions only."""
        if (tag is None) == bool(tagged):
            self.fail(path, "tag and taggedVersions go together")
        if tag is None:
            return
        if tag < 0:
            self.fail(path, f"tag {tag} is negative")
        if tagged.high != HIGHEST:
            self.fail(path, f"taggedVersions {tagged} must be open at the end")
        if not scope.flexible.covers(tagged.intersect(scope.valid)):
            self.fail(path, f"taggedVersions {tagged} go beyond the flexible versions {scope.flexible}")

    def parse_flexible_versions(self, tree: Json, type_name: str, path: str) -> Versions | None:
        """The flexible versions of a field that differs from its message, as ClientId in the request header does."""
        if "flexibleVersions" not in tree:
            return None
        if type_name not in {"string", "bytes"}:
            self.fail(path, "only a string or bytes may have flexibleVersions")
        return self.get_versions(tree, "flexibleVersions", path)

    # The values of a JSON object. As Kafka's parser, these methods accept "true" and "3" for true and 3.

    def get_objects(self, tree: Json, key: str, path: str) -> list[Json]:
        """A list of objects; empty where the key is missing."""
        value = tree.get(key) or []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.fail(path, f"{key} is not a list of objects")
        return list(value)

    def get_identifier(self, tree: Json, path: str) -> str:
        """A name that is safe as a name in generated code."""
        name = self.get_text(tree, "name", path)
        if _NAME.fullmatch(name) is None or keyword.iskeyword(snake_case(name)) or keyword.iskeyword(name):
            self.fail(path, f"name {name!r} has characters that are not alphanumeric, or is a keyword of Python")
        return name

    def get_text(self, tree: Json, key: str, path: str, default: str | None = None) -> str:
        """A text; required unless there is a default."""
        value = tree.get(key, default)
        if not isinstance(value, str):
            self.fail(path, f"{key} is missing" if value is None else f"{key} is not a text")
        return value

    def get_number(self, tree: Json, key: str, path: str) -> int | None:
        """An integer, or None where the key is missing."""
        value = tree.get(key)
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value):
            value = int(value)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            self.fail(path, f"{key} {value!r} is not an integer")
        return value

    def get_boolean(self, tree: Json, key: str, path: str) -> bool:
        """True or false; false where the key is missing."""
        value = tree.get(key, False)
        if isinstance(value, str) and value in {"true", "false"}:
            return value == "true"
        if not isinstance(value, bool):
            self.fail(path, f"{key} {value!r} is neither true nor false")
        return value

    def get_versions(self, tree: Json, key: str, path: str, default: Versions | None = None) -> Versions:
        """A range of versions; required unless there is a default."""
        if default is not None and key not in tree:
            return default
        try:
            return Versions.parse(self.get_text(tree, key, path))
        except ValueError as error:
            if isinstance(error, SchemaError):
                raise
            self.fail(path, f"{key}: {error}")

    def check_keys(self, tree: Json, known: set[str], path: str) -> None:
        """Reject an unknown key: it may change the encoding."""
        unknown = sorted(set(tree) - known)
        if unknown:
            self.fail(path, f"key {unknown[0]!r} is not known")


@dataclass
class _Scope:
    """The names and versions that the fields of one message refer to."""

    valid: Versions
    flexible: Versions
    common: dict[str, StructSpec]
    used_names: set[str]


def _element_types(tree: Json) -> set[str]:
    """The element types of all fields below an object, however deep."""
    types: set[str] = set()
    pending = [tree]
    while pending:
        fields = pending.pop().get("fields")
        for item in fields if isinstance(fields, list) else []:
            if isinstance(item, dict):
                types.add(str(item.get("type", "")).removeprefix("[]"))
                pending.append(item)
    return types
