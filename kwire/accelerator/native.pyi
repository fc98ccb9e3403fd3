from collections.abc import Callable
from typing import Any

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
