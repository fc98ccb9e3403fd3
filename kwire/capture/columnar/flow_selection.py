"""Which flows of an index a reader reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.kafka.client_detection import is_excluded

if TYPE_CHECKING:
    from collections.abc import Collection

    from kwire.capture.index import FlowKey, Index
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.options import Options


class FlowSelection:
    """The flows that are read, by their numbers. An index that is a stream may get more flows."""

    def __init__(self, index: Index, keys: Collection[FlowKey] | None, options: Options) -> None:
        """Args: keys: those to read; None for all."""
        self._index = index
        self._keys = None if keys is None else frozenset(keys)
        self._options = options
        self._known: Bools = np.zeros(0, dtype=np.bool_)

    def includes(self, numbers: Ints) -> Bools:
        """Whether each of these flows is read."""
        if self._keys is None and not self._options.ports:
            return np.ones(len(numbers), dtype=np.bool_)
        more = range(len(self._known), int(numbers.max(initial=-1)) + 1)
        if more:
            found = [self._is_included(self._index.flow(number).key) for number in more]
            self._known = np.append(self._known, found)
        chosen: Bools = self._known[numbers]
        return chosen

    def _is_included(self, key: FlowKey) -> bool:
        return (self._keys is None or key in self._keys) and not is_excluded(key, self._options)
