"""Key logs that grow while a capture is read: their files are read again when they have changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.capture.tls.key_log import KeyLog

if TYPE_CHECKING:
    from kwire.capture.options import Options

# A file is read in pieces of this size.
_CHUNK = 1 << 20
# Of a line without an end, so much is kept: lines of secrets are shorter.
_LINE_SIZE_MAX = 4096
_OTHER_LINE = re.compile(r"^[^#\s]", re.MULTILINE)


def find_waiting(paths: Iterable[str]) -> list[str]:
    """Those of the files that have no secrets yet: they are missing, empty, or have only comments.

    Raises: ValueError for a file with other content and no TLS secret; OSError for one that cannot be read.
    """
    waiting: list[str] = []
    for path in paths:
        try:
            text = Path(path).read_text("latin-1")
        except FileNotFoundError:
            waiting.append(path)
            continue
        if not len(KeyLog(text)):
            # The last line may be half written.
            if _OTHER_LINE.search(text[: text.rfind("\n") + 1]):
                raise ValueError(f"{path}: no line of it is a TLS secret, as SSLKEYLOGFILE has them")
            waiting.append(path)
    return waiting


def open_key_log(options: Options) -> KeyLog:
    """The secrets of the options: those that they contain, and those of files, which are read as they grow."""
    files = options.followed_keylogs
    return FollowedKeyLog(files, options.tls_keylog) if files else KeyLog(options.tls_keylog)


def read_current_secrets(options: Options) -> Options:
    """The options for an input that is complete: they contain the secrets that followed files have now."""
    if not options.followed_keylogs:
        return options
    texts = [options.tls_keylog]
    for path in options.followed_keylogs:
        with suppress(FileNotFoundError):
            texts.append(Path(path).read_text("latin-1"))
    return replace(options, tls_keylog="\n".join(texts), followed_keylogs=())


class FollowedKeyLog(KeyLog):
    """The secrets of files that may be missing, grow, or be replaced."""

    is_followed = True

    def __init__(self, paths: Iterable[str], text: str = "") -> None:
        """`text` has the lines of other key logs, as `KeyLog` reads them."""
        super().__init__(text)
        self.may_grow = True
        self._files = [_GrowingKeyLog(path) for path in paths]
        self.refresh()

    def refresh(self) -> None:
        """Read what was added to the files."""
        for file in self._files:
            for lines in file.read_new_lines():
                self.add_lines(lines)


class _GrowingKeyLog:
    """One file, and the position up to which it was read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file_id: tuple[int, int] | None = None
        self._position = 0
        self._partial_line = ""

    def read_new_lines(self) -> Iterable[str]:
        """The complete lines since the last call; none while the file is missing or cannot be read."""
        try:
            status = os.stat(self._path)
            file_id = status.st_dev, status.st_ino
            if file_id != self._file_id or status.st_size < self._position:
                # It is new, was replaced, or was emptied.
                self._file_id, self._position, self._partial_line = file_id, 0, ""
            if status.st_size > self._position:
                yield from self._read_lines()
        except OSError:
            return

    def _read_lines(self) -> Iterable[str]:
        with open(self._path, "rb") as file:
            file.seek(self._position)
            while chunk := file.read(_CHUNK):
                self._position += len(chunk)
                text = self._partial_line + chunk.decode("latin-1")
                end = text.rfind("\n") + 1
                self._partial_line = text[end:][-_LINE_SIZE_MAX:]
                yield text[:end]
