"""`Removals`: files and folders that are renamed now and removed after `file.delete.delay.ms`, as in Kafka."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mockbroker.log_directory.file_layer import FileLayer


class _Removal(msgspec.Struct):
    """due_ms: None until the clock is read after the renaming."""

    path: str
    is_folder: bool
    delay_ms: int
    due_ms: int | None = None


class Removals:
    """What is to be removed. report: called with a line when that fails; it is removed at the next start then."""

    def __init__(self, files: FileLayer, report: Callable[[str], None]) -> None:
        self._files = files
        self._report = report
        self._removals: list[_Removal] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not self._removals

    def add_file(self, path: str, *, delay_ms: int) -> None:
        """Remove a file later."""
        self._removals.append(_Removal(path, False, delay_ms))

    def add_folder(self, path: str, *, delay_ms: int) -> None:
        """Remove a folder later."""
        self._removals.append(_Removal(path, True, delay_ms))

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """When the next one is due."""
        for removal in self._removals:
            if removal.due_ms is None:
                removal.due_ms = now_ms + removal.delay_ms
        return min((removal.due_ms for removal in self._removals if removal.due_ms is not None), default=None)

    def expire(self, *, now_ms: int) -> None:
        """Remove what is due."""
        self.next_deadline_ms(now_ms=now_ms)
        due = [removal for removal in self._removals if removal.due_ms is not None and removal.due_ms <= now_ms]
        if due:
            self._removals = [removal for removal in self._removals if removal not in due]
            self._remove(due)

    def remove_all(self) -> None:
        """Remove everything now: the directory is closed."""
        removals, self._removals = self._removals, []
        self._remove(removals)

    def _remove(self, removals: list[_Removal]) -> None:
        for removal in removals:
            try:
                if removal.is_folder:
                    self._files.remove_folder(removal.path)
                else:
                    self._files.remove(removal.path)
            except OSError as error:
                self._report(f"{removal.path}: cannot be removed: {error}")
