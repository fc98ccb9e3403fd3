"""What holds other values: arrays, structs, tagged fields. Their parts are nodes of the tree, so they have no value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import cast

import construct

from kwire.layout.forms import VARINT, Construct, Form, Length, Named
from kwire.layout.recorder import Damage, Recorder
from kwire.layout.tree import TAGGED, UNKNOWN_TAG, Kind, Value


class Items(Form):
    """An array whose elements are nodes of their own."""

    def __init__(self, length: Length, type_name: str, element: Construct, kind: Kind) -> None:
        super().__init__()
        self.length = length
        self.type_name = type_name
        self.element = element
        self.kind = kind

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> None:
        """None, as the elements are in the tree; a null array becomes a leaf."""
        start = stream.tell()
        count = self.length.read(stream, recorder, context)
        if count is None:
            recorder.current.kind = Kind.LEAF
            return
        # No element is smaller than a byte, or Kafka would not take the message: it has the same check.
        if count > recorder.left(stream.tell()):
            raise Damage(start, f"{count} elements, but {recorder.left(stream.tell())} bytes are left")
        recorder.leaf("(count)", "length", (start, stream.tell()), count)
        for index in range(count):
            recorder.open(f"[{index}]", self.type_name, stream.tell(), self.kind)
            value = self.element._parsereport(stream, context, "")
            recorder.close(stream.tell(), cast(Value, value))


class Fields(Form):
    """The fields of a struct, one behind the other, by construct's own Sequence."""

    def __init__(self, fields: Sequence[Construct]) -> None:
        super().__init__()
        self.sequence: Construct = construct.Sequence(*fields)

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> None:
        """None, as the fields are in the tree."""
        self.sequence._parsereport(stream, context, "")


class NullableFields(Form):
    """A struct that may be null: a byte below 0 says that it is; in a tagged field a varint, and 0 says so."""

    def __init__(self, fields: Fields, *, tagged: bool = False) -> None:
        super().__init__()
        self.fields = fields
        self.tagged = tagged

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> None:
        """None; a null struct becomes a leaf."""
        start = stream.tell()
        if self.tagged:
            mark = VARINT.read(stream, recorder, context)
        else:
            recorder.need(start, 1)
            mark = int.from_bytes(stream.read(1), signed=True)
        if mark < self.tagged:
            recorder.current.kind = Kind.LEAF
            return
        recorder.leaf("(is there)", "uvarint" if self.tagged else "int8", (start, stream.tell()), mark)
        if mark != 1:
            recorder.note(f"the mark {mark} counts as there")
        self.fields.read(stream, recorder, context)


class TaggedFields(Form):
    """The end of a struct in a flexible version: a count, then tag, size and value of each."""

    def __init__(self, known: Mapping[int, Named]) -> None:
        super().__init__()
        self.known = known

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> None:
        """None, as the fields are in the tree; a size that is not that of the value is damage."""
        start = stream.tell()
        recorder.open(TAGGED, "tagged fields", start, Kind.FORM)
        count = VARINT.read(stream, recorder, context)
        # A tag and a size take a byte each.
        if count * 2 > recorder.left(stream.tell()):
            raise Damage(start, f"{count} tagged fields, but {recorder.left(stream.tell())} bytes are left")
        recorder.leaf("(count)", "unsigned varint", (start, stream.tell()), count)
        previous = -1
        for _ in range(count):
            previous = self._one(stream, recorder, context, previous)
        recorder.close(stream.tell())

    def _one(self, stream: BytesIO, recorder: Recorder, context: object, previous: int) -> int:
        start = stream.tell()
        tag = VARINT.read(stream, recorder, context)
        recorder.leaf("(tag)", "unsigned varint", (start, stream.tell()), tag)
        odd_order = tag <= previous
        start = stream.tell()
        size = VARINT.read(stream, recorder, context)
        recorder.need(stream.tell(), size)
        recorder.leaf("(size)", "unsigned varint", (start, stream.tell()), size)
        start = stream.tell()
        known = self.known.get(tag)
        if known is None:
            value = stream.read(size)
            recorder.leaf(f"{UNKNOWN_TAG}{tag})", "unknown tagged field", (start, start + size), value)
        else:
            with recorder.region(start + size):
                known.read(stream, recorder, context)
            left = start + size - stream.tell()
            if left:
                raise Damage(stream.tell(), f"{left} bytes of the tagged field are left over")
        if odd_order:
            # Kafka's writer sorts them, its reader takes them as they come.
            recorder.current.children[-1].note = f"tag {tag} behind tag {previous}; tags should rise"
        return tag
