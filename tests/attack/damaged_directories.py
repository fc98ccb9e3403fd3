"""Damages one file of a data directory at a time, and starts the cluster on it.

It must start with everything that was acknowledged, or end with exit code 2 and one line that names the directory;
never with a traceback, without end, with much memory, or with a change outside of the directory. Where the process was
killed and a log itself is damaged, its records are not compared: those behind the last checkpoints may be lost unseen.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.stored.damaged_directories import DAMAGES, damages_of, list_paths, make_directory, walk_outside
from tests.support.stored.started_child import RESIDENT_MAX_KB, UNREADABLE, Contents, Outcome, start_cluster

#: Nodes, whether the process was killed, whether replicas have logs of their own.
_TEMPLATES = ((1, False, False), (1, True, False), (3, True, True), (3, False, False), (1, True, False))
_OTHER_BOOT = 4


class _Template(NamedTuple):
    folder: Path
    arguments: list[str]
    contents: Contents
    is_killed: bool


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Play rounds until the time is over. Yields: violations, with what repeats them."""
    end_s = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        templates: dict[int, _Template] = {}
        while True:
            yield from _play_round(root, templates, rng)
            if time.monotonic() >= end_s:
                return


def _play_round(root: Path, templates: dict[int, _Template], rng: random.Random) -> Iterator[str]:
    number = rng.randrange(len(_TEMPLATES))
    if number not in templates:
        templates[number] = _make_template(root, number)
    template = templates[number]
    work, outside = root / "work", root / "outside"
    for folder in (work, outside):
        shutil.rmtree(folder, ignore_errors=True)
    outside.mkdir()
    subprocess.run(["cp", "-a", str(template.folder), str(work)], check=True)
    path = rng.choice(list_paths(work))
    kind = rng.choice(damages_of(path))
    DAMAGES[kind](path, rng)
    before = list(walk_outside(outside))
    outcome = start_cluster(work, template.arguments, without_privileges=kind == "unreadable")
    where = f"{template.folder.name}, {kind} of {path.relative_to(work)}"
    for problem in _find_problems(outcome, work, template, path):
        yield f"{where}: {problem}; stderr: {outcome.stderr[-600:]!r}"
    if list(walk_outside(outside)) != before:
        yield f"{where}: a file outside of the directory was changed"


def _make_template(root: Path, number: int) -> _Template:
    nodes, is_killed, is_real = _TEMPLATES[number]
    folder = root / f"template-{number}"
    arguments, contents = make_directory(folder, nodes=nodes, is_killed=is_killed, is_real=is_real)
    if number == _OTHER_BOOT:
        for mark in folder.glob("*/.mockbroker-boot-id"):
            mark.write_text("another boot")
    return _Template(folder, arguments, contents, is_killed)


def _find_problems(outcome: Outcome, work: Path, template: _Template, damaged: Path) -> Iterator[str]:
    if outcome.code not in (0, 2):
        yield f"it ended with {outcome.code}"
    if "Traceback" in outcome.stderr or " ERROR " in outcome.stderr:
        yield "it has logged an error"
    if outcome.resident_kb > RESIDENT_MAX_KB:
        yield f"it took {outcome.resident_kb} kB of memory"
    if outcome.code == 2:
        last = outcome.stderr.rstrip("\n").rpartition("\n")[2]
        if not last.startswith("mockbroker: data-dir: ") or str(work) not in last:
            yield "the last line does not name the directory"
    if outcome.code == 0 and outcome.contents is not None:
        yield from _compare(outcome.contents, template, damaged)


def _compare(found: Contents, template: _Template, damaged: Path) -> Iterator[str]:
    expected, is_killed = template.contents, template.is_killed
    for key, values in expected.items():
        have = found.get(key)
        if have is None:
            yield f"{key} is missing"
            continue
        is_damaged = f"{key[0]}-{key[1]}" in (damaged.name, damaged.parent.name if damaged.suffix == ".log" else "")
        if is_damaged and (UNREADABLE in have or is_killed):
            continue  # Readers get an error, or nothing shows what was written after the last checkpoints.
        wrong = [offset for offset, value in values.items() if have.get(offset, b"") not in (value, None)]
        if wrong:
            yield f"{key}: records that were acknowledged are not there: {len(wrong)}, as offset {wrong[0]}"
        more = [offset for offset, value in have.items() if offset not in values and value is not None]
        if more and not key[0].startswith("__"):
            yield f"{key}: records that were aborted or never written are there: {len(more)}, as offset {more[0]}"
