"""The codec of one message in a generated module: its class, and a function to read and to write each version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from kwire.accelerator import NATIVE
from kwire.accelerator.plans import FieldTables, MessageDescriber, NativeCodec, VersionRange
from kwire.primitives import Part

#: Reads a message from an offset; returns it with the offset behind it.
Reader = Callable[[bytes, int], tuple[Any, int]]
#: Writes a message as parts to be joined.
Writer = Callable[[Any], list[Part]]
#: Writes a message as bytes.
Encoder = Callable[[Any], bytes]


class Codec(msgspec.Struct, frozen=True):
    """One message of one edition: its functions by version.

    A generated module gives the Python functions. With the accelerator, `readers`, `writers` and `encoders` are those
    of the extension, with the same arguments, results and errors; `pure_readers` and `pure_writers` stay.
    """

    message: type[msgspec.Struct]
    pure_readers: Mapping[int, Reader]
    pure_writers: Mapping[int, Writer]
    #: The classes of its structs by their names in the schema.
    structs: Mapping[str, type[msgspec.Struct]]
    #: The API key or record type, -1 where there is none; with the name and edition, as the class has them.
    api_key: int
    name: str
    edition: str
    #: The versions in which lengths are varints and structs end with tagged fields.
    flexible_versions: VersionRange
    #: The fields of the structs.
    tables: FieldTables
    #: The functions in use; chosen below, never given.
    readers: Mapping[int, Reader] = {}
    writers: Mapping[int, Writer] = {}
    encoders: Mapping[int, Encoder] = {}

    def __post_init__(self) -> None:
        """Choose the functions in use."""
        readers, writers = self.pure_readers, self.pure_writers
        if NATIVE is None:
            encoders: Mapping[int, Encoder] = {version: _join_parts(write) for version, write in writers.items()}
        else:
            codecs = {version: self._native_codec(version) for version in readers}
            readers = {version: codec.read for version, codec in codecs.items()}
            writers = {version: codec.write for version, codec in codecs.items()}
            encoders = {version: codec.encode for version, codec in codecs.items()}
        # The class is frozen for everybody else.
        force_setattr(self, "readers", readers)
        force_setattr(self, "writers", writers)
        force_setattr(self, "encoders", encoders)

    def _native_codec(self, version: int) -> NativeCodec:
        assert NATIVE is not None
        describe = MessageDescriber(self.message, self.structs, self.tables, self.flexible_versions, version)
        codec: NativeCodec = NATIVE.MessageCodec(describe, self.pure_readers[version], self.pure_writers[version])
        return codec


def _join_parts(write: Writer) -> Encoder:
    def encode(message: Any) -> bytes:
        return b"".join(write(message))

    return encode
