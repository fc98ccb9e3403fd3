"""Writes the encode functions: one for each message and version, with nested structs inlined.

The parts of a message are collected in a list and joined once. Neighbouring fields of fixed size are packed by one
struct together with the length or count behind them, which is a single byte nearly always.
"""

from __future__ import annotations

from kwire.schema import snake_case
from kwire.schema.spec import FIXED_SIZES, FieldSpec
from tools.generate.emitter import Emitter
from tools.generate.source import Source, singular
from tools.generate.types import CODES, constant, default_of, full_hint


class Writer(Emitter):
    """Emits the body of one encode function."""

    def packed(self, extra: list[tuple[str, str]]) -> str:
        """The call that packs the run and what is given beside it."""
        run = [*self.run, *extra]
        values = ", ".join(value for code, value in run if code != "x")
        return f"{self.use(constant('pack', [code for code, _ in run]))}({values})"

    def flush(self) -> None:
        """Pack the run."""
        if self.run:
            self.out(f"parts.append({self.packed([])})")
            self.run.clear()

    def length(self, name: str, long: str) -> None:
        """A compact length or count + 1: one byte in the run, unless it needs more."""
        if not self.run:
            with self.out.block(f"if {name} < 128:"):
                self.out(f"parts.append({self.use('UVARINTS')}[{name}])")
            with self.out.block("else:"):
                self.out(f"parts.append({self.use(long)}({name}))")
            return
        with self.out.block(f"if {name} < 128:"):
            self.out(f"parts.append({self.packed([('B', name)])})")
        with self.out.block("else:"):
            self.out(f"parts.append({self.packed([])})")
            self.out(f"parts.append({self.use(long)}({name}))")
        self.run.clear()

    def head(self, code: str, value: str) -> None:
        """An old length or count, and the run before it."""
        self.run.append((code, value))
        self.flush()

    def zero_or(self, condition: str, section: str) -> None:
        """The end of a struct: one zero byte in the run, unless there are tagged fields."""
        if not self.run:
            self.out(f'parts.append({section} if {condition} else b"\\0")')
            return
        with self.out.block(f"if {condition}:"):
            self.out(f"parts.append({self.packed([])})")
            self.out(f"parts.append({section})")
        with self.out.block("else:"):
            self.out(f"parts.append({self.packed([('x', '')])})")
        self.run.clear()

    # Structs

    def struct(self, struct_name: str, fields: tuple[FieldSpec, ...], value: str) -> None:
        """Write the struct that a local variable holds."""
        for field in fields:
            if self.version not in field.versions and not field.ignorable:
                with self.out.block(f"if {self.is_set(field, value)}:"):
                    self.out(f"raise {self.use('Refused')}")
        for field in fields:
            if self.version in field.versions and not field.is_tagged(self.version):
                self.field(field, value)
        if self.flexible:
            self.tag_section(struct_name, fields, value)

    def is_set(self, field: FieldSpec, value: str) -> str:
        """The condition that a field differs from its default."""
        target = f"{value}.{field.snake}"
        default = field.default
        if default is None:
            return f"{target} is not None"
        if default == () and field.struct and not field.is_array:
            return f"{target} != {self.default_struct(field)}"
        if default is False or (default == () and not field.nullable_versions):
            return target
        if default is True:
            return f"not {target}"
        if default == ():
            return f"{target} is None or {target}"
        return f"{target} != {default_of(field, self.message)}"

    def default_struct(self, field: FieldSpec) -> str:
        """The instance that a tagged struct is compared with."""
        assert field.struct
        return self.use(f"_DEFAULT_{self.message.class_of(field.struct.name)}")

    def tag_section(self, struct_name: str, fields: tuple[FieldSpec, ...], value: str) -> None:
        """The end of a flexible struct: a count of tagged fields, nearly always zero."""
        tagged = [field for field in fields if field.tag is not None]
        unknown = f"{value}.unknown_tagged_fields"
        if not tagged:
            self.zero_or(unknown, f"{self.use('tag_section')}((), {unknown}, 0)")
            return
        live = [field for field in tagged if field.is_tagged(self.version)]
        conditions = [*(self.is_set(field, value) for field in live), unknown]
        helper = self.tag_helper(struct_name, live, len(tagged))
        self.zero_or(" or ".join(conditions), f"{helper}({value})")

    def tag_helper(self, struct_name: str, live: list[FieldSpec], schema_tags: int) -> str:
        """A function of its own for the tagged fields of a struct."""
        name = self.helper_name(struct_name)
        class_name = self.class_of(struct_name)
        inner = Writer(self.message, self.version, self.uses, self.name)
        inner.helpers = self.helpers
        out = inner.out
        owner = inner.names.new(singular(snake_case(struct_name)))
        out("known: list[tuple[int, bytes]] = []")
        ascending = sorted(live, key=lambda field: field.tag or 0)
        for field in ascending:
            with out.block(f"if {inner.is_set(field, owner)}:"):
                out(f"parts: list[{self.use('Part')}] = []" if field is ascending[0] else "parts = []")
                inner.field(field, owner)
                inner.flush()
                out(f'known.append(({field.tag}, b"".join(parts)))')
        out(f"return {self.use('tag_section')}(known, {owner}.unknown_tagged_fields, {schema_tags})")
        text = Source()
        text(f"def {name}({owner}: {class_name}) -> bytes:")
        text(f'    """The tagged fields of {class_name}."""')
        self.helpers[name] = text.text() + out.text()
        return name

    # Fields

    def elsewhere_null(self, field: FieldSpec) -> bool:
        """Whether the class allows null at all; then a version that does not must look."""
        return full_hint(field, self.message).endswith("None")

    def refuse_null(self, name: str) -> None:
        """A null that the class allows, but not this version."""
        with self.out.block(f"if {name} is None:"):
            self.out(f"raise {self.use('Refused')}")

    def field(self, field: FieldSpec, owner: str) -> None:
        """Any field."""
        nullable = self.version in field.nullable_versions
        flexible = field.is_flexible(self.version, self.flexible)
        target = f"{owner}.{field.snake}"
        if field.is_array:
            self.array(field, target, owner, nullable, flexible)
        elif field.struct:
            self.nested(field, target, owner, nullable)
        elif field.type in FIXED_SIZES:
            self.number(field.type, target, field.snake, owner)
        elif field.type == "string":
            may_be_null = self.elsewhere_null(field)
            self.text(target, field.snake, owner, nullable=nullable, flexible=flexible, may_be_null=may_be_null)
        else:
            may_be_null = self.elsewhere_null(field)
            self.bytes(
                field.type, target, field.snake, owner, nullable=nullable, flexible=flexible, may_be_null=may_be_null
            )

    def number(self, type_name: str, target: str, wanted: str, owner: str) -> None:
        """A field of fixed size."""
        if type_name == "bool":
            target = f"{self.use('BOOLEAN_BYTES')}[{target}]"
        elif type_name == "uuid":
            name = self.names.new(wanted, owner)
            self.out(f"{name} = {target}")
            with self.out.block(f"if len({name}) != 16:"):
                self.out(f"raise {self.use('Refused')}")
            target = name
        self.run.append((CODES[type_name], target))

    def text(
        self, target: str, wanted: str, owner: str, *, nullable: bool, flexible: bool, may_be_null: bool = False
    ) -> None:
        """A string."""
        name = self.names.new(wanted, owner)
        length = self.names.new(f"{name}_length")
        if nullable:
            self.out(f"{name} = {target}")
            encoded = self.names.new(f"{name}_bytes")
            null = 0 if flexible else -1
            plus = " + 1" if flexible else ""
            self.out(f'{encoded} = b"" if {name} is None else {name}.encode()')
            self.out(f"{length} = {null} if {name} is None else len({encoded}){plus}")
            name = encoded
        else:
            if may_be_null:
                self.out(f"{name}_or_none = {target}")
                self.refuse_null(f"{name}_or_none")
                target = f"{name}_or_none"
            self.out(f"{name} = {target}.encode()")
            if flexible:
                self.out(f"{length} = len({name}) + 1")
            else:
                length = f"len({name})"
        if flexible:
            self.length(length, "long_text_length")
        else:
            self.head("h", length)
        self.out(f"parts.append({name})")

    def bytes(
        self,
        type_name: str,
        target: str,
        wanted: str,
        owner: str,
        *,
        nullable: bool,
        flexible: bool,
        may_be_null: bool = False,
    ) -> None:
        """Bytes or record batches."""
        name = self.names.new(wanted, owner)
        length = self.names.new(f"{name}_length")
        self.out(f"{name} = {target}")
        if may_be_null and not nullable:
            self.refuse_null(name)
        # A memoryview may count in other items than bytes; what has no `nbytes` is left to the careful pass.
        count = f"(len({name}) if isinstance({name}, bytes) else {name}.nbytes)" + (" + 1" if flexible else "")
        if nullable:
            count = f"{0 if flexible else -1} if {name} is None else {count}"
        elif not flexible:
            count = count[1:-1]
        self.out(f"{length} = {count}")
        if flexible:
            self.length(length, "uvarint")
        else:
            self.head("i", length)
        if nullable:
            with self.out.block(f"if {name} is not None:"):
                self.out(f"parts.append({name})")
        else:
            self.out(f"parts.append({name})")

    def nested(self, field: FieldSpec, target: str, owner: str, nullable: bool) -> None:
        """A struct that is not in an array."""
        assert field.struct
        name = self.names.new(field.snake, owner)
        self.out(f"{name} = {target}")
        if not nullable:
            if self.elsewhere_null(field):
                self.refuse_null(name)
            self.struct(field.struct.name, field.fields, name)
            return
        self.flush()
        with self.out.block(f"if {name} is None:"):
            null = '"\\0"' if field.is_tagged(self.version) else '"\\xff"'
            self.out(f"parts.append(b{null})")
        with self.out.block("else:"):
            self.run.append(("B", "1"))
            self.struct(field.struct.name, field.fields, name)
            self.flush()

    # Arrays

    def array(self, field: FieldSpec, target: str, owner: str, nullable: bool, flexible: bool) -> None:
        """The count of an array, null, and what is in it."""
        name = self.names.new(field.snake, owner)
        count = self.names.new(f"{name}_count")
        self.out(f"{name} = {target}")
        if self.elsewhere_null(field) and not nullable:
            self.refuse_null(name)
        null = 0 if flexible else -1
        counted = f"len({name}) + 1" if flexible else f"len({name})"
        self.out(f"{count} = {null} if {name} is None else {counted}" if nullable else f"{count} = {counted}")
        if flexible:
            self.length(count, "uvarint")
        else:
            self.head("i", count)
        if nullable:
            with self.out.block(f"if {name}:"):
                self.elements(field, name, flexible)
        else:
            self.elements(field, name, flexible)

    def elements(self, field: FieldSpec, name: str, flexible: bool) -> None:
        """The elements of an array."""
        element = field.element_type
        if element == "bool":
            self.out(f"parts.append(bytes([{self.use('BOOLEAN_BYTES')}[one] for one in {name}]))")
            return
        if element in FIXED_SIZES:
            if element == "uuid":
                self.out(f"{self.use('check_uuids')}({name})")
            with self.out.block(f"if len({name}) < 32:"):
                self.out(f"parts.append({self.use(f'pack_{element}s')}[len({name})](*{name}))")
            with self.out.block("else:"):
                self.out(f"parts.append({self.use(f'{element}s')}.write_long({name}))")
            return
        if element == "string":
            self.out(f"{self.use('check_texts')}({name})")
        one = self.names.new(singular(field.snake), "one")
        with self.out.block(f"for {one} in {name}:"):
            if field.struct:
                self.struct(field.struct.name, field.fields, one)
            elif element == "string":
                self.text(one, f"{one}_text", "", nullable=False, flexible=flexible)
            else:
                self.bytes(element, one, f"{one}_bytes", "", nullable=False, flexible=flexible)
            self.flush()
