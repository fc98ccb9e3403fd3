"""From the text of a schema file to a `MessageSpec`, refusing with a reason what cannot be right."""

from __future__ import annotations

import json
import keyword
import re
from dataclasses import dataclass
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

#: Names become Python identifiers in generated code, so nothing but letters and digits passes.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,99}")
#: A string, or a comment; Kafka's files have `//` comments anywhere between tokens.
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
#: Structs in structs: Kafka has five levels; a file with more is a mistake, or an attack on the stack.
_DEPTH_MAX = 16


def parse_message(text: str, file: str = "") -> MessageSpec:
    """The message that a schema file describes.

    Raises: SchemaError naming file, message, field and reason.
    """
    return _Parser(file).message(text)


def without_comments(text: str) -> str:
    """The text of a schema file as plain JSON."""

    # Newlines stay, so that the JSON parser's line numbers are those of the file.
    def blank(match: re.Match[str]) -> str:
        """A string as it is; of a comment its line breaks."""
        found = match[0]
        return found if found.startswith('"') else "\n" * found.count("\n")

    return _STRING_OR_COMMENT.sub(blank, text)


def _leading_comment(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return "\n".join(lines)


@dataclass
class _Parser:
    """The place in one file, for the errors."""

    file: str
    name: str = ""

    def refuse(self, field: str, reason: str) -> Never:
        """Say what is wrong with this file."""
        raise SchemaError(self.file, self.name, field, reason)

    def message(self, text: str) -> MessageSpec:
        """The whole file."""
        try:
            tree = json.loads(without_comments(text))
        except (ValueError, RecursionError) as error:
            self.refuse("", f"is not JSON with comments: {error}")
        if not isinstance(tree, dict):
            self.refuse("", "is not a JSON object")
        self.name = self.identifier(tree, "")
        self.known_keys(tree, _MESSAGE_KEYS, "")
        kind = self.text(tree, "type", "")
        if kind not in _KINDS:
            self.refuse("", f"type {kind!r} is not one of {', '.join(sorted(_KINDS))}")
        versions = self.versions(tree, "validVersions", "")
        if versions.high == HIGHEST:
            self.refuse("", "validVersions must end")
        # Files of messages that no version has any more, as StopReplica in 4.x, say nothing else.
        flexible = self.versions(tree, "flexibleVersions", "", NONE if not versions else None)
        if flexible and flexible.high != HIGHEST:
            self.refuse("", f"flexibleVersions {flexible} must be open at the end, or none")
        api_key = self.number(tree, "apiKey", "")
        if api_key is None and kind in {"request", "response"}:
            self.refuse("", "a request or response needs an apiKey")
        common = self.common_structs(tree, versions, flexible)
        scope = _Scope(versions, flexible, {struct.name: struct for struct in common}, {self.name})
        fields = self.fields(tree, "", scope, depth=0)
        return MessageSpec(
            name=self.name,
            kind=kind,
            versions=versions,
            flexible_versions=flexible,
            fields=fields,
            api_key=api_key,
            listeners=self.listeners(tree),
            deprecated_versions=self.versions(tree, "deprecatedVersions", "", NONE),
            latest_unstable=self.boolean(tree, "latestVersionUnstable", ""),
            common_structs=common,
            about=self.text(tree, "about", "", ""),
            comment=_leading_comment(text),
            file=self.file,
        )

    def listeners(self, tree: Json) -> tuple[str, ...]:
        """Where a request may be sent: `broker`, `controller`."""
        value = tree.get("listeners") or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse("", "listeners is not a list of names")
        return tuple(value)

    def common_structs(self, tree: Json, valid: Versions, flexible: Versions) -> tuple[StructSpec, ...]:
        """The shared structs. They may use one another in any order, so those that are complete come first."""
        waiting = self.objects(tree, "commonStructs", "")
        done: dict[str, StructSpec] = {}
        names = [self.identifier(item, "commonStructs") for item in waiting]
        if len(set(names)) != len(names):
            self.refuse("commonStructs", "two structs have the same name")
        while waiting:
            ready = [item for item in waiting if not (_types_in(item) & set(names)) - done.keys()]
            if not ready:
                self.refuse("commonStructs", "structs that contain themselves are not supported")
            for item in ready:
                waiting.remove(item)
                name = self.identifier(item, "commonStructs")
                self.known_keys(item, _STRUCT_KEYS, name)
                scope = _Scope(valid, flexible, done, {self.name, *names})
                done[name] = StructSpec(
                    name=name,
                    versions=self.versions(item, "versions", name),
                    fields=self.fields(item, name, scope, depth=1),
                    about=self.text(item, "about", name, ""),
                )
        return tuple(done[name] for name in names)

    def fields(self, tree: Json, path: str, scope: _Scope, depth: int) -> tuple[FieldSpec, ...]:
        """The fields of a message or struct, each with its own name, their tags without gaps."""
        if depth > _DEPTH_MAX:
            self.refuse(path, f"structs are nested more than {_DEPTH_MAX} deep")
        fields = tuple(self.field(item, path, scope, depth) for item in self.objects(tree, "fields", path))
        snakes = [field.snake for field in fields]
        for field in fields:
            if snakes.count(field.snake) > 1:
                self.refuse(f"{path}.{field.name}".strip("."), "another field of the struct has the same name")
        tags = sorted(field.tag for field in fields if field.tag is not None)
        if tags != list(range(len(tags))):
            self.refuse(path, f"tags must count up from 0 without gaps, not {tags}")
        return fields

    def field(self, tree: Json, parent: str, scope: _Scope, depth: int) -> FieldSpec:
        """One field with everything below it."""
        name = self.identifier(tree, parent)
        path = f"{parent}.{name}" if parent else name
        self.known_keys(tree, _FIELD_KEYS, path)
        type_name = self.text(tree, "type", path)
        tagged = self.versions(tree, "taggedVersions", path, NONE)
        tag = self.number(tree, "tag", path)
        # As in Kafka's generator, a tagged field without versions exists where it is tagged.
        versions = self.versions(tree, "versions", path, tagged or None)
        nullable = self.versions(tree, "nullableVersions", path, NONE)
        struct = self.struct(tree, type_name, path, scope, versions=versions, depth=depth)
        self.check_tag(path, tag, tagged, scope)
        element = type_name.removeprefix("[]")
        if nullable and element == type_name and element in FIXED_SIZES:
            self.refuse(path, f"a field of type {type_name} cannot be null")
        try:
            default = parse_default(type_name, tree.get("default"), nullable, versions, scope.valid)
        except ValueError as error:
            self.refuse(path, str(error))
        return FieldSpec(
            name=name,
            type=type_name,
            versions=versions,
            nullable_versions=nullable,
            tag=tag,
            tagged_versions=tagged,
            flexible_versions=self.field_flexible(tree, type_name, path),
            default=default,
            ignorable=self.boolean(tree, "ignorable", path),
            map_key=self.boolean(tree, "mapKey", path),
            entity_type=self.text(tree, "entityType", path, "") or None,
            zero_copy=self.boolean(tree, "zeroCopy", path),
            about=self.text(tree, "about", path, ""),
            struct=struct,
        )

    def struct(
        self, tree: Json, type_name: str, path: str, scope: _Scope, *, versions: Versions, depth: int
    ) -> StructSpec | None:
        """The struct a field holds: written inside the field, or one of the shared ones."""
        element = type_name.removeprefix("[]")
        if element in PRIMITIVES:
            if element == "records" and type_name != element:
                self.refuse(path, "an array of records does not exist")
            if tree.get("fields"):
                self.refuse(path, f"a field of type {type_name} has no fields")
            return None
        if _NAME.fullmatch(element) is None or not element[0].isupper():
            self.refuse(path, f"type {type_name!r} is neither a known type nor the name of a struct")
        if not tree.get("fields"):
            struct = scope.common.get(element)
            if struct is None:
                self.refuse(path, f"struct {element} is described nowhere in the message")
            return struct
        if element in scope.taken or element in scope.common:
            self.refuse(path, f"another struct or message has the name {element}")
        scope.taken.add(element)
        return StructSpec(name=element, versions=versions, fields=self.fields(tree, path, scope, depth + 1))

    def check_tag(self, path: str, tag: int | None, tagged: Versions, scope: _Scope) -> None:
        """Whether a field is tagged as flexible versions allow."""
        if (tag is None) == bool(tagged):
            self.refuse(path, "tag and taggedVersions go together")
        if tag is None:
            return
        if tag < 0:
            self.refuse(path, f"tag {tag} is negative")
        if tagged.high != HIGHEST:
            self.refuse(path, f"taggedVersions {tagged} must be open at the end")
        if not scope.flexible.covers(tagged.intersect(scope.valid)):
            self.refuse(path, f"taggedVersions {tagged} go beyond the flexible versions {scope.flexible}")

    def field_flexible(self, tree: Json, type_name: str, path: str) -> Versions | None:
        """The flexible versions of a field that differs from its message, as ClientId in the request header does."""
        if "flexibleVersions" not in tree:
            return None
        if type_name not in {"string", "bytes"}:
            self.refuse(path, "only a string or bytes may have flexibleVersions of its own")
        return self.versions(tree, "flexibleVersions", path)

    # The single values of a JSON object. Kafka's parser takes "true" and "3" for true and 3, so do these.

    def objects(self, tree: Json, key: str, path: str) -> list[Json]:
        """A list of objects; empty where the key is not there."""
        value = tree.get(key) or []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.refuse(path, f"{key} is not a list of objects")
        return list(value)

    def identifier(self, tree: Json, path: str) -> str:
        """A name that is safe as a name in generated code."""
        name = self.text(tree, "name", path)
        if _NAME.fullmatch(name) is None or keyword.iskeyword(snake_case(name)) or keyword.iskeyword(name):
            self.refuse(path, f"name {name!r} is not letters and digits, or is a word of Python")
        return name

    def text(self, tree: Json, key: str, path: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        value = tree.get(key, default)
        if not isinstance(value, str):
            self.refuse(path, f"{key} is missing" if value is None else f"{key} is not a text")
        return value

    def number(self, tree: Json, key: str, path: str) -> int | None:
        """An integer, or None where the key is not there."""
        value = tree.get(key)
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value):
            value = int(value)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            self.refuse(path, f"{key} {value!r} is not an integer")
        return value

    def boolean(self, tree: Json, key: str, path: str) -> bool:
        """True or false; false where the key is not there."""
        value = tree.get(key, False)
        if isinstance(value, str) and value in {"true", "false"}:
            return value == "true"
        if not isinstance(value, bool):
            self.refuse(path, f"{key} {value!r} is neither true nor false")
        return value

    def versions(self, tree: Json, key: str, path: str, default: Versions | None = None) -> Versions:
        """A range of versions; without a default it must be there."""
        if default is not None and key not in tree:
            return default
        try:
            return Versions.parse(self.text(tree, key, path))
        except ValueError as error:
            if isinstance(error, SchemaError):
                raise
            self.refuse(path, f"{key}: {error}")

    def known_keys(self, tree: Json, known: set[str], path: str) -> None:
        """Refuse a key that nobody reads: it may have a meaning for the bytes."""
        unknown = sorted(set(tree) - known)
        if unknown:
            self.refuse(path, f"key {unknown[0]!r} is not known")


@dataclass
class _Scope:
    """What the fields of one message can refer to."""

    valid: Versions
    flexible: Versions
    common: dict[str, StructSpec]
    taken: set[str]


def _types_in(tree: Json) -> set[str]:
    """The element types of all fields below an object, however deep."""
    found: set[str] = set()
    waiting = [tree]
    while waiting:
        fields = waiting.pop().get("fields")
        for item in fields if isinstance(fields, list) else []:
            if isinstance(item, dict):
                found.add(str(item.get("type", "")).removeprefix("[]"))
                waiting.append(item)
    return found
