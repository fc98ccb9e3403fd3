"""`python -m tools.changed_tests [BASE] [-- PYTEST ARGUMENTS]`: run the tests of what changed since a revision.

A test file runs when it changed, when it mirrors a changed module, or when it imports one, directly or through
other test modules. Changed data files below `tests` select the tests of their folder.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tools.structure import ROOT, handwritten_modules

#: Tests that read the whole project run for every change.
ALWAYS = ("tests/tidy",)


def changed_files(base: str) -> list[str]:
    """Paths that differ from the merge base with `base`, and files that git does not track yet."""
    ancestor = _git("merge-base", base, "HEAD")[0]
    return sorted({*_git("diff", "--name-only", ancestor), *_git("ls-files", "--others", "--exclude-standard")})


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def module_name(path: str) -> str:
    """The dotted name of a Python file: `kwire/records/batch.py` is `kwire.records.batch`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def imported_modules(path: str) -> set[str]:
    """Names that a file imports, with each `from a import b` as both `a` and `a.b`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def affected_tests(changed: Iterable[str]) -> list[str]:
    """Test files and folders to run for these changed paths, in order."""
    changed = set(changed)
    test_files = handwritten_modules("tests")
    imports = {path: imported_modules(path) for path in test_files}
    modules = {module_name(path) for path in changed if path.endswith(".py")}
    selected = {path for path in test_files if path in changed}
    grew = True
    while grew:
        affected = {path for path in test_files if path not in selected and imports[path] & modules}
        grew = bool(affected)
        selected |= affected
        modules |= {module_name(path) for path in affected if not Path(path).name.startswith("test_")}
    mirrors = {f"tests/{Path(path).parent}/test_{Path(path).name}" for path in changed}
    selected |= mirrors & set(test_files)
    data = [path for path in changed if path.startswith("tests/") and not path.endswith((".py", ".md"))]
    data_folders = {folder for folder in map(os.path.dirname, data) if (ROOT / folder).is_dir()}
    return sorted(data_folders.union(ALWAYS, (path for path in selected if Path(path).name.startswith("test_"))))


def main(arguments: list[str] | None = None) -> int:
    """Run pytest on the affected tests and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    cut = words.index("--") if "--" in words else len(words)
    if cut > 1:
        print(f"one revision is expected, not {words[:cut]}", file=sys.stderr)
        return 2
    tests = affected_tests(changed_files(words[0] if cut else "main"))
    print(f"{len(tests)} test files and folders: {' '.join(tests)}")
    return subprocess.run([sys.executable, "-m", "pytest", *words[cut + 1 :], *tests], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
