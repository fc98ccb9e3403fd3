"""`DamagedFileError`: the contents of a file of a log directory are not what its kind requires."""

from __future__ import annotations


class DamagedFileError(ValueError):
    """A file that cannot be used. name: of the file; position: in bytes, or None for all of it."""

    def __init__(self, name: str, position: int | None, problem: str) -> None:
        super().__init__(f"{name}: {problem}" if position is None else f"{name}, byte {position}: {problem}")
        self.name = name
        self.position = position
        self.problem = problem
