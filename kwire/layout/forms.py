"""The forms in which Kafka writes values, as `construct` constructs that note where each value lies."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, cast

import construct

from kwire.layout.recorder import Damage, Recorder
from kwire.layout.tree import Kind, Value

if TYPE_CHECKING:

    class Construct:
        """construct.Construct, which has no types of its own, as far as we use it."""

        def _parsereport(self, stream: BytesIO, context: object, path: str) -> object: ...

        def parse_stream(self, stream: BytesIO, *, recorder: Recorder) -> object:
            """Parse from the stream's place on."""

        def sizeof(self) -> int:
            """How many bytes a value takes; only for constructs of one size."""

else:
    Construct = construct.Construct

#: Kafka refuses a string of more bytes than an int16 can say, in compact form too.
TEXT_BYTES_MAX = 0x7FFF
_VARINT_BYTES_MAX = 5


def recorder_of(context: object) -> Recorder:
    """The recorder that a parse was started with."""
    return cast(Recorder, context._params.recorder)  # type: ignore[attr-defined]


class Form(Construct):
    """A construct of ours: reads at the stream's place with the help of the recorder."""

    def _parse(self, stream: BytesIO, context: object, path: str) -> object:
        return self.read(stream, recorder_of(context), context)

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> object:
        """The value; leaves the stream behind its last byte."""
        raise NotImplementedError


class Named(Form):
    """A value that is a node of the tree."""

    def __init__(self, name: str, type_name: str, form: Construct, kind: Kind = Kind.LEAF) -> None:
        super().__init__()
        # Not `name`: construct itself looks at that attribute, and would put it into its own results.
        self.label = name
        self.type_name = type_name
        self.form = form
        self.kind = kind

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> object:
        """The value, noted as a node."""
        recorder.open(self.label, self.type_name, stream.tell(), self.kind)
        value = self.form._parsereport(stream, context, "")
        recorder.close(stream.tell(), cast(Value, value))
        return value


class Fixed(Form):
    """A value that always takes the same room; `construct` reads it once the bytes are known to be there."""

    def __init__(self, form: Construct) -> None:
        super().__init__()
        self.form = form
        self.size = form.sizeof()

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> object:
        """The value as construct reads it."""
        recorder.need(stream.tell(), self.size)
        return self.form._parsereport(stream, context, "")


class Boolean(Form):
    """One byte: 0 is false. Kafka takes every other byte as true, and writes 1."""

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> bool:
        """True or false; an odd byte is noted."""
        recorder.need(stream.tell(), 1)
        byte = stream.read(1)[0]
        if byte > 1:
            recorder.note(f"the byte {byte:#04x} counts as true")
        return byte != 0


class UnsignedVarint(Form):
    """Seven bits a byte, the lowest first; at most five bytes and 32 bits."""

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> int:
        """The number; damage when it is too long."""
        start = stream.tell()
        value = 0
        for index in range(_VARINT_BYTES_MAX):
            recorder.need(start + index, 1)
            byte = stream.read(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value >= 1 << 32:
                    raise Damage(start, "varint goes beyond 32 bits")
                return value
        raise Damage(start, f"varint of more than {_VARINT_BYTES_MAX} bytes")


#: Numbers by the type's name in the schemas.
NUMBERS: dict[str, Construct] = {
    "int8": construct.Int8sb,
    "uint8": construct.Int8ub,
    "int16": construct.Int16sb,
    "uint16": construct.Int16ub,
    "int32": construct.Int32sb,
    "uint32": construct.Int32ub,
    "int64": construct.Int64sb,
    "float64": construct.Float64b,
    "uuid": construct.Bytes(16),
}
VARINT = UnsignedVarint()


class Length(Form):
    """A length or count: a signed integer with -1 for null, or a varint of the length + 1 with 0 for null."""

    def __init__(self, form: Construct | None, *, nullable: bool) -> None:
        super().__init__()
        self.form = None if form is None else Fixed(form)
        self.nullable = nullable

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> int | None:
        """The length, None for null; damage when it is neither."""
        start = stream.tell()
        if self.form is None:
            length = VARINT.read(stream, recorder, context) - 1
        else:
            length = cast(int, self.form.read(stream, recorder, context))
        if length == -1 and self.nullable:
            return None
        if length == -1:
            raise Damage(start, "is null, which it cannot be")
        if length < 0:
            raise Damage(start, f"length {length} is negative")
        return length


class Blob(Form):
    """Bytes with their length before them."""

    def __init__(self, length: Length) -> None:
        super().__init__()
        self.length = length

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> bytes | None:
        """The bytes, None for null."""
        size = self.length.read(stream, recorder, context)
        if size is None:
            return None
        recorder.need(stream.tell(), size)
        return stream.read(size)


class Text(Blob):
    """A string with its length in bytes before it."""

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> str | None:  # type: ignore[override]
        """The text, None for null; malformed UTF-8 is noted, and shown as Kafka decodes it."""
        start = stream.tell()
        raw = super().read(stream, recorder, context)
        if raw is None:
            return None
        if len(raw) > TEXT_BYTES_MAX:
            raise Damage(start, f"string of {len(raw)} bytes; {TEXT_BYTES_MAX} are allowed")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            recorder.note(f"malformed UTF-8 at byte {stream.tell() - len(raw) + error.start}")
            return raw.decode("utf-8", "replace")


class Numbers(Form):
    """An array of values of one size, as one leaf."""

    def __init__(self, length: Length, element: Construct) -> None:
        super().__init__()
        self.length = length
        self.element = element
        self.size = element.sizeof()

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> tuple[object, ...] | None:
        """The values, None for null."""
        count = self.length.read(stream, recorder, context)
        if count is None:
            return None
        recorder.need(stream.tell(), count * self.size)
        return tuple(construct.Array(count, self.element)._parsereport(stream, context, ""))
