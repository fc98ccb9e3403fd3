"""The form of a records field: in a tree, with the record batches inside; records where they are not compressed.

Written from the format alone and not from `kwire.records`, so that the two check each other.
Damage in a batch is a node of the tree and ends the batches, but not the message around them.
"""

from __future__ import annotations

from typing import cast

from kwire.errors import CorruptRecords, InvalidLength, InvalidVarint, WireError
from kwire.schema_codec.forms import NUMBERS, Blob, Form, Length
from kwire.schema_codec.reader import Reader
from kwire.schema_codec.structs import Field, Fields
from kwire.schema_codec.tree import Kind

#: Offset and size are at the front of every format, and the magic byte is at the same place in all of them.
_FRONT_SIZE, _MAGIC_AT = 12, 16
_CODEC_BITS = 0x07
_CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


class Zigzag(Form):
    """A signed varint of records: 0, -1, 1, -2, ... in seven bits a byte."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def read(self, reader: Reader, path: str) -> int:
        """The number."""
        start = reader.at
        raw = 0
        for index in range(-(-self.bits // 7)):
            (byte,) = reader.take(1, path)
            raw |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if raw >> self.bits:
                    break
                return (raw >> 1) ^ -(raw & 1)
        raise InvalidVarint(path, start, f"varint goes beyond {self.bits} bits")


_VARINT, _VARLONG = Zigzag(32), Zigzag(64)


class VarintBlob(Form):
    """Bytes behind a signed varint length, -1 for null."""

    def read(self, reader: Reader, path: str) -> bytes | None:
        """The bytes, None for null."""
        start = reader.at
        size = _VARINT.read(reader, path)
        if size < -1:
            raise InvalidLength(path, start, f"length {size} is negative")
        return None if size == -1 else reader.take(size, path)


class Headers(Form):
    """The headers of a record."""

    def read(self, reader: Reader, path: str) -> None:
        """None: the headers are in the tree."""
        start = reader.at
        count = _VARINT.read(reader, path)
        if not 0 <= count <= reader.left:
            raise InvalidLength(path, start, f"{count} headers, but {reader.left} bytes are left")
        reader.add_leaf("(count)", "varint", start, count)
        for index in range(count):
            reader.read_node(_RECORD_HEADER, f"[{index}]", f"{path}[{index}]", "Header", Kind.STRUCT)


def _layout(**fields: Form | str) -> Fields:
    """A layout of fields by name; the form of a number is given by the name of its type."""
    return Fields("", [_field(name, form) for name, form in fields.items()])


def _field(name: str, form: Form | str) -> Field:
    match form:
        case str():
            return Field(name, form, NUMBERS[form])
        case Zigzag():
            return Field(name, "varint" if form is _VARINT else "varlong", form)
        case Headers():
            return Field(name, "[]Header", form, Kind.ARRAY)
    return Field(name, "bytes", form)


_BATCH_HEADER = _layout(
    base_offset="int64",
    batch_length="int32",
    partition_leader_epoch="int32",
    magic="int8",
    crc="uint32",
    attributes="int16",
    last_offset_delta="int32",
    base_timestamp="int64",
    max_timestamp="int64",
    producer_id="int64",
    producer_epoch="int16",
    base_sequence="int32",
    record_count="int32",
)
_LEGACY_BLOB = Blob(Length(NUMBERS["int32"], nullable=True))
_LEGACY_FRONT = {"offset": "int64", "message_size": "int32", "crc": "uint32", "magic": "int8", "attributes": "int8"}
_MESSAGES = {
    0: _layout(**_LEGACY_FRONT, key=_LEGACY_BLOB, value=_LEGACY_BLOB),
    1: _layout(**_LEGACY_FRONT, timestamp="int64", key=_LEGACY_BLOB, value=_LEGACY_BLOB),
}
_RECORD_HEADER = _layout(key=VarintBlob(), value=VarintBlob())
_RECORD = _layout(
    attributes="int8",
    timestamp_delta=_VARLONG,
    offset_delta=_VARINT,
    key=VarintBlob(),
    value=VarintBlob(),
    headers=Headers(),
)


class Batches(Form):
    """A records field: its length, then record batches of any format, one behind the other."""

    def __init__(self, length: Length) -> None:
        super().__init__()
        self.length = length

    def read(self, reader: Reader, path: str) -> bytes | memoryview | None:
        """A view of all the bytes, None for null; in a tree the bytes, and a node for each batch."""
        begin = reader.at
        size = self.length.read(reader, path)
        if size is None:
            reader.mark_null()
            return None
        start = reader.at
        reader.need(size, path)
        if not reader.is_recording:
            reader.at += size
            return memoryview(reader.data)[start : reader.at]
        reader.add_leaf("(size)", "length", begin, size)
        with reader.region(size):
            depth = reader.depth
            try:
                _read_batches(reader, path)
            except WireError as error:
                # The node of the records stays open: its length is known, and the fields behind it can be read.
                reader.record_error(error, depth)
        reader.at = start + size
        return reader.data[start : reader.at]


def _read_batches(reader: Reader, path: str) -> None:
    index = 0
    while reader.left > 0:
        reader.need(_MAGIC_AT + 1, path)
        start = reader.at
        magic = reader.data[start + _MAGIC_AT]
        size = _FRONT_SIZE + int.from_bytes(reader.data[start + 8 : start + _FRONT_SIZE], signed=True)
        if magic > 2:
            raise CorruptRecords(path, start + _MAGIC_AT, f"magic {magic}; 0, 1 and 2 are known")
        if size <= _MAGIC_AT:
            raise CorruptRecords(path, start + 8, f"batch length {size - _FRONT_SIZE} is too small")
        if size > reader.left:
            raise CorruptRecords(path, start, f"batch of {size} bytes is cut off: {reader.left} are left")
        type_name = f"batch v{magic}" if magic == 2 else f"message v{magic}"
        with reader.region(size):
            reader.read_node(_BATCH, f"[{index}]", f"{path}[{index}]", type_name, Kind.STRUCT)
        index += 1


class Batch(Form):
    """One record batch, or one message of the formats before; the region is its bytes."""

    def read(self, reader: Reader, path: str) -> None:
        """None: the fields are in the tree."""
        magic = reader.data[reader.at + _MAGIC_AT]
        fields = cast(dict[str, int], (_BATCH_HEADER if magic == 2 else _MESSAGES[magic]).read(reader, path))
        codec = fields["attributes"] & _CODEC_BITS
        if codec and magic < 2:
            reader.add_note(f"the value is compressed: {_CODECS.get(codec, codec)}")
        elif codec:
            start = reader.at
            kind = f"records, compressed: {_CODECS.get(codec, codec)}"
            reader.add_leaf("compressed", kind, start, reader.take(reader.left, path), Kind.LEAF)
        elif magic == 2:
            reader.read_node(Records(fields["record_count"]), "records", f"{path}.records", "[]Record", Kind.ARRAY)
        _check_end(reader, path, "batch")


class Records(Form):
    """The records of a batch."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def read(self, reader: Reader, path: str) -> None:
        """None: the records are in the tree."""
        if not 0 <= self.count <= reader.left:
            raise InvalidLength(path, reader.at, f"{self.count} records, but {reader.left} bytes are left")
        for index in range(self.count):
            reader.read_node(_SIZED_RECORD, f"[{index}]", f"{path}[{index}]", "Record", Kind.STRUCT)


class SizedRecord(Form):
    """A record behind its size."""

    def read(self, reader: Reader, path: str) -> None:
        """None: the fields are in the tree."""
        start = reader.at
        size = _VARINT.read(reader, path)
        if size < 0:
            raise InvalidLength(path, start, f"length {size} is negative")
        reader.need(size, path)
        reader.add_leaf("(size)", "varint", start, size)
        with reader.region(size):
            _RECORD.read(reader, path)
            _check_end(reader, path, "record")


_BATCH, _SIZED_RECORD = Batch(), SizedRecord()


def _check_end(reader: Reader, path: str, what: str) -> None:
    if reader.left:
        raise CorruptRecords(path, reader.at, f"{reader.left} bytes of the {what} are left over")
