from collections.abc import Callable, Sequence
from typing import Any

Span = tuple[int | None, int | None, int | None, int | None]

INTERFACE: int

class MessageCodec:
    """Reads and writes one version of a message."""

    def __init__(
        self,
        describe: Callable[[], tuple[Any, ...]],
        pure_read: Callable[[bytes, int], tuple[Any, int]],
        pure_write: Callable[[Any], list[Any]],
    ) -> None: ...
    @property
    def is_planned(self) -> bool: ...
    def read(self, data: bytes, at: int, /) -> tuple[Any, int]: ...
    def write(self, message: Any, /) -> list[Any]: ...
    def encode(self, message: Any, /) -> bytes: ...

class RecordCodec:
    """Reads and writes the records of batches of magic 2.

    The methods return None for all that the Python code must do: unusual types, numbers out of range, invalid bytes.
    """

    def __init__(self, record: type[Any], base: type[Any]) -> None: ...
    def read(self, data: bytes | bytearray | memoryview, base: Any, strict: bool, /) -> list[Any] | None: ...
    def write_body(self, records: Sequence[Any], span: Span, /) -> tuple[bytes, int, int, int, int] | None: ...
    def write_batch(
        self,
        records: Sequence[Any],
        span: Span,
        fields: tuple[int, int, int, int, int],
        checksum: Callable[[memoryview], int],
        /,
    ) -> bytes | None: ...

class BatchReader:
    """Reads the headers of batches of magic 2."""

    def __init__(self, batch: type[Any]) -> None: ...
    def read(self, data: bytes | bytearray | memoryview, offset: int, /) -> Any: ...

def scan_records(
    data: bytes | bytearray | memoryview, count: int, base_timestamp: int, /
) -> tuple[int, int, bool, bool, int, int] | None: ...
def read_record_columns(
    data: bytes | bytearray | memoryview, begins: Any, ends: Any, name_prefix: bytes, is_decompressed: bool, /
) -> tuple[bytes, bytes, bytes, bytes]: ...
def check_batches(data: bytes, begins: Any, ends: Any, /) -> bytes: ...
def find_pcap_records(
    data: bytes | bytearray | memoryview, limit: int, layout: tuple[int, int, bool, int], /
) -> tuple[bytes, int]: ...

class JsonWriter:
    """Writes one version of a message as JSON."""

    def __init__(
        self,
        description: tuple[Any, ...],
        codecs: tuple[bytes, ...],
        text_of: Callable[[bytes], str],
        float_of: Callable[[float], str],
        records_of: Callable[[bytes, int, int], str],
        is_escaped: bool,
    ) -> None: ...
    def write(self, data: bytes, at: int, /) -> str: ...
    def write_each(self, data: bytes, offsets: tuple[int, ...], /) -> list[str | None]: ...

class SummaryReader:
    """Reads what summaries of one version of a message are made of."""

    def __init__(self, description: tuple[Any, ...], codecs: tuple[bytes, ...], acks: tuple[bytes, ...]) -> None: ...
    def read(
        self,
        answers: SummaryReader,
        data: bytes,
        places: tuple[tuple[int, ...], tuple[int, ...]],
        heads: dict[bytes, str],
        make_head: Callable[[int, int], str],
        /,
    ) -> tuple[list[str | None], list[int]]: ...
