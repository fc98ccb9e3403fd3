"""Checkpoint of a series of captures between two files: connections, partial frames, requests without a response.

`dump_checkpoint` serializes the reader of a series, and `load_checkpoint` restores it. A checkpoint contains payload
and, for TLS, connection keys: it is as secret as the captures. `load_checkpoint` creates only objects of the capture
packages, which protects against damaged data. It does not protect against an attacker: writers of the checkpoint
location are trusted, as with the checkpoint of a Spark stream.
"""

from __future__ import annotations

import array
import builtins
import collections
import importlib
import io
import json
import pickle
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import numpy.typing as npt

from kwire.capture.options import Options
from kwire.capture.series.series_reader import SeriesReader
from kwire.capture.tls.key_log import KeyLog

# Classes of other packages that a checkpoint may contain.
_OTHER_CLASSES = {
    ("array", "array"): array.array,
    ("builtins", "bool"): builtins.bool,
    ("builtins", "bytearray"): builtins.bytearray,
    ("builtins", "frozenset"): builtins.frozenset,
    ("builtins", "int"): builtins.int,
    ("builtins", "memoryview"): builtins.memoryview,
    ("builtins", "set"): builtins.set,
    ("collections", "Counter"): collections.Counter,
    ("collections", "deque"): collections.deque,
}
_PACKAGES = ("kwire.capture.", "kwire.messages.")
# Modules that open files and sockets.
_EXCLUDED_MODULES = frozenset({"kwire.capture.files.live_capture", "kwire.capture.files.source"})


class InvalidCheckpoint(ValueError):
    """The bytes are not a checkpoint of `dump_checkpoint`."""


class IncompatibleCheckpoint(InvalidCheckpoint):
    """The checkpoint is of another version: a class in it has other attributes now, or does not exist."""


class StoredArray:
    """Stands for an array of numbers in a checkpoint."""

    def __new__(cls, kind: str, shape: tuple[int, ...], data: bytes) -> Any:
        """The array. Args: kind: its type, as numpy writes it."""
        if np.dtype(kind).kind not in "biu":
            raise pickle.UnpicklingError(f"arrays of {kind} are not allowed in a checkpoint")
        stored: npt.NDArray[Any] = np.ndarray(shape, kind, data)
        return stored.copy()


class StoredMethod:
    """Stands for a method of an object in a checkpoint."""

    def __new__(cls, owner: object, name: str) -> Any:
        """The method."""
        function = getattr(type(owner), name, None)
        if not type(owner).__module__.startswith(_PACKAGES) or not isinstance(function, FunctionType):
            raise pickle.UnpicklingError(f"{type(owner).__name__}.{name} is not allowed in a checkpoint")
        return MethodType(function, owner)


def dump_checkpoint(series: SeriesReader) -> bytes:
    """Serialize a reader between two files, for `load_checkpoint`. Options and key logs are not included."""
    out = io.BytesIO()
    writer = _Writer(out, protocol=5)
    writer.dump(series)
    attributes = {f"{cls.__module__}.{cls.__qualname__}": _attribute_names(cls) for cls in writer.classes}
    return json.dumps(attributes).encode() + b"\n" + out.getvalue()


def load_checkpoint(checkpoint: bytes, options: Options, keys: KeyLog) -> SeriesReader:
    """Restore a reader, with the given options and secrets. It reads all hosts until they are selected again.

    Raises: InvalidCheckpoint for other bytes than those of `dump_checkpoint`; IncompatibleCheckpoint.
    """
    header, _, content = checkpoint.partition(b"\n")
    try:
        reader = _Reader(io.BytesIO(content), {"options": options, "keys": keys}, json.loads(header))
        series = reader.load()
    except (IncompatibleCheckpoint, MemoryError):
        raise
    except Exception as error:  # Damaged bytes may cause any exception in the classes that they name.
        raise InvalidCheckpoint(f"the state of open connections cannot be read: {error}") from error
    if not isinstance(series, SeriesReader):
        raise InvalidCheckpoint(f"the state of open connections holds a {type(series).__name__}")
    return series


def _attribute_names(cls: type) -> list[str]:
    """The attribute names of a class: fields, slots, columns, and the names that `__init__` uses."""
    declared = {*getattr(cls, "__struct_fields__", ()), *vars(cls).get("__annotations__", {})}
    declared.update(name for name, value in vars(cls).items() if isinstance(value, np.ndarray))
    slots = vars(cls).get("__slots__", ())
    init_code = getattr(vars(cls).get("__init__"), "__code__", None)
    names = init_code.co_names if init_code else ()
    return sorted({*declared, *([slots] if isinstance(slots, str) else slots), *names})


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.classes: set[type] = set()

    def persistent_id(self, value: object) -> str | None:
        """Options and secrets are not written; `load_checkpoint` receives them."""
        if isinstance(value, Options):
            return "options"
        return "keys" if isinstance(value, KeyLog) else None

    def reducer_override(self, value: object) -> Any:
        """Arrays, numbers and methods are written as values that need no functions to be restored.

        Records of decoded messages are memory views of the frame, which are written as bytes.
        """
        cls = type(value)
        if cls.__module__.startswith(_PACKAGES):
            self.classes.add(cls)
        if isinstance(value, np.ndarray):
            return StoredArray, (value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, np.generic):
            return type(value.item()), (value.item(),)
        if isinstance(value, MethodType):
            return StoredMethod, (value.__self__, value.__name__)
        if isinstance(value, array.array):
            return array.array, (value.typecode, value.tobytes())
        return (memoryview, (value.tobytes(),)) if isinstance(value, memoryview) else NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, values: dict[str, object], attributes: dict[str, list[str]]) -> None:
        super().__init__(file)
        self._values = values
        self._attributes = attributes

    def persistent_load(self, name: str) -> object:
        """The given options or secrets."""
        return self._values[name]

    def find_class(self, module: str, name: str) -> type:
        """Only classes that are defined in the capture packages: no functions, and no imported names."""
        cls: object = _OTHER_CLASSES.get((module, name))
        is_allowed = module.startswith(_PACKAGES) and module not in _EXCLUDED_MODULES and "." not in name
        if cls is None and is_allowed:
            cls = _find_name(module, name)
        expected = self._attributes.get(f"{module}.{name}")
        is_changed = expected is not None and is_allowed and not isinstance(cls, type)
        if is_changed or (expected is not None and isinstance(cls, type) and expected != _attribute_names(cls)):
            reason = f"{name} has changed"
            raise IncompatibleCheckpoint(f"the state of open connections is of another version of kwire ({reason})")
        if not isinstance(cls, type):
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a checkpoint")
        return cls


def _find_name(module: str, name: str) -> object:
    """What a module defines by this name; None if there is no such module, or the name is of another one."""
    try:
        found: object = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return found if getattr(found, "__module__", None) == module else None
