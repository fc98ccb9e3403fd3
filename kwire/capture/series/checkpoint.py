"""Checkpoint of the open state at the end of a capture: connections, partial frames, requests without a response.

The next capture of a series continues with it. `PipelineState` holds the pipeline's components; `dump_checkpoint`
serializes them and `load_checkpoint` restores them. A checkpoint contains payload and, for TLS, connection keys: it is
as secret as the captures. `load_checkpoint` creates only objects of the capture packages, which protects against
damaged data. It does not protect against an attacker: writers of the checkpoint location are trusted, as with the
checkpoint of a Spark stream.
"""

from __future__ import annotations

import builtins
import collections
import importlib
import io
import json
import pickle
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from kwire.capture.kafka.detection import ConnectionClassifier
from kwire.capture.kafka.exchange import Outcome
from kwire.capture.kafka.exchange_pairing import ExchangePairer
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.model import CaptureIssue, FlowClosed, Frame, FrameEvent, Segment, StreamEvent
from kwire.capture.options import Options
from kwire.capture.rows import traffic_rows
from kwire.capture.tcp.reassembly import ConnectionTable
from kwire.capture.tls.key_log import KeyLog

# Classes of other packages that a checkpoint may contain.
_OTHER_CLASSES = {
    ("collections", "deque"): collections.deque,
    ("builtins", "bytearray"): builtins.bytearray,
    ("builtins", "frozenset"): builtins.frozenset,
    ("builtins", "memoryview"): builtins.memoryview,
    ("builtins", "set"): builtins.set,
}
_PACKAGES = ("kwire.capture.", "kwire.messages.")
# Modules that open files and sockets.
_EXCLUDED_MODULES = frozenset({"kwire.capture.files.live_capture", "kwire.capture.files.source"})


class InvalidCheckpoint(ValueError):
    """The bytes are not a checkpoint of `dump_checkpoint`."""


class IncompatibleCheckpoint(InvalidCheckpoint):
    """The checkpoint is of another version: a class in it has other attributes now."""


class PipelineState:
    """The components from TCP segments to outcomes, with the topic names."""

    def __init__(self, level: str, options: Options, keys: KeyLog) -> None:
        """For rows of one level. `keys` are the secrets of TLS connections."""
        self.names = TopicNames(options.topics)
        self.files: list[tuple[int, str]] = []
        """The captures of the series by the time of their first packet, in order."""
        self._traffic: traffic_rows.TrafficTracker | None = None
        if level in traffic_rows.TRAFFIC_LEVELS:
            self._traffic = traffic_rows.TrafficTracker(options, keys, each_packet=level == "packets")
            return
        self._connections = ConnectionTable()
        self._classifier = ConnectionClassifier(options, keys)
        self._pairer = ExchangePairer(replace(options, sessions=options.sessions and level == "messages"))

    def outcomes(self, segments: Iterable[Segment | CaptureIssue]) -> Iterator[Outcome]:
        """The outcomes that more segments complete. Open connections remain open after the last one."""
        for segment in segments:
            if isinstance(segment, CaptureIssue):
                yield segment
            elif self._traffic is not None:
                yield from self._traffic.take_segment(segment)
                yield from self._traffic.take_settled_packets()
            else:
                yield from self._extract_and_pair(self._connections.process_segment(segment))

    def expire(self, before_ts: int) -> Iterator[Outcome]:
        """Close connections without a packet since this time (nanoseconds), and return older requests."""
        if self._traffic is not None:
            yield from self._traffic.expire(before_ts)
            return
        yield from self._extract_and_pair(self._connections.close_quiet_connections(before_ts))
        yield from self._pairer.expire(before_ts)

    def close(self) -> Iterator[Outcome]:
        """The outcomes at the end of the series."""
        if self._traffic is not None:
            yield from self._traffic.close()
        else:
            yield from self._extract_and_pair(self._connections.close())

    def forget_files(self, before_ts: int) -> None:
        """Remove the files that ended before this time, when nothing that is open began earlier."""
        del self.files[: max(bisect_right(self.files, before_ts, key=lambda file: file[0]) - 1, 0)]

    def _extract_and_pair(self, events: Iterable[StreamEvent]) -> Iterator[Outcome]:
        for event in events:
            for frame_event in self._classifier.take_event(event):
                yield from self._pair(frame_event)

    def _pair(self, event: FrameEvent) -> Iterator[Outcome]:
        return self._pairer.take_event(event) if isinstance(event, Frame | FlowClosed) else iter((event,))


def dump_checkpoint(state: PipelineState) -> bytes:
    """Serialize the state for `load_checkpoint`. Options and key logs are not included."""
    out = io.BytesIO()
    writer = _Writer(out, protocol=5)
    writer.dump(state)
    attributes = {f"{cls.__module__}.{cls.__qualname__}": _attribute_names(cls) for cls in writer.classes}
    return json.dumps(attributes).encode() + b"\n" + out.getvalue()


def load_checkpoint(checkpoint: bytes, options: Options, keys: KeyLog) -> PipelineState:
    """Restore a state, with the given options and secrets.

    Raises: InvalidCheckpoint for other bytes than those of `dump_checkpoint`; IncompatibleCheckpoint.
    """
    header, _, content = checkpoint.partition(b"\n")
    try:
        reader = _Reader(io.BytesIO(content), {"options": options, "keys": keys}, json.loads(header))
        state = reader.load()
    except (IncompatibleCheckpoint, MemoryError):
        raise
    except Exception as error:  # Damaged bytes may cause any exception in the classes that they name.
        raise InvalidCheckpoint(f"the state of open connections cannot be read: {error}") from error
    if not isinstance(state, PipelineState):
        raise InvalidCheckpoint(f"the state of open connections holds a {type(state).__name__}")
    return state


def _attribute_names(cls: type) -> list[str]:
    """The attribute names of a class: fields, slots and the names that `__init__` uses."""
    declared = {*getattr(cls, "__struct_fields__", ()), *vars(cls).get("__annotations__", {})}
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
        """Records of decoded messages are memory views of the frame, which are written as bytes."""
        cls = type(value)
        if cls.__module__.startswith(_PACKAGES):
            self.classes.add(cls)
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
        if cls is None and module.startswith(_PACKAGES) and module not in _EXCLUDED_MODULES and "." not in name:
            cls = getattr(importlib.import_module(module), name)
            if getattr(cls, "__module__", None) != module:
                cls = None
        if not isinstance(cls, type):
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a checkpoint")
        expected = self._attributes.get(f"{module}.{name}")
        if expected is not None and expected != _attribute_names(cls):
            reason = f"{name} has changed"
            raise IncompatibleCheckpoint(f"the state of open connections is of another version of kwire ({reason})")
        return cls
