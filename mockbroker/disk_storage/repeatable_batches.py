"""`RepeatableBatches`: batches that are read from files each time they are iterated over."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mockbroker.state.storage.stored_batch import StoredBatch


class RepeatableBatches:
    """The batches that `read` yields, from the first one on for each iteration."""

    def __init__(self, read: Callable[[], Iterator[StoredBatch]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[StoredBatch]:
        return self._read()
