"""Topic names by position in a capture: rows have the names that were known when their exchange was complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kwire import uuids
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.kafka.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.capture.index.arrays import Ints

UUID = pa.binary(16)


class TopicHistory(TopicNames):
    """The topic names of a capture, with the changes in the part that is being read."""

    def __init__(self, known: Mapping[str, str]) -> None:
        """`known` maps ids (base64url text) to names."""
        super().__init__(known)
        self.position = 0
        """The number of the exchange in the part whose messages are learned from."""
        # Where each name changed: the first name is the one that was known before.
        self._changes: dict[str, tuple[list[int], list[str | None]]] = {}

    def begin_part(self) -> None:
        """Forget the changes of the part before."""
        self._changes.clear()

    def _store_name(self, topic_id: str, name: str) -> None:
        positions, names = self._changes.setdefault(topic_id, ([], [self._names.get(topic_id)]))
        positions.append(self.position)
        names.append(name)
        super()._store_name(topic_id, name)

    def topic_columns(self, names: pa.Array, ids: pa.Array, positions: Ints) -> tuple[pa.Array, pa.Array]:
        """The columns `topic` and `topic_id`. Args: ids: of 16 bytes each. positions: of the exchange of each row."""
        encoded = ids.dictionary_encode()
        texts = [uuids.to_text(value) for value in encoded.dictionary.to_pylist()]
        id_texts = pa.array(texts, type=pa.string()).take(encoded.indices)
        if not names.null_count or not texts:
            return names, id_texts
        known = pa.array([self._names.get(text) for text in texts], type=pa.string()).take(encoded.indices)
        changed = [number for number, text in enumerate(texts) if text in self._changes]
        if changed:
            known = self._names_at(known, encoded.indices, texts, positions, changed)
        return pc.coalesce(names, known), id_texts

    def _names_at(
        self, known: pa.Array, indices: pa.Array, texts: list[str], positions: Ints, changed: list[int]
    ) -> pa.Array:
        """`known` with the names that changed in the part replaced by those at the positions."""
        number = indices.fill_null(-1).to_numpy(zero_copy_only=False)
        choices, chosen = [known], np.zeros(len(known), dtype=np.int64)
        for id_number in changed:
            places, names = self._changes[texts[id_number]]
            rows = np.nonzero(number == id_number)[0]
            chosen[rows] = sum(map(len, choices)) + np.searchsorted(places, positions[rows], "right")
            choices.append(pa.array(names, type=pa.string()))
        is_unchanged = ~np.isin(number, changed)
        chosen[is_unchanged] = np.nonzero(is_unchanged)[0]
        return pa.concat_arrays(choices).take(pa.array(chosen))


def uuid_array(data: bytes, at: Ints) -> pa.Array:
    """The topic ids at these positions; null for zeros."""
    values = gather_bytes(data, at, 16)
    is_present = np.packbits(values.any(axis=1), bitorder="little")
    buffers = [pa.py_buffer(part.tobytes()) for part in (is_present, values)]
    return pa.FixedSizeBinaryArray.from_buffers(UUID, len(at), buffers)
