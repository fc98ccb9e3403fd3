"""Files with keys and certificates, which only their owner reads, and no link of which is followed."""

from __future__ import annotations

import os
from pathlib import Path

#: The maximum size of a file that is read, bytes.
_BYTES_MAX = 1 << 20
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has none.


def create_own_folder(folder: Path) -> None:
    """Create a folder that only its owner reads, unless it is there. Raises: OSError, also for a link."""
    if folder.is_symlink():
        raise OSError(f"{folder} is a symbolic link")
    folder.mkdir(mode=0o700, exist_ok=True)


def read_own_file(path: Path) -> bytes | None:
    """The content of a file, None if there is none. Raises: OSError, also for a link and a large file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_LINK)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        content = file.read(_BYTES_MAX + 1)
    if len(content) > _BYTES_MAX:
        raise OSError(f"{path} has more than {_BYTES_MAX} bytes")
    return content


def write_own_file(path: Path, content: bytes) -> None:
    """Replace a file at once: a reader sees the old or the new content. Raises: OSError."""
    written = path.with_name(f"{path.name}.new")
    written.unlink(missing_ok=True)
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
    os.replace(written, path)
