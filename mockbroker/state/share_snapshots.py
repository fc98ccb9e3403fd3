"""A node's share snapshot files: for each topic-partition that it has led, where the newest checkpoints lie."""

from __future__ import annotations

Place = tuple[bytes, int]


class ShareSnapshots:
    """The files by topic id and partition. They outlive the broker; tests may lose them, or write what is wrong."""

    def __init__(self) -> None:
        self._files: dict[Place, bytes] = {}

    def read(self, place: Place) -> bytes | None:
        """A file's bytes, None when there is none."""
        return self._files.get(place)

    def write(self, place: Place, data: bytes) -> None:
        """Replace a file."""
        self._files[place] = data

    def lose(self, place: Place) -> None:
        """Delete a file; one that is not there is no error."""
        self._files.pop(place, None)
