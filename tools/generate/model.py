"""The modules to generate: their messages, and the names of their classes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from kwire.errors import SchemaError
from kwire.schema import DEFAULT_EDITION, EDITIONS, MessageSpec, StructSpec, load_schema, own_message_names, snake_case
from kwire.schema.spec import FieldSpec

#: Names that generated modules use themselves.
_RESERVED = {"ClassVar", "Codec", "Struct", "Part", "Tags"}


@dataclass
class Message:
    """A message and the classes of its structs, inner ones first. response: the class of a request's responses."""

    spec: MessageSpec
    edition: str
    structs: dict[str, StructSpec]
    class_names: dict[str, str]
    response: str | None = None

    def class_of(self, struct_name: str) -> str:
        """The Python class of a struct of this message."""
        return self.class_names[struct_name]


@dataclass
class Module:
    """One generated file."""

    edition: str
    path: Path
    dotted: str
    title: str
    messages: list[Message]


def plan_modules() -> list[Module]:
    """All modules to write, for all editions."""
    modules: list[Module] = []
    for edition in EDITIONS:
        by_module: dict[str, list[MessageSpec]] = {}
        for name in own_message_names(edition):
            spec = load_schema(name, edition)
            if spec.versions:
                by_module.setdefault(_module_name(spec, edition), []).append(spec)
        modules += [_build_module(edition, dotted, specs) for dotted, specs in by_module.items()]
    return sorted(modules, key=lambda module: module.dotted)


def _module_name(spec: MessageSpec, edition: str) -> str:
    if spec.kind == "header":
        stem = "header"
    else:
        stem = snake_case(spec.name)
        if spec.kind in {"request", "response"}:
            stem = stem.removesuffix(f"_{spec.kind}")
    if spec.kind.startswith("coordinator"):
        stem = stem.removesuffix("_key").removesuffix("_value")
        if edition == DEFAULT_EDITION:
            return f"kwire.records.coordinator.{stem}"
    if spec.kind == "metadata":
        return f"kwire.records.metadata.{stem}"
    package = "kwire.messages" if edition == DEFAULT_EDITION else f"kwire.messages.{edition_package(edition)}"
    return f"{package}.{stem}"


def edition_package(edition: str) -> str:
    """The sub-package of an edition: 4.3 is in `releases.v4_3`, 4.0-early-access in `early_access`."""
    names = [re.sub(r"\W", "_", name) for name in EDITIONS[edition].directories[0].split("/")]
    return ".".join(name if name.isidentifier() else f"v{name}" for name in names)


def _build_module(edition: str, dotted: str, specs: list[MessageSpec]) -> Module:
    specs = sorted(specs, key=lambda spec: (spec.kind != "request", spec.name))
    messages = [_build_message(spec, edition) for spec in specs]
    _assign_class_names(messages)
    _assign_responses(messages)
    title = specs[0].name.removesuffix("Request") if len(specs) > 1 else specs[0].name
    if specs[0].kind == "header":
        title = "Headers"
    if specs[0].kind.startswith("coordinator"):
        title = specs[0].name.removesuffix("Key").removesuffix("Value")
    return Module(edition, Path(*dotted.split(".")).with_suffix(".py"), dotted, title, messages)


def _build_message(spec: MessageSpec, edition: str) -> Message:
    structs: dict[str, StructSpec] = {}

    def visit(fields: tuple[FieldSpec, ...]) -> None:
        for field in fields:
            if field.struct:
                visit(field.fields)
                structs.setdefault(field.struct.name, field.struct)

    visit(spec.fields)
    for name in [spec.name, *structs]:
        if name in _RESERVED:
            raise SchemaError(spec.file, spec.name, name, "is a name that generated modules use themselves")
    return Message(spec, edition, structs, {name: name for name in structs})


def _assign_responses(messages: list[Message]) -> None:
    """The response of a request is in its module, unless an edition changes only one of them."""
    names = {message.spec.name for message in messages if message.spec.kind == "response"}
    for message in messages:
        name = f"{message.spec.name.removesuffix('Request')}Response"
        if message.spec.kind == "request" and name in names:
            message.response = name


def _assign_class_names(messages: list[Message]) -> None:
    """Structs of one name but different fields get the name of the message as a prefix; equal ones are one class."""
    for message in messages:
        for name, struct in message.structs.items():
            others = [other for other in messages if other is not message]
            if any(_has_other_shape(message, struct, other) for other in others):
                message.class_names[name] = message.spec.name + name


def _has_other_shape(message: Message, struct: StructSpec, other: Message) -> bool:
    if struct.name == other.spec.name:
        return True
    if (twin := other.structs.get(struct.name)) is None:
        return False
    flexible, other_flexible = message.spec.flexible_versions, other.spec.flexible_versions
    return _without_prose(twin) != _without_prose(struct) or flexible != other_flexible


def _without_prose(struct: StructSpec) -> StructSpec:
    """A struct without its texts."""
    fields = (replace(field, about="", struct=field.struct and _without_prose(field.struct)) for field in struct.fields)
    return replace(struct, about="", fields=tuple(fields))
