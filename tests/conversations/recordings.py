"""Recorded answers of real brokers by release: a release has a file of its own only where it answers otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from kwire.schema import RELEASES


class Recordings:
    """The answers in a folder, each in a file NAME and the suffix.

    The folder has the answers of the newest release. `releases` has a folder for each earlier one, with the answers in
    which it differs from the release after it. render: the text of a file.
    """

    def __init__(self, folder: Path, releases: Path, suffix: str, render: Callable[[Any], str]) -> None:
        self._folders = {release: releases / release for release in RELEASES} | {RELEASES[0]: folder}
        self._suffix = suffix
        self._render = render

    def find(self, name: str, release: str) -> Path | None:
        """The file with the answers of a release: its own, or that of the next release that has one."""
        newer = RELEASES[RELEASES.index(release) :: -1]
        return next((path for one in newer if (path := self._path(name, one)).exists()), None)

    def read(self, name: str, release: str) -> Any:
        """The answers of a release. Raises: LookupError when there are none."""
        path = self.find(name, release)
        if path is None:
            raise LookupError(f"{name} is not recorded with {release}")
        return json.loads(path.read_text("utf-8"))

    def store(self, name: str, release: str, answers: Any, releases: Collection[str] = RELEASES) -> None:
        """Store the answers of one of the releases that have this name; those of the others remain as they are."""
        known = {one: self.read(name, one) for one in releases if self.find(name, one) is not None}
        known[release] = answers
        newer = None
        for one in RELEASES:
            path = self._path(name, one)
            if one in known and known[one] != newer:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._render(known[one]), "utf-8")
            else:
                path.unlink(missing_ok=True)
            newer = known.get(one, newer)

    def _path(self, name: str, release: str) -> Path:
        return self._folders[release] / f"{name}{self._suffix}"
