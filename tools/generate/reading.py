"""Writes the decode functions: one for each message and version, with nested structs inlined.

Neighbouring fields of fixed size are read by one struct together with the length, count or tag byte behind them.
Offsets only ever grow and are compared with the size at the end, so a slice beyond it needs no check of its own.
"""

from __future__ import annotations

from kwire.schema.spec import FIXED_SIZES, FieldSpec
from tools.generate.emitter import Emitter
from tools.generate.model import Message
from tools.generate.reading_tags import read_tags
from tools.generate.source import Names, singular
from tools.generate.types import CODES, HINTS, constant, default_of, hint, size_of


class Reader(Emitter):
    """Emits the body of one decode function."""

    def __init__(self, message: Message, version: int, uses: set[str], name: str) -> None:
        super().__init__(message, version, uses, name)
        #: Whether record batches are read, as views of the whole message.
        self.uses_view = False

    def fixed(self, code: str, name: str) -> None:
        """Add a field of fixed size to the run."""
        self.run.append((code, name))

    def flush(self, stay: int = 0) -> None:
        """Read the run; with `stay` the offset remains that many bytes before its end."""
        if not self.run:
            return
        codes = [code for code, _ in self.run]
        targets = ", ".join(name for _, name in self.run)
        if codes == ["B"]:
            self.out(f"{targets} = data[at]")
        else:
            comma = "," if len(codes) == 1 else ""
            self.out(f"{targets}{comma} = {self.use(constant('unpack', codes))}(data, at)")
        if size_of(codes) > stay:
            self.out(f"at += {size_of(codes) - stay}")
        self.run.clear()

    def head(self, code: str, name: str, stay: int = 0) -> None:
        """A length, count or marker: the last of its run, as what follows depends on it.

        A compact length of more bytes must be read again from its first, so the offset stays there with `stay=1`.
        """
        self.fixed(code, name)
        self.flush(stay)

    # Structs

    def struct(self, struct_name: str, fields: tuple[FieldSpec, ...], owner: str) -> str:
        """Read a struct; returns the expression that makes it."""
        values: dict[str, str] = {}
        tagged = [field for field in fields if field.tag is not None]
        here = [field for field in fields if self.version in field.versions]
        for field in here:
            if not field.is_tagged(self.version):
                values[field.name] = self.field(field, owner)
        extra = ""
        if self.flexible:
            extra = self.tag_section(struct_name, tagged, values, owner)
        self.flush()
        return self.construction(struct_name, fields, values, extra)

    def construction(self, struct_name: str, fields: tuple[FieldSpec, ...], values: dict[str, str], extra: str) -> str:
        """The call of the class; a field that the version does not have takes its default, unless none comes behind."""
        arguments = [values.get(field.name) for field in fields] + ([extra] if extra else [])
        while arguments and arguments[-1] is None:
            arguments.pop()
        filled = [value or self.default(field) for value, field in zip(arguments, fields, strict=False)]
        if len(arguments) > len(fields):
            filled.append(extra)
        return f"{self.class_of(struct_name)}({', '.join(filled)})"

    def default(self, field: FieldSpec) -> str:
        """The expression for a field that the version does not have."""
        if field.type == "uuid" and field.default == bytes(16):
            return self.use("ZERO_UUID")
        return default_of(field, self.message)

    def tag_section(self, struct_name: str, tagged: list[FieldSpec], values: dict[str, str], owner: str) -> str:
        """The end of a flexible struct: a count of tagged fields, nearly always zero."""
        unknown = self.names.new("unknown", owner)
        # Alone in its run the byte needs no name of its own.
        count = "data[at]"
        if self.run:
            count = self.names.new("tag_count", owner)
            self.head("B", count, stay=1)
        live = [field for field in tagged if field.is_tagged(self.version)]
        if not tagged:
            with self.out.block(f"if {count}:"):
                self.out(f"{unknown}, at = {self.use('read_unknown_tags')}(data, at)")
            with self.out.block("else:"):
                self.out(f"{unknown} = {self.use('NO_TAGS')}")
                self.out("at += 1")
            return unknown
        targets = []
        for field in live:
            values[field.name] = self.names.new(field.snake, owner)
            targets.append(values[field.name])
        helper = self.tag_helper(struct_name, tagged, live)
        with self.out.block(f"if {count}:"):
            self.out(f"{', '.join([*targets, unknown])}, at = {helper}(data, at)")
        with self.out.block("else:"):
            for field in live:
                self.out(f"{values[field.name]} = {default_of(field, self.message)}")
            self.out(f"{unknown} = {self.use('NO_TAGS')}")
            self.out("at += 1")
        return unknown

    def tag_helper(self, struct_name: str, tagged: list[FieldSpec], live: list[FieldSpec]) -> str:
        """A function of its own for the tagged fields of a struct; returns its name."""
        inner = Reader(self.message, self.version, self.uses, self.name)
        inner.helpers = self.helpers
        text = read_tags(inner, struct_name, tagged, live)
        name = self.helper_name(struct_name)
        self.helpers[name] = text
        return name

    # Fields

    def field(self, field: FieldSpec, owner: str) -> str:
        """Read a field; returns the expression of its value."""
        nullable = self.version in field.nullable_versions
        flexible = field.is_flexible(self.version, self.flexible)
        name = self.names.new(field.snake, owner)
        if field.is_array:
            return self.array(field, name, nullable, flexible)
        if field.struct:
            return self.nested(field, name, nullable)
        return self.primitive(field.type, name, nullable, flexible)

    def primitive(self, type_name: str, name: str, nullable: bool, flexible: bool) -> str:
        """A field, or an element, that is neither array nor struct."""
        if type_name in FIXED_SIZES:
            self.fixed(CODES[type_name], name)
            return f"{self.use('BOOLEANS')}[{name}]" if type_name == "bool" else name
        if type_name == "string":
            (self.compact_text if flexible else self.text)(name, nullable)
        else:
            self.bytes(type_name, name, nullable, flexible)
        return name

    def compact_text(self, name: str, nullable: bool) -> None:
        """A string whose length + 1 is a varint."""
        length = self.names.new(f"{name}_length")
        self.head("B", length, stay=1)
        if nullable:
            self.out(f"{name}: str | None")
        with self.out.block(f"if 0 < {length} < 128:"):
            self.out(f"end = at + {length}")
            self.out(f"{name} = data[at + 1 : end].decode()")
            self.out("at = end")
        with self.out.block(f"elif {length}:" if nullable else "else:"):
            self.out(f"{name}, at = {self.use('read_long_text')}(data, at)")
        if nullable:
            with self.out.block("else:"):
                self.out(f"{name} = None")
                self.out("at += 1")

    def text(self, name: str, nullable: bool) -> None:
        """A string."""
        length = self.names.new(f"{name}_length")
        self.head("h", length)
        if nullable:
            self.out(f"{name}: str | None")
        with self.out.block(f"if {length} >= 0:"):
            self.out(f"end = at + {length}")
            self.out(f"{name} = data[at:end].decode()")
            self.out("at = end")
        self.null_or_refuse(name, f"{length} == -1", nullable)

    def null_or_refuse(self, name: str, is_null: str, nullable: bool) -> None:
        """The branches for what is no length: null where it is allowed, else a refusal."""
        if nullable:
            with self.out.block(f"elif {is_null}:"):
                self.out(f"{name} = None")
        with self.out.block("else:"):
            self.out(f"raise {self.use('Refused')}")

    def bytes(self, type_name: str, name: str, nullable: bool, flexible: bool) -> None:
        """Bytes or record batches."""
        source = "data"
        if type_name == "records":
            # A view of the whole message: record batches are not copied.
            source, self.uses_view = "view", True
        length = self.names.new(f"{name}_length")
        self.head("B" if flexible else "i", length, stay=int(flexible))
        if nullable:
            self.out(f"{name}: {HINTS[type_name]} | None")
        if flexible:
            with self.out.block(f"if {length} > 127:"):
                self.out(f"{length}, at = {self.use('read_uvarint')}(data, at)")
            with self.out.block("else:"):
                self.out("at += 1")
        with self.out.block(f"if {length}:" if flexible else f"if {length} >= 0:"):
            self.out(f"end = at + {length} - 1" if flexible else f"end = at + {length}")
            self.out(f"{name} = {source}[at:end]")
            self.out("at = end")
        if flexible and nullable:
            with self.out.block("else:"):
                self.out(f"{name} = None")
        else:
            self.null_or_refuse(name, f"{length} == -1", nullable)

    def nested(self, field: FieldSpec, name: str, nullable: bool) -> str:
        """A struct that is not in an array."""
        assert field.struct
        if not nullable:
            return self.struct(field.struct.name, field.fields, singular(name))
        # A struct that may be null has a byte in front: 1, or -1 for null; as a tagged field a varint, 0 for null.
        marker = self.names.new(f"{name}_marker")
        self.head("B", marker)
        self.out(f"{name}: {hint(field, self.message)} | None")
        with self.out.block(f"if {marker} == 1:"):
            value = self.struct(field.struct.name, field.fields, singular(name))
            self.out(f"{name} = {value}")
        null = 0 if field.is_tagged(self.version) else 255
        self.null_or_refuse(name, f"{marker} == {null}", nullable=True)
        return name

    # Arrays

    def array(self, field: FieldSpec, name: str, nullable: bool, flexible: bool) -> str:
        """The count of an array, null, and what is in it."""
        count = self.names.new(f"{name}_count")
        element = field.element_type
        numbers = element in FIXED_SIZES and element != "bool"
        self.head("B" if flexible else "i", count, stay=int(flexible))
        if nullable:
            self.out(f"{name}: {hint(field, self.message)} | None")
        if numbers:
            self.numbers(element, name, count, nullable, flexible)
            return name
        null = f"{count} == 0" if flexible else f"{count} == -1"
        if nullable:
            with self.out.block(f"if {null}:"):
                self.out(f"{name} = None")
                if flexible:
                    self.out("at += 1")
            self.out("else:")
            self.out.indent += 1
        elements = f"{count} - 1" if flexible else count
        if flexible:
            with self.out.block(f"if 0 < {count} < 128:"):
                self.out("at += 1")
            with self.out.block("else:"):
                self.out(f"{count}, at = {self.use('read_long_count')}(data, at)")
        else:
            with self.out.block(f"if not 0 <= {count} <= len(data) - at:"):
                self.out(f"raise {self.use('Refused')}")
        self.elements(field, name, elements, flexible)
        if nullable:
            self.out.indent -= 1
        return name

    def elements(self, field: FieldSpec, name: str, elements: str, flexible: bool) -> None:
        """The elements of an array."""
        element = field.element_type
        if element == "bool":
            self.out(f"{name}, at = {self.use('read_booleans')}(data, at, {elements})")
            return
        if field.struct:
            self.structs(field, name, elements)
            return
        items = self.names.new(f"{name}_list")
        self.out(f"{items}: list[{HINTS[element]}] = []")
        with self.out.block(f"for _ in range({elements}):"):
            item = self.primitive(element, self.names.new(singular(name), "one"), nullable=False, flexible=flexible)
            self.out(f"{items}.append({item})")
        self.out(f"{name} = tuple({items})")

    def numbers(self, element: str, name: str, count: str, nullable: bool, flexible: bool) -> None:
        """An array of one fixed type: a prebuilt struct when it is short."""
        size = FIXED_SIZES[element]
        times = "" if size == 1 else f"{size} * "
        if flexible:
            with self.out.block(f"if 0 < {count} < 33:"):
                self.out(f"{name} = {self.use(f'unpack_compact_{element}s')}[{count}](data, at + 1)")
                self.out(f"at += {times}{count} - {size - 1}" if times else f"at += {count}")
            with self.out.block(f"elif {count}:" if nullable else "else:"):
                self.out(f"{name}, at = {self.use(f'{element}s')}.read_compact(data, at)")
            if nullable:
                with self.out.block("else:"):
                    self.out(f"{name} = None")
                    self.out("at += 1")
            return
        with self.out.block(f"if 0 <= {count} < 32:"):
            self.out(f"{name} = {self.use(f'unpack_{element}s')}[{count}](data, at)")
            self.out(f"at += {times}{count}")
        if nullable:
            with self.out.block(f"elif {count} == -1:"):
                self.out(f"{name} = None")
        with self.out.block("else:"):
            self.out(f"{name}, at = {self.use(f'{element}s')}.read_long(data, at, {count})")

    def structs(self, field: FieldSpec, name: str, elements: str) -> None:
        """An array of structs: all rows at once when they have one size, else a loop."""
        assert field.struct
        fixed = self.fixed_codes(field.fields)
        if fixed is None:
            self.out(f"{name} = []")
            self.loop(field, name, elements)
            return
        codes, tagged = fixed
        if tagged:
            codes = [*codes, "x"]
        size = size_of(codes)
        rows = self.names.new(f"{name}_rows")
        iterate = self.use(constant("iterate", codes))
        made = self.comprehension(field, f"{iterate}({rows})")
        self.out(f"{name} = []")
        # Most messages have none, and then slices would cost more than they save.
        with self.out.block(f"if {elements.removesuffix(' - 1')} > {1 if elements.endswith(' - 1') else 0}:"):
            self.out(f"end = at + {size} * ({elements})" if elements.count(" ") else f"end = at + {size} * {elements}")
            self.out(f"{rows} = data[at:end]")
            if not tagged:
                # Cut bytes leave a part of a row, which the struct refuses, or an end beyond the data.
                self.out(f"{name} = {made}")
                self.out("at = end")
                return
            # All tag bytes at once: without tagged fields every row has the same size.
            with self.out.block(f"if {rows}[{size - 1}::{size}].count(0) == {elements}:"):
                self.out(f"{name} = {made}")
                self.out("at = end")
            with self.out.block("else:"):
                self.loop(field, name, elements)

    def comprehension(self, field: FieldSpec, rows: str) -> str:
        """All rows as objects; the class is called as is when the row is the head of its fields."""
        assert field.struct
        here = [one for one in field.fields if self.version in one.versions and not one.is_tagged(self.version)]
        if list(field.fields[: len(here)]) == here:
            return f"[*{self.use('starmap')}({self.class_of(field.struct.name)}, {rows})]"
        inner = Names()
        values = {one.name: inner.new(one.snake) for one in here}
        call = self.construction(field.struct.name, field.fields, values, "")
        targets = ", ".join(values.values()) + ("," if len(values) == 1 else "")
        return f"[{call} for {targets} in {rows}]"

    def loop(self, field: FieldSpec, name: str, elements: str) -> None:
        """Elements one by one."""
        assert field.struct
        with self.out.block(f"for _ in range({elements}):"):
            owner = singular(name)
            value = self.struct(field.struct.name, field.fields, owner)
            self.out(f"{name}.append({value})")

    def fixed_codes(self, fields: tuple[FieldSpec, ...]) -> tuple[list[str], bool] | None:
        """The struct codes of an element of fixed size, and whether a tag byte follows; None for any other."""
        here = [field for field in fields if self.version in field.versions and not field.is_tagged(self.version)]
        if not here or any(field.type not in FIXED_SIZES or field.type == "bool" for field in here):
            return None
        return [CODES[field.type] for field in here], self.flexible
