"""Builds the extension with AddressSanitizer and UndefinedBehaviorSanitizer, and runs a command with that build.

    python -m tests.kwire.accelerator.sanitize [MODULE [ARGUMENT...]]

By default MODULE is tests.kwire.accelerator.differential with `--messages 1000000000 --seconds 1800`: half an hour of
random mutations. The build and a copy of the packages are in a temporary folder; the checkout stays as it is.

Exit codes: that of the command, which is not 0 after a finding; 2 when the compiler has no sanitizers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_FLAGS = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
_BUILT = shutil.ignore_patterns("native.*.so", "__pycache__")
_DEFAULT = ["tests.kwire.accelerator.differential", "--messages", "1000000000", "--seconds", "1800"]


def main(arguments: list[str] | None = None) -> int:
    """Copy, build, and run the command."""
    command = (sys.argv[1:] if arguments is None else arguments) or _DEFAULT
    compiler = os.environ.get("CC", "cc")
    found = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    library = Path(found.stdout.strip())
    if found.returncode or not library.is_absolute():
        print(f"{compiler} has no AddressSanitizer (Debian: apt-get install gcc)", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="kwire-sanitized-") as folder:
        tree = Path(folder)
        ignore = shutil.ignore_patterns("native.*.so", "__pycache__", "captures", "conversations", "foreign")
        for name in ("kwire", "tests", "tools", "schemas"):
            # The folders of tests with data that no fuzzer reads; those of the package stay.
            shutil.copytree(ROOT / name, tree / name, ignore=ignore if name == "tests" else _BUILT)
        for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, tree / name)
        environment = {**os.environ, "PYTHONPATH": folder}
        environment.pop("KWIRE_PURE", None)
        build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        flags = {"CFLAGS": _FLAGS, "LDFLAGS": "-fsanitize=address,undefined"}
        subprocess.run(build, cwd=folder, env=environment | flags, check=True)
        sanitized = environment | {
            "LD_PRELOAD": str(library.resolve()),
            # Python's own allocator would hide what the sanitizer looks for; what lives until the end is no leak.
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        return subprocess.run([sys.executable, "-m", *command], cwd=folder, env=sanitized, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
