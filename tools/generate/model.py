"""Which classes a module has, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kwire.errors import SchemaError
from kwire.schema import DEFAULT_EDITION, EDITIONS, MessageSpec, StructSpec, load, own_names, snake_case
from kwire.schema.spec import FieldSpec

#: Words that generated modules use themselves.
_RESERVED = {"ClassVar", "Codec", "Struct", "Part", "Tags"}


@dataclass
class Message:
    """A message and the classes of its structs, inner ones first."""

    spec: MessageSpec
    edition: str
    structs: dict[str, StructSpec]
    class_names: dict[str, str]

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


def plan() -> list[Module]:
    """All modules to write, for all editions."""
    modules: list[Module] = []
    for edition in EDITIONS:
        by_module: dict[str, list[MessageSpec]] = {}
        for name in own_names(edition):
            spec = load(name, edition)
            if spec.versions:
                by_module.setdefault(_module_name(spec, edition), []).append(spec)
        modules += [_module(edition, dotted, specs) for dotted, specs in by_module.items()]
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
    package = "kwire.messages" if edition == DEFAULT_EDITION else f"kwire.messages.{edition_package(edition)}"
    return f"{package}.{stem}"


def edition_package(edition: str) -> str:
    """The sub-package of an edition: 4.0-early-access is in `early_access`, kip932-r3 in `drafts.r3`."""
    return EDITIONS[edition].directories[0].replace("/", ".").replace("-", "_")


def _module(edition: str, dotted: str, specs: list[MessageSpec]) -> Module:
    messages = [_message(spec, edition) for spec in sorted(specs, key=lambda spec: (spec.kind != "request", spec.name))]
    _part_names(messages)
    title = messages[0].spec.name.removesuffix("Request") if len(messages) > 1 else messages[0].spec.name
    if messages[0].spec.kind == "header":
        title = "Headers"
    if messages[0].spec.kind.startswith("coordinator"):
        title = messages[0].spec.name.removesuffix("Key").removesuffix("Value")
    return Module(edition, Path(*dotted.split(".")).with_suffix(".py"), dotted, title, messages)


def _message(spec: MessageSpec, edition: str) -> Message:
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


def _part_names(messages: list[Message]) -> None:
    """Structs of one name but different shapes get the message's name in front; equal ones are one class."""
    for message in messages:
        for name, struct in message.structs.items():
            others = [other for other in messages if other is not message]
            if any(_clashes(message, struct, other) for other in others):
                message.class_names[name] = message.spec.name + name


def _clashes(message: Message, struct: StructSpec, other: Message) -> bool:
    if struct.name == other.spec.name:
        return True
    twin = other.structs.get(struct.name)
    if twin is None:
        return False
    return _shape(twin) != _shape(struct) or message.spec.flexible_versions != other.spec.flexible_versions


def _shape(struct: StructSpec) -> StructSpec:
    """A struct without its prose."""
    fields = tuple(replace(field, about="", struct=field.struct and _shape(field.struct)) for field in struct.fields)
    return replace(struct, about="", fields=fields)
