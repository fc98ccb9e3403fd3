"""Only regular files that are not compressed have an index."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from kwire.capture import index
from tests.support.captures.index_captures import (
    FILES,
)

pytestmark = pytest.mark.slow


def test_compressed_captures_folders_and_pipes_have_no_index(tmp_path: Path) -> None:
    packed, pipe = tmp_path / "packed.pcap.gz", tmp_path / "pipe"
    packed.write_bytes(gzip.compress(FILES[0].read_bytes()))
    os.mkfifo(pipe)

    for path in (packed, tmp_path, pipe):
        with pytest.raises(index.NotIndexed):
            index.build_index(path)
