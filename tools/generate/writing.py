"""Generates the encode functions: one for each message and version, with nested structs inlined.

The parts of a message are collected in a list and joined once. Adjacent fields of fixed size, and the length or count
behind them (nearly always a single byte), are packed by one struct.
"""

from __future__ import annotations

from kwire.schema import snake_case
from kwire.schema.spec import FIXED_SIZES, STRUCT_CODES, FieldSpec
from tools.generate.emitter import Emitter
from tools.generate.source import Source, singular_of
from tools.generate.types import default_expression, nullable_type_hint, struct_name


class Writer(Emitter):
    """Generates the body of one encode function."""

    def pack_call(self, extra: list[tuple[str, str]]) -> str:
        """The call that packs the run and the extra values."""
        run = [*self.run, *extra]
        values = ", ".join(value for code, value in run if code != "x")
        return f"{self.use(struct_name('pack', [code for code, _ in run]))}({values})"

    def flush_run(self) -> None:
        """Pack the run."""
        if self.run:
            self.out(f"parts.append({self.pack_call([])})")
            self.run.clear()

    def write_length(self, length: str, code: str, long: str, flexible: bool) -> None:
        """A length or count behind the run: of fixed size, or compact, one byte unless it needs more."""
        if not flexible:
            self.run.append((code, length))
            self.flush_run()
            return
        short = self.pack_call([("B", length)]) if self.run else f"{self.use('UVARINTS')}[{length}]"
        self.out.add_block(f"if {length} < 128:", f"parts.append({short})")
        with self.out.block("else:"):
            self.flush_run()
            self.out(f"parts.append({self.use(long)}({length}))")

    def write_tag_count(self, condition: str, section: str) -> None:
        """The end of a struct: one zero byte in the run, unless the condition for tagged fields holds."""
        if not self.run:
            self.out(f'parts.append({section} if {condition} else b"\\0")')
            return
        without_tags = self.pack_call([("x", "")])
        with self.out.block(f"if {condition}:"):
            self.flush_run()
            self.out(f"parts.append({section})")
        self.out.add_block("else:", f"parts.append({without_tags})")

    # Structs

    def write_struct(self, struct_name: str, fields: tuple[FieldSpec, ...], value: str) -> None:
        """Write the struct in a local variable."""
        for field in fields:
            if self.version not in field.versions and not field.ignorable:
                self.out.add_block(f"if {self.is_set_condition(field, value)}:", f"raise {self.use('FastPathError')}")
        for field in fields:
            if self.version in field.versions and not field.is_tagged(self.version):
                self.write_field(field, value)
        if self.flexible:
            self.write_tag_section(struct_name, fields, value)

    def is_set_condition(self, field: FieldSpec, value: str) -> str:
        """The condition that a field differs from its default."""
        target = f"{value}.{field.snake_name}"
        default = field.default
        if default is None:
            return f"{target} is not None"
        if default == () and field.struct and not field.is_array:
            return f"{target} != {self.default_struct_name(field)}"
        if default is False or (default == () and not field.nullable_versions):
            return target
        if default is True:
            return f"not {target}"
        if default == ():
            return f"{target} is None or {target}"
        return f"{target} != {default_expression(field, self.message)}"

    def default_struct_name(self, field: FieldSpec) -> str:
        """The instance that a tagged struct is compared with."""
        assert field.struct
        return self.use(f"_DEFAULT_{self.message.class_of(field.struct.name)}")

    def write_tag_section(self, struct_name: str, fields: tuple[FieldSpec, ...], value: str) -> None:
        """The end of a flexible struct: a count of tagged fields, nearly always zero."""
        tagged = [field for field in fields if field.tag is not None]
        unknown = f"{value}.unknown_tagged_fields"
        if not tagged:
            self.write_tag_count(unknown, f"{self.use('tag_section')}((), {unknown}, 0)")
            return
        live = [field for field in tagged if field.is_tagged(self.version)]
        conditions = [*(self.is_set_condition(field, value) for field in live), unknown]
        helper = self.add_tag_helper(struct_name, live, len(tagged))
        self.write_tag_count(" or ".join(conditions), f"{helper}({value})")

    def add_tag_helper(self, struct_name: str, live: list[FieldSpec], schema_tags: int) -> str:
        """Add a function for the tagged fields of a struct; returns its name."""
        name = self.helper_name(struct_name)
        class_name = self.class_of(struct_name)
        inner = Writer(self.message, self.version, self.uses, self.name)
        inner.helpers = self.helpers
        out = inner.out
        owner = inner.names.new_name(singular_of(snake_case(struct_name)))
        out("known: list[tuple[int, bytes]] = []")
        ascending = sorted(live, key=lambda field: field.tag or 0)
        for field in ascending:
            with out.block(f"if {inner.is_set_condition(field, owner)}:"):
                out(f"parts: list[{self.use('Part')}] = []" if field is ascending[0] else "parts = []")
                inner.write_field(field, owner)
                inner.flush_run()
                out(f'known.append(({field.tag}, b"".join(parts)))')
        out(f"return {self.use('tag_section')}(known, {owner}.unknown_tagged_fields, {schema_tags})")
        text = Source()
        text(f"def {name}({owner}: {class_name}) -> bytes:", f'    """The tagged fields of {class_name}."""')
        self.helpers[name] = text.text() + out.text()
        return name

    # Fields

    def may_be_null(self, field: FieldSpec) -> bool:
        """Whether the class allows null in any version; the other versions must then check for it."""
        return nullable_type_hint(field, self.message).endswith("None")

    def add_null_check(self, name: str) -> None:
        """Add the check for a null that the class allows, but not this version."""
        self.out.add_block(f"if {name} is None:", f"raise {self.use('FastPathError')}")

    def write_field(self, field: FieldSpec, owner: str) -> None:
        """Any field."""
        nullable = self.version in field.nullable_versions
        flexible = field.is_flexible(self.version, self.flexible)
        target = f"{owner}.{field.snake_name}"
        if field.is_array:
            self.write_array(field, target, owner, nullable, flexible)
        elif field.struct:
            self.write_nested_struct(field, target, owner, nullable)
        elif field.type in FIXED_SIZES:
            self.write_number(field.type, target, field.snake_name, owner)
        elif field.type == "string":
            may_be_null = self.may_be_null(field)
            self.write_text(target, field.snake_name, owner, nullable, flexible, may_be_null=may_be_null)
        else:
            may_be_null = self.may_be_null(field)
            self.write_bytes(target, field.snake_name, owner, nullable, flexible, may_be_null=may_be_null)

    def write_number(self, type_name: str, target: str, field_name: str, owner: str) -> None:
        """A field of fixed size."""
        if type_name == "bool":
            target = f"{self.use('BOOLEAN_BYTES')}[{target}]"
        elif type_name == "uuid":
            name = self.names.new_name(field_name, owner)
            self.out(f"{name} = {target}")
            self.out.add_block(f"if len({name}) != 16:", f"raise {self.use('FastPathError')}")
            target = name
        self.run.append((STRUCT_CODES[type_name], target))

    def write_text(
        self, target: str, field_name: str, owner: str, nullable: bool, flexible: bool, *, may_be_null: bool
    ) -> None:
        """A string."""
        name = self.names.new_name(field_name, owner)
        length = self.names.new_name(f"{name}_length")
        if nullable:
            self.out(f"{name} = {target}")
            encoded = self.names.new_name(f"{name}_bytes")
            null = 0 if flexible else -1
            plus = " + 1" if flexible else ""
            self.out(f'{encoded} = b"" if {name} is None else {name}.encode()')
            self.out(f"{length} = {null} if {name} is None else len({encoded}){plus}")
            name = encoded
        else:
            if may_be_null:
                self.out(f"{name}_or_none = {target}")
                self.add_null_check(f"{name}_or_none")
                target = f"{name}_or_none"
            self.out(f"{name} = {target}.encode()")
            if flexible:
                self.out(f"{length} = len({name}) + 1")
            else:
                length = f"len({name})"
        self.write_length(length, "h", "long_text_length", flexible)
        self.out(f"parts.append({name})")

    def write_bytes(
        self, target: str, field_name: str, owner: str, nullable: bool, flexible: bool, *, may_be_null: bool
    ) -> None:
        """Bytes or record batches."""
        name = self.names.new_name(field_name, owner)
        length = self.names.new_name(f"{name}_length")
        self.out(f"{name} = {target}")
        if may_be_null and not nullable:
            self.add_null_check(name)
        # A memoryview may count in other items than bytes; without `nbytes` the schema-driven codec reports the value.
        count = f"(len({name}) if isinstance({name}, bytes) else {name}.nbytes)" + (" + 1" if flexible else "")
        if nullable:
            count = f"{0 if flexible else -1} if {name} is None else {count}"
        elif not flexible:
            count = count[1:-1]
        self.out(f"{length} = {count}")
        self.write_length(length, "i", "uvarint", flexible)
        if nullable:
            self.out.add_block(f"if {name} is not None:", f"parts.append({name})")
        else:
            self.out(f"parts.append({name})")

    def write_nested_struct(self, field: FieldSpec, target: str, owner: str, nullable: bool) -> None:
        """A struct that is not in an array."""
        assert field.struct
        name = self.names.new_name(field.snake_name, owner)
        self.out(f"{name} = {target}")
        if not nullable:
            if self.may_be_null(field):
                self.add_null_check(name)
            self.write_struct(field.struct.name, field.fields, name)
            return
        self.flush_run()
        null = r'b"\0"' if field.is_tagged(self.version) else r'b"\xff"'
        self.out.add_block(f"if {name} is None:", f"parts.append({null})")
        with self.out.block("else:"):
            self.run.append(("B", "1"))
            self.write_struct(field.struct.name, field.fields, name)
            self.flush_run()

    # Arrays

    def write_array(self, field: FieldSpec, target: str, owner: str, nullable: bool, flexible: bool) -> None:
        """The count of an array, null, and its elements."""
        name = self.names.new_name(field.snake_name, owner)
        count = self.names.new_name(f"{name}_count")
        self.out(f"{name} = {target}")
        if self.may_be_null(field) and not nullable:
            self.add_null_check(name)
        null = 0 if flexible else -1
        counted = f"len({name}) + 1" if flexible else f"len({name})"
        self.out(f"{count} = {null} if {name} is None else {counted}" if nullable else f"{count} = {counted}")
        self.write_length(count, "i", "uvarint", flexible)
        if nullable:
            with self.out.block(f"if {name}:"):
                self.write_elements(field, name, flexible)
        else:
            self.write_elements(field, name, flexible)

    def write_elements(self, field: FieldSpec, name: str, flexible: bool) -> None:
        """The elements of an array."""
        element = field.element_type
        if element == "bool":
            self.out(f"parts.append(bytes([{self.use('BOOLEAN_BYTES')}[value] for value in {name}]))")
            return
        if element in FIXED_SIZES:
            if element == "uuid":
                self.out(f"{self.use('check_uuids')}({name})")
            with self.out.block(f"if len({name}) < 32:"):
                self.out(f"parts.append({self.use(f'pack_{element}s')}[len({name})](*{name}))")
            self.out.add_block("else:", f"parts.append({self.use(f'{element}s')}.write_long({name}))")
            return
        if element == "string":
            self.out(f"{self.use('check_texts')}({name})")
        one = self.names.new_name(singular_of(field.snake_name), "one")
        with self.out.block(f"for {one} in {name}:"):
            if field.struct:
                self.write_struct(field.struct.name, field.fields, one)
            elif element == "string":
                self.write_text(one, f"{one}_text", "", nullable=False, flexible=flexible, may_be_null=False)
            else:
                self.write_bytes(one, f"{one}_bytes", "", nullable=False, flexible=flexible, may_be_null=False)
            self.flush_run()
