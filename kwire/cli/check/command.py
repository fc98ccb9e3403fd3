"""``kwire check``: compare the codec with golden vectors and golden record batches, line by line.

A file has one JSON object per line, plain or gzipped. Vectors have `message`, `version`, `hex` and may have `json` and
`unknownTaggedFields`; record batches have `hex` and `batches`. The first readable line determines which.
"""

from __future__ import annotations

import argparse
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from kwire.cli.check import golden_batches, golden_vectors
from kwire.cli.check.comparison import Mismatch
from kwire.cli.edition import add_edition_arguments
from kwire.errors import WireError
from kwire.escape import one_line
from kwire.registry import DEFAULT_EDITION, require_edition

_GZIP_MAGIC = b"\x1f\x8b"
_LINE_MAX = 256 << 20  # Limit for files that are no JSON lines.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the sub-command."""
    parser.add_argument("files", nargs="+", metavar="FILE", type=Path, help="golden file: .jsonl or .jsonl.gz")
    add_edition_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Check every line of every file; returns 1 if one failed or there was none."""
    require_edition(args.edition)
    passed = failed = 0
    for path in args.files:
        for number, failure in check_file(path, args.edition):
            if failure is None:
                passed += 1
            else:
                failed += 1
                print(f"{one_line(str(path))}:{number}: {one_line(failure)}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def check_file(path: Path, edition: str = DEFAULT_EDITION) -> Iterator[tuple[int, str | None]]:
    """Yield for each line its number and its failure, None if it passed.

    Raises: OSError when the file cannot be opened.
    """
    batches: bool | None = None
    number = 0
    with _open_golden_file(path) as lines:
        while True:
            number += 1
            try:
                line = lines.readline(_LINE_MAX)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                yield number, f"the file cannot be read from here on: {error}"
                return
            if not line:
                return
            if len(line) == _LINE_MAX:
                yield number, f"the line has more than {_LINE_MAX} bytes"
                return
            if not line.strip():
                continue
            tree, failure = _parse_line(line)
            if tree is not None:
                batches = "batches" in tree if batches is None else batches
                failure = _check_line(tree, edition, batches)
            yield number, failure


def _open_golden_file(path: Path) -> BinaryIO:
    """The file's lines; compression is detected by the first bytes, not by the name."""
    with path.open("rb") as head:
        compressed = head.read(2) == _GZIP_MAGIC
    return cast(BinaryIO, gzip.open(path, "rb") if compressed else path.open("rb"))


def _parse_line(line: bytes) -> tuple[dict[str, object] | None, str | None]:
    """The line's JSON object, or the reason why it is none."""
    try:
        tree = json.loads(line)
    except RecursionError:
        return None, "not JSON that can be read: nested too deeply"
    except ValueError as error:
        return None, f"not JSON: {error}"
    if not isinstance(tree, dict):
        return None, f"not a JSON object but {type(tree).__name__}"
    return tree, None


def _check_line(tree: dict[str, object], edition: str, batches: bool) -> str | None:
    subject = "record batches" if batches else golden_vectors.vector_name(tree)
    try:
        if batches:
            golden_batches.check_batches(tree)
        else:
            golden_vectors.check_vector(tree, edition)
    except (Mismatch, WireError) as error:
        return f"{subject}: {error}"
    return None
