"""`SmallDisk`: a file system of a few megabytes, which is filled up and has space again at random times."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SIZE = 24 << 20
_FULL_MAX_S = 1.0
_FREE_MAX_S = 1.0
_CHUNK = 1 << 16


class SmallDisk:
    """Mounted while the `with` block lasts. Raises: subprocess.CalledProcessError where it cannot be mounted."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.full_count = 0
        self._random = random.Random(seed)
        self._ballast = folder / "ballast"
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._fill_and_free, name="small disk", daemon=True)

    def __enter__(self) -> SmallDisk:
        self.folder.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(self.folder)]
        subprocess.run(mount, check=True, capture_output=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        subprocess.run(["umount", "-l", str(self.folder)], check=True, capture_output=True)

    @contextmanager
    def hold_space(self) -> Iterator[None]:
        """Have space during the `with` block."""
        with self._lock:
            self._ballast.unlink(missing_ok=True)
            yield

    def _fill_and_free(self) -> None:
        while not self._stopped.wait(self._random.uniform(0, _FREE_MAX_S)):
            with self._lock:
                self._fill()
            self._stopped.wait(self._random.uniform(0, _FULL_MAX_S))
            with self._lock:
                self._ballast.unlink(missing_ok=True)

    def _fill(self) -> None:
        try:
            with self._ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(_CHUNK))
        except OSError:
            self.full_count += 1
