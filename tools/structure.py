"""`python -m tools.structure`: print import cycles, crowded folders, forbidden words and misplaced tests; exit code 1.

`tests/tidy/test_structure.py` runs the same checks. They read only the files that git tracks: a virtual environment
or a build folder inside the checkout changes nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PACKAGES = ("kwire", "mockbroker", "tools")
GENERATED = ("kwire/messages/", "kwire/records/coordinator/", "kwire/records/metadata/", "kwire/error_codes.py")
FOLDER_FILES_MAX = 25
#: Words that stand for something else than what they name. CONTRIBUTING.md says what to write instead.
FORBIDDEN = re.compile(
    r"(?i)\b(rooms?|houses?|lanes?|weather|letters?|doors?|dearest|tells?|telling|told|whoever|anew)\b"
)
#: Standard terms that contain one of them: dead-letter queues, and a property of CSS.
EXEMPT_LINES = re.compile(r"dead.?letter|letter-spacing", re.IGNORECASE)
TEXT_SUFFIXES = (
    *(".py", ".json", ".md", ".sh", ".cfg", ".toml", ".html", ".css", ".js", ".java", ".go", ".rs", ".yaml"),
    *("Makefile", ".ci/run"),
)


#: Recordings of real brokers.
RECORDED = (".expected.json",)


@cache
def tracked_files() -> tuple[str, ...]:
    """Paths of the files of the checkout, relative to its root. Raises: CalledProcessError outside a checkout."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return tuple(name for name in sorted(set(listed.stdout.splitlines())) if (ROOT / name).is_file())


def handwritten_modules(*folders: str) -> list[str]:
    """Paths of the Python files below these folders that no generator writes."""
    return [
        name
        for name in tracked_files()
        if name.endswith(".py") and name.startswith(tuple(f"{folder}/" for folder in folders))
        if not name.startswith(GENERATED)
    ]


def import_cycles() -> list[str]:
    """Each cycle of imports as `a -> b -> a`; imports for types and imports inside functions count."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {name: set(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
    cycles = []
    while True:
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as error:
            cycle = list(reversed(error.args[1]))
            cycles.append(" -> ".join(cycle))
            imports[cycle[0]].discard(cycle[1])
        else:
            return cycles


def crowded_folders() -> list[str]:
    """Folders with too many handwritten modules, each with its count."""
    counts = Counter(str(Path(name).parent) for name in handwritten_modules(*PACKAGES, "tests"))
    return [f"{folder}: {count} files" for folder, count in sorted(counts.items()) if count > FOLDER_FILES_MAX]


def forbidden_words() -> list[str]:
    """Each forbidden word with its place, in handwritten code, pages and scripts, and in the names of files."""
    here = Path(__file__).relative_to(ROOT).as_posix()
    words_in_names = {name: re.sub(r"[/_.-]", " ", EXEMPT_LINES.sub("", name)) for name in tracked_files()}
    findings = [f"{name}: file name" for name, words in words_in_names.items() if FORBIDDEN.search(words)]
    for name in tracked_files():
        if not name.endswith(TEXT_SUFFIXES) or name.startswith(GENERATED) or name == here or name.endswith(RECORDED):
            continue
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1):
            if EXEMPT_LINES.search(line):
                continue
            # Parts of identifiers count as words.
            findings += [f"{name}:{number}: {word}" for word in FORBIDDEN.findall(line.replace("_", " "))]
    return findings


def misplaced_tests() -> list[str]:
    """Test modules below `tests/kwire` and `tests/mockbroker` whose folder mirrors no package."""
    return [
        name
        for name in handwritten_modules("tests/kwire", "tests/mockbroker", "tests/tools")
        if Path(name).name.startswith("test_") and not (ROOT / Path(name).parent.relative_to("tests")).is_dir()
    ]


def mirrored_modules() -> tuple[int, int]:
    """How many handwritten modules have a test of their own name in the mirrored folder, and how many there are."""
    modules = [name for name in handwritten_modules("kwire", "mockbroker") if not name.endswith("__init__.py")]
    tests = set(tracked_files())
    mirrored = [name for name in modules if f"tests/{Path(name).parent}/test_{Path(name).name}" in tests]
    return len(mirrored), len(modules)


CHECKS = {
    "import cycles": import_cycles,
    "crowded folders": crowded_folders,
    "forbidden words": forbidden_words,
    "tests outside a mirrored folder": misplaced_tests,
}


def main() -> int:
    """Print what each check finds. Exit code: 0 nothing found, 1 otherwise."""
    total = 0
    for title, check in CHECKS.items():
        findings = check()
        total += len(findings)
        print(f"{title}: {len(findings)}")
        for finding in findings:
            print(f"  {finding}")
    mirrored, modules = mirrored_modules()
    print(f"modules with a test of their own: {mirrored} of {modules}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
