"""Generates the decode functions: one for each message and version, with nested structs inlined.

Adjacent fields of fixed size, and the length, count or tag byte behind them, are read by one struct.
Offsets only grow and are compared with the size at the end, so a slice beyond it needs no check.
"""

from __future__ import annotations

from kwire.schema.spec import FIXED_SIZES, STRUCT_CODES, FieldSpec
from tools.generate.emitter import Emitter
from tools.generate.reading_tags import render_tag_reader
from tools.generate.source import Names, singular_of
from tools.generate.types import HINTS, default_expression, size_of, struct_name, type_hint


class Reader(Emitter):
    """Generates the body of one decode function."""

    def flush_run(self, stay: int = 0) -> None:
        """Read the run; with `stay` the offset remains that many bytes before its end."""
        if not self.run:
            return
        codes = [code for code, _ in self.run]
        targets = ", ".join(name for _, name in self.run)
        if codes == ["B"]:
            self.out(f"{targets} = data[at]")
        else:
            comma = "," if len(codes) == 1 else ""
            self.out(f"{targets}{comma} = {self.use(struct_name('unpack', codes))}(data, at)")
        if size_of(codes) > stay:
            self.out(f"at += {size_of(codes) - stay}")
        self.run.clear()

    def read_head(self, code: str, name: str, stay: int = 0) -> None:
        """A length, count or marker: the last of its run, as what follows depends on it.

        A compact length of more bytes must be read again from its first, so the offset stays there with `stay=1`.
        """
        self.run.append((code, name))
        self.flush_run(stay)

    # Structs

    def read_struct(self, struct_name: str, fields: tuple[FieldSpec, ...], owner: str) -> str:
        """Read a struct; returns the expression that builds it."""
        tagged = [field for field in fields if field.tag is not None]
        present = [field for field in fields if self.version in field.versions and not field.is_tagged(self.version)]
        values = {field.name: self.read_field(field, owner) for field in present}
        extra = self.read_tag_section(struct_name, tagged, values, owner) if self.flexible else ""
        self.flush_run()
        return self.construction_call(struct_name, fields, values, extra)

    def construction_call(
        self, struct_name: str, fields: tuple[FieldSpec, ...], values: dict[str, str], extra: str
    ) -> str:
        """The call of the class; a field that the version does not have takes its default, unless no field follows."""
        arguments = [values.get(field.name) for field in fields] + ([extra] if extra else [])
        while arguments and arguments[-1] is None:
            arguments.pop()
        filled = [value or self.default_expression(field) for value, field in zip(arguments, fields, strict=False)]
        if len(arguments) > len(fields):
            filled.append(extra)
        return f"{self.class_of(struct_name)}({', '.join(filled)})"

    def default_expression(self, field: FieldSpec) -> str:
        """The expression for a field that the version does not have."""
        if field.type == "uuid" and field.default == bytes(16):
            return self.use("ZERO_UUID")
        return default_expression(field, self.message)

    def read_tag_section(self, struct_name: str, tagged: list[FieldSpec], values: dict[str, str], owner: str) -> str:
        """The end of a flexible struct: a count of tagged fields, nearly always zero."""
        unknown = self.names.new_name("unknown", owner)
        # The only byte of its run needs no name.
        count = "data[at]"
        if self.run:
            count = self.names.new_name("tag_count", owner)
            self.read_head("B", count, stay=1)
        live = [field for field in tagged if field.is_tagged(self.version)]
        names = [self.names.new_name(field.snake_name, owner) for field in live]
        values |= {field.name: name for field, name in zip(live, names, strict=True)}
        function = self.add_tag_helper(struct_name, tagged, live) if tagged else self.use("read_unknown_tags")
        self.out.add_block(f"if {count}:", f"{', '.join([*names, unknown])}, at = {function}(data, at)")
        defaults = [f"{values[field.name]} = {default_expression(field, self.message)}" for field in live]
        self.out.add_block("else:", *defaults, f"{unknown} = {self.use('NO_TAGS')}", "at += 1")
        return unknown

    def add_tag_helper(self, struct_name: str, tagged: list[FieldSpec], live: list[FieldSpec]) -> str:
        """Add a function for the tagged fields of a struct; returns its name."""
        inner = Reader(self.message, self.version, self.uses, self.name)
        inner.helpers = self.helpers
        name = self.helper_name(struct_name)
        self.helpers[name] = render_tag_reader(inner, inner.read_tagged_value, struct_name, tagged, live)
        return name

    def read_tagged_value(self, field: FieldSpec) -> str:
        """Read all of a tagged field; returns the expression of its value."""
        value = self.read_field(field, "tagged")
        self.flush_run()
        return value

    # Fields

    def read_field(self, field: FieldSpec, owner: str) -> str:
        """Read a field; returns the expression of its value."""
        nullable = self.version in field.nullable_versions
        flexible = field.is_flexible(self.version, self.flexible)
        name = self.names.new_name(field.snake_name, owner)
        if field.is_array:
            return self.read_array(field, name, nullable, flexible)
        if field.struct:
            return self.read_nested_struct(field, name, nullable)
        return self.read_primitive(field.type, name, nullable, flexible)

    def read_primitive(self, type_name: str, name: str, nullable: bool, flexible: bool) -> str:
        """A field, or an element, that is neither array nor struct."""
        if type_name in FIXED_SIZES:
            self.run.append((STRUCT_CODES[type_name], name))
            return f"{self.use('BOOLEANS')}[{name}]" if type_name == "bool" else name
        if type_name == "string":
            (self.read_compact_text if flexible else self.read_text)(name, nullable)
        else:
            self.read_bytes(type_name, name, nullable, flexible)
        return name

    def read_compact_text(self, name: str, nullable: bool) -> None:
        """A string whose length + 1 is a varint."""
        length = self.names.new_name(f"{name}_length")
        self.read_head("B", length, stay=1)
        if nullable:
            self.out(f"{name}: str | None")
        self.out.add_block(
            f"if 0 < {length} < 128:", f"end = at + {length}", f"{name} = data[at + 1 : end].decode()", "at = end"
        )
        with self.out.block(f"elif {length}:" if nullable else "else:"):
            self.out(f"{name}, at = {self.use('read_long_text')}(data, at)")
        if nullable:
            self.out.add_block("else:", f"{name} = None", "at += 1")

    def read_text(self, name: str, nullable: bool) -> None:
        """A string."""
        length = self.names.new_name(f"{name}_length")
        self.read_head("h", length)
        if nullable:
            self.out(f"{name}: str | None")
        self.out.add_block(f"if {length} >= 0:", f"end = at + {length}", f"{name} = data[at:end].decode()", "at = end")
        self.add_null_branches(name, f"{length} == -1", nullable)

    def add_null_branches(self, name: str, is_null: str, nullable: bool) -> None:
        """Add the branches for a value that is not a length: null where it is allowed, else an error."""
        if nullable:
            self.out.add_block(f"elif {is_null}:", f"{name} = None")
        self.out.add_block("else:", f"raise {self.use('FastPathError')}")

    def read_bytes(self, type_name: str, name: str, nullable: bool, flexible: bool) -> None:
        """Bytes or record batches."""
        source = "data"
        if type_name == "records":
            # A view of the whole message: record batches are not copied.
            source, self.uses_view = "view", True
        length = self.names.new_name(f"{name}_length")
        self.read_head("B" if flexible else "i", length, stay=int(flexible))
        if nullable:
            self.out(f"{name}: {HINTS[type_name]} | None")
        if flexible:
            self.out.add_block(f"if {length} > 127:", f"{length}, at = {self.use('read_uvarint')}(data, at)")
            self.out.add_block("else:", "at += 1")
        with self.out.block(f"if {length}:" if flexible else f"if {length} >= 0:"):
            self.out(f"end = at + {length} - 1" if flexible else f"end = at + {length}", f"{name} = {source}[at:end]")
            self.out("at = end")
        if flexible and nullable:
            self.out.add_block("else:", f"{name} = None")
        else:
            self.add_null_branches(name, f"{length} == -1", nullable)

    def read_nested_struct(self, field: FieldSpec, name: str, nullable: bool) -> str:
        """A struct that is not in an array."""
        assert field.struct
        if not nullable:
            return self.read_struct(field.struct.name, field.fields, singular_of(name))
        # A struct that may be null has a byte in front: 1, or -1 for null; as a tagged field a varint, 0 for null.
        marker = self.names.new_name(f"{name}_marker")
        self.read_head("B", marker)
        self.out(f"{name}: {type_hint(field, self.message)} | None")
        with self.out.block(f"if {marker} == 1:"):
            value = self.read_struct(field.struct.name, field.fields, singular_of(name))
            self.out(f"{name} = {value}")
        null = 0 if field.is_tagged(self.version) else 255
        self.add_null_branches(name, f"{marker} == {null}", nullable=True)
        return name

    # Arrays

    def read_array(self, field: FieldSpec, name: str, nullable: bool, flexible: bool) -> str:
        """The count of an array, null, and its elements."""
        count = self.names.new_name(f"{name}_count")
        element = field.element_type
        numbers = element in FIXED_SIZES and element != "bool"
        self.read_head("B" if flexible else "i", count, stay=int(flexible))
        if nullable:
            self.out(f"{name}: {type_hint(field, self.message)} | None")
        if numbers:
            self.read_number_array(element, name, count, nullable, flexible)
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
            self.out.add_block(f"if 0 < {count} < 128:", "at += 1")
            self.out.add_block("else:", f"{count}, at = {self.use('read_long_count')}(data, at)")
        else:
            self.out.add_block(f"if not 0 <= {count} <= len(data) - at:", f"raise {self.use('FastPathError')}")
        self.read_elements(field, name, elements, flexible)
        if nullable:
            self.out.indent -= 1
        return name

    def read_elements(self, field: FieldSpec, name: str, elements: str, flexible: bool) -> None:
        """The elements of an array."""
        element = field.element_type
        if element == "bool":
            self.out(f"{name}, at = {self.use('read_booleans')}(data, at, {elements})")
            return
        if field.struct:
            self.read_struct_array(field, name, elements)
            return
        items = self.names.new_name(f"{name}_list")
        self.out(f"{items}: list[{HINTS[element]}] = []")
        with self.out.block(f"for _ in range({elements}):"):
            item = self.read_primitive(
                element, self.names.new_name(singular_of(name), "one"), nullable=False, flexible=flexible
            )
            self.out(f"{items}.append({item})")
        self.out(f"{name} = tuple({items})")

    def read_number_array(self, element: str, name: str, count: str, nullable: bool, flexible: bool) -> None:
        """An array of one fixed-size type: a prebuilt struct when it is short."""
        size = FIXED_SIZES[element]
        times = "" if size == 1 else f"{size} * "
        if flexible:
            with self.out.block(f"if 0 < {count} < 33:"):
                self.out(f"{name} = {self.use(f'unpack_compact_{element}s')}[{count}](data, at + 1)")
                self.out(f"at += {times}{count} - {size - 1}" if times else f"at += {count}")
            with self.out.block(f"elif {count}:" if nullable else "else:"):
                self.out(f"{name}, at = {self.use(f'{element}s')}.read_compact(data, at)")
            if nullable:
                self.out.add_block("else:", f"{name} = None", "at += 1")
            return
        with self.out.block(f"if 0 <= {count} < 32:"):
            self.out(f"{name} = {self.use(f'unpack_{element}s')}[{count}](data, at)", f"at += {times}{count}")
        if nullable:
            self.out.add_block(f"elif {count} == -1:", f"{name} = None")
        self.out.add_block("else:", f"{name}, at = {self.use(f'{element}s')}.read_long(data, at, {count})")

    def read_struct_array(self, field: FieldSpec, name: str, elements: str) -> None:
        """An array of structs: all rows at once when they have one size, else a loop."""
        assert field.struct
        fixed = self.fixed_codes_of(field.fields)
        if fixed is None:
            self.out(f"{name} = []")
            self.read_structs_in_loop(field, name, elements)
            return
        codes, tagged = fixed
        if tagged:
            codes = [*codes, "x"]
        size = size_of(codes)
        rows = self.names.new_name(f"{name}_rows")
        iterate = self.use(struct_name("iterate", codes))
        objects = self.comprehension_of(field, f"{iterate}({rows})")
        self.out(f"{name} = []")
        # Most messages have no elements here, and then slices would cost more than they save.
        with self.out.block(f"if {elements.removesuffix(' - 1')} > {1 if elements.endswith(' - 1') else 0}:"):
            self.out(f"end = at + {size} * ({elements})" if elements.count(" ") else f"end = at + {size} * {elements}")
            self.out(f"{rows} = data[at:end]")
            if not tagged:
                # Truncated bytes leave a part of a row, for which the struct raises, or an end beyond the data.
                self.out(f"{name} = {objects}", "at = end")
                return
            # All tag bytes at once: without tagged fields every row has the same size.
            with self.out.block(f"if {rows}[{size - 1}::{size}].count(0) == {elements}:"):
                self.out(f"{name} = {objects}", "at = end")
            with self.out.block("else:"):
                self.read_structs_in_loop(field, name, elements)

    def comprehension_of(self, field: FieldSpec, rows: str) -> str:
        """All rows as objects; the class itself is called when the row has its first fields, in order."""
        assert field.struct
        present = [one for one in field.fields if self.version in one.versions and not one.is_tagged(self.version)]
        if list(field.fields[: len(present)]) == present:
            return f"[*{self.use('starmap')}({self.class_of(field.struct.name)}, {rows})]"
        inner = Names()
        values = {one.name: inner.new_name(one.snake_name) for one in present}
        call = self.construction_call(field.struct.name, field.fields, values, "")
        targets = ", ".join(values.values()) + ("," if len(values) == 1 else "")
        return f"[{call} for {targets} in {rows}]"

    def read_structs_in_loop(self, field: FieldSpec, name: str, elements: str) -> None:
        """Elements one by one."""
        assert field.struct
        with self.out.block(f"for _ in range({elements}):"):
            owner = singular_of(name)
            value = self.read_struct(field.struct.name, field.fields, owner)
            self.out(f"{name}.append({value})")

    def fixed_codes_of(self, fields: tuple[FieldSpec, ...]) -> tuple[list[str], bool] | None:
        """The struct codes of an element of fixed size, and whether a tag byte follows; None for any other."""
        present = [field for field in fields if self.version in field.versions and not field.is_tagged(self.version)]
        if not present or any(field.type not in FIXED_SIZES or field.type == "bool" for field in present):
            return None
        return [STRUCT_CODES[field.type] for field in present], self.flexible
