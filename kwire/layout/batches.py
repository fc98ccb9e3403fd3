"""Record batches inside a records field: headers always, records where they are not compressed.

Written from the format alone and not from `kwire.records`, so that the two check each other.
Damage in a batch is a node of the tree and ends the batches, but not the message around them.
"""

from __future__ import annotations

from io import BytesIO
from typing import cast

import construct

from kwire.layout.forms import Blob, Construct, Fixed, Form, Length, Named
from kwire.layout.recorder import Damage, Recorder
from kwire.layout.structs import Fields
from kwire.layout.tree import Kind

#: Offset and size, which every format has at the front; the magic byte lies at the same place in all of them.
_FRONT_SIZE, _MAGIC_AT = 12, 16
_CODEC_BITS = 0x07
_CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


def _number(name: str, type_name: str, form: Construct) -> Named:
    return Named(name, type_name, Fixed(form))


_FRONT = [
    _number("base_offset", "int64", construct.Int64sb),
    _number("batch_length", "int32", construct.Int32sb),
]
_HEADER = Fields(
    [
        *_FRONT,
        _number("partition_leader_epoch", "int32", construct.Int32sb),
        _number("magic", "int8", construct.Int8sb),
        _number("crc", "uint32", construct.Int32ub),
        _number("attributes", "int16", construct.Int16sb),
        _number("last_offset_delta", "int32", construct.Int32sb),
        _number("base_timestamp", "int64", construct.Int64sb),
        _number("max_timestamp", "int64", construct.Int64sb),
        _number("producer_id", "int64", construct.Int64sb),
        _number("producer_epoch", "int16", construct.Int16sb),
        _number("base_sequence", "int32", construct.Int32sb),
        _number("record_count", "int32", construct.Int32sb),
    ]
)
_LEGACY_BLOB = Blob(Length(construct.Int32sb, nullable=True))
_LEGACY_FRONT = [
    _number("offset", "int64", construct.Int64sb),
    _number("message_size", "int32", construct.Int32sb),
    _number("crc", "uint32", construct.Int32ub),
    _number("magic", "int8", construct.Int8sb),
    _number("attributes", "int8", construct.Int8sb),
]
_LEGACY_BODY = [Named("key", "bytes", _LEGACY_BLOB), Named("value", "bytes", _LEGACY_BLOB)]
_LEGACY = {
    0: Fields([*_LEGACY_FRONT, *_LEGACY_BODY]),
    1: Fields([*_LEGACY_FRONT, _number("timestamp", "int64", construct.Int64sb), *_LEGACY_BODY]),
}


