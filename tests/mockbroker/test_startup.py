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
    *("mockbroker.control", "starlette", "uvicorn"),
    *("mockbroker.net.capture_tap", "mockbroker.net.tls", "mockbroker.state.security.authorizer"),
    *("xxhash", "zstandard"),
)


def _loaded() -> list[str]:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def test_a_cluster_that_starts_loads_no_codec_no_schema_and_no_handler() -> None:
    loaded = _loaded()

    early = [name for name in loaded if any(name == later or name.startswith(f"{later}.") for later in _LATER)]
    messages = [name for name in loaded if name.startswith("kwire.messages.")]
    handlers = [name for name in loaded if name.startswith("mockbroker.handlers.")]
    assert early == []
    assert messages == ["kwire.messages.index", "kwire.messages.header"]
    assert handlers == []
    assert len([name for name in loaded if name.startswith(("kwire", "mockbroker"))]) < 127
