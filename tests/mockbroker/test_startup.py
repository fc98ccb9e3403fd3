"""A cluster starts fast because it loads little; what it does load is counted, for time depends on the machine."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
from mockbroker import Cluster
with Cluster():
    print(*sys.modules)
"""

#: Wanted by few clusters, or by none that only starts, and slow to load.
_LATER = (
    *("construct", "cramjam", "cryptography", "kwire.capture", "kwire.layout", "kwire.schema", "lz4", "pyarrow"),
    *("dataclasses", "kwire.records", "mockbroker.state.storage.partition_log"),
    *("mockbroker.control", "starlette", "uvicorn"),
    *("mockbroker.net.capture_tap", "mockbroker.net.tls", "mockbroker.state.security.authorizer"),
    *("xxhash", "zstandard"),
)

#: What the command prints when it starts: the modules that it has loaded when its options are parsed.
_COMMAND = """
import gc, sys
from mockbroker import server
server.Server = lambda options: sys.exit(print(gc.isenabled(), gc.get_freeze_count() > 1000, *sys.modules))
import mockbroker.__main__
sys.argv = ["mockbroker", "--port", "0", "--topic", "orders:2"]
mockbroker.__main__.main()
"""
#: For the methods of `Cluster`, for help and for error messages only.
_NOT_FOR_THE_COMMAND = {"difflib", "mockbroker.cluster", "mockbroker.cluster_methods", "mockbroker.controlled"}


def _loaded(program: str) -> list[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()


def test_a_cluster_that_starts_loads_no_codec_no_schema_and_no_handler() -> None:
    loaded = _loaded(_PROGRAM)

    early = [name for name in loaded if any(name == later or name.startswith(f"{later}.") for later in _LATER)]
    messages = [name for name in loaded if name.startswith("kwire.messages.")]
    handlers = [name for name in loaded if name.startswith("mockbroker.handlers.")]
    assert early == []
    assert messages == ["kwire.messages.index", "kwire.messages.header"]
    assert handlers == []
    assert len([name for name in loaded if name.startswith(("kwire", "mockbroker"))]) < 130


def test_the_command_that_starts_loads_no_method_of_a_cluster_and_collects_no_garbage_of_imports() -> None:
    is_collecting, is_frozen, *loaded = _loaded(_COMMAND)

    assert _NOT_FOR_THE_COMMAND.isdisjoint(loaded)
    assert (is_collecting, is_frozen) == ("True", "True")
    assert len([name for name in loaded if name.startswith(("kwire", "mockbroker"))]) < 122