class Zigzag(Form):
    """A signed varint as records have it: 0, -1, 1, -2, ... in seven bits a byte."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> int:
        """The number; damage when it is too long."""
        start = stream.tell()
        raw = 0
        for index in range(-(-self.bits // 7)):
            recorder.need(start + index, 1)
            byte = stream.read(1)[0]
            raw |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if raw >> self.bits:
                    break
                return (raw >> 1) ^ -(raw & 1)
        raise Damage(start, f"varint goes beyond {self.bits} bits")


_VARINT, _VARLONG = Zigzag(32), Zigzag(64)


class VarintBlob(Form):
    """Bytes behind a signed varint length, -1 for null."""

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> bytes | None:
        """The bytes, None for null."""
        start = stream.tell()
        size = _VARINT.read(stream, recorder, context)
        if size < -1:
            raise Damage(start, f"length {size} is negative")
        if size == -1:
            return None
        recorder.need(stream.tell(), size)
        return stream.read(size)


class Headers(Form):
    """The headers of a record."""

    _header = Fields([Named("key", "bytes", VarintBlob()), Named("value", "bytes", VarintBlob())])

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> None:
        """None, as the headers are in the tree."""
        start = stream.tell()
        count = _VARINT.read(stream, recorder, context)
        if not 0 <= count <= recorder.left(stream.tell()):
            raise Damage(start, f"{count} headers, but {recorder.left(stream.tell())} bytes are left")
        recorder.leaf("(count)", "varint", (start, stream.tell()), count)
        for index in range(count):
            recorder.open(f"[{index}]", "Header", stream.tell(), Kind.STRUCT)
            self._header.read(stream, recorder, context)
            recorder.close(stream.tell())


_RECORD = Fields(
    [
        Named("attributes", "int8", Fixed(construct.Int8sb)),
        Named("timestamp_delta", "varlong", _VARLONG),
        Named("offset_delta", "varint", _VARINT),
        Named("key", "bytes", VarintBlob()),
        Named("value", "bytes", VarintBlob()),
        Named("headers", "[]Header", Headers(), Kind.ARRAY),
    ]
)


class Batches(Blob):
    """A records field: its length, then record batches of any format, one behind the other."""

    def read(self, stream: BytesIO, recorder: Recorder, context: object) -> bytes | None:
        """All the bytes, None for null; the batches are in the tree."""
        begin = stream.tell()
        size = self.length.read(stream, recorder, context)
        if size is None:
            recorder.current.kind = Kind.LEAF
            return None
        start = stream.tell()
        recorder.need(start, size)
        recorder.leaf("(size)", "length", (begin, start), size)
        with recorder.region(start + size):
            depth = recorder.depth
            try:
                self._batches(stream, recorder, context)
            except Damage as damage:
                # The records node itself stays open: its length is known, and the fields behind it can be read.
                recorder.fail(damage, depth)
        stream.seek(start)
        return stream.read(size)

    def _batches(self, stream: BytesIO, recorder: Recorder, context: object) -> None:
        index = 0
        while (left := recorder.left(stream.tell())) > 0:
            start = stream.tell()
            recorder.need(start, _MAGIC_AT + 1)
            front = stream.read(_MAGIC_AT + 1)
            stream.seek(start)
            magic = front[_MAGIC_AT]
            size = _FRONT_SIZE + int.from_bytes(front[8:_FRONT_SIZE], signed=True)
            if magic > 2:
                raise Damage(start + _MAGIC_AT, f"magic {magic}; 0, 1 and 2 are known")
            if size <= _MAGIC_AT:
                raise Damage(start + 8, f"batch length {size - _FRONT_SIZE} is too small")
            if size > left:
                raise Damage(start, f"batch of {size} bytes is cut off: {left} are left")
            recorder.open(f"[{index}]", f"batch v{magic}" if magic == 2 else f"message v{magic}", start, Kind.STRUCT)
            with recorder.region(start + size):
                _batch(stream, recorder, context, magic)
            recorder.close(stream.tell())
            index += 1


def _batch(stream: BytesIO, recorder: Recorder, context: object, magic: int) -> None:
    node = recorder.current
    (_HEADER if magic == 2 else _LEGACY[magic]).read(stream, recorder, context)
    codec = cast(int, node.child("attributes").value) & _CODEC_BITS
    if magic < 2:
        if codec:
            recorder.note(f"the value is compressed: {_CODECS.get(codec, codec)}")
    elif codec:
        start = stream.tell()
        raw = stream.read(recorder.left(start))
        kind = f"records, compressed: {_CODECS.get(codec, codec)}"
        recorder.leaf("compressed", kind, (start, stream.tell()), raw, Kind.LEAF)
    else:
        _records(stream, recorder, context, cast(int, node.child("record_count").value))
    if recorder.left(stream.tell()):
        raise Damage(stream.tell(), f"{recorder.left(stream.tell())} bytes of the batch are left over")


def _records(stream: BytesIO, recorder: Recorder, context: object, count: int) -> None:
    start = stream.tell()
    if not 0 <= count <= recorder.left(start):
        raise Damage(start, f"{count} records, but {recorder.left(start)} bytes are left")
    recorder.open("records", "[]Record", start, Kind.ARRAY)
    for index in range(count):
        begin = stream.tell()
        recorder.open(f"[{index}]", "Record", begin, Kind.STRUCT)
        size = _VARINT.read(stream, recorder, context)
        if size < 0:
            raise Damage(begin, f"length {size} is negative")
        recorder.need(stream.tell(), size)
        recorder.leaf("(size)", "varint", (begin, stream.tell()), size)
        with recorder.region(stream.tell() + size):
            _RECORD.read(stream, recorder, context)
            if recorder.left(stream.tell()):
                raise Damage(stream.tell(), f"{recorder.left(stream.tell())} bytes of the record are left over")
        recorder.close(stream.tell())
    recorder.close(stream.tell())
