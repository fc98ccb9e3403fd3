"""Style that is not tested drifts: what a machine can check of the house's rules."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = ("kwire/messages/", "kwire/records/coordinator/", "kwire/error_codes.py")
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
LEFT_BY_TOOLS = ("build", "dist", "demo", "out", "libs", "spark-warehouse")
#: Where waiting is allowed: the network shell and the entry points around it.
ASYNC_ALLOWED = (
    "mockbroker/net/",
    "mockbroker/web/",
    "mockbroker/server.py",
    "mockbroker/cluster.py",
    "mockbroker/cli.py",
)


def _sources(*folders: str) -> dict[str, ast.Module]:
    """Path below the checkout -> syntax tree, of handwritten Python."""
    return {name: tree for folder in folders for name, tree in _parsed(folder).items()}


@cache
def _parsed(folder: str) -> dict[str, ast.Module]:
    found = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(GENERATED) and "_schemas" not in name:
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def _texts() -> dict[str, str]:
    """Path below the checkout -> text, of all that is written by hand or generated, but for what tools left there."""
    found = {}
    for folder, below, files in os.walk(ROOT):
        left = LEFT_BY_TOOLS if Path(folder) == ROOT else ()
        below[:] = [name for name in below if not name.startswith(".") and name not in left]
        for path in (Path(folder) / name for name in files):
            if path.suffix in (".py", ".md", ".cfg", ".toml", ".sh", ".json", ".html") and path != Path(__file__):
                found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    return found


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_handwritten_module_is_longer_than_it_may_be() -> None:
    lines = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in _sources("kwire", "mockbroker")
    }

    assert {name: count for name, count in lines.items() if count > MODULE_LINES_MAX} == {}


def test_no_function_is_longer_than_it_may_be() -> None:
    long = {
        f"{name}:{function.name}": length
        for name, tree in _sources("kwire", "mockbroker", "tools").items()
        for function in _functions(tree)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    }

    assert long == {}


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, tree in _sources("kwire", "mockbroker", "tools").items() if not ast.get_docstring(tree)]

    assert silent == []


def test_only_the_edge_waits() -> None:
    waiting = [
        f"{name}:{function.name}"
        for name, tree in _sources("mockbroker").items()
        for function in _functions(tree)
        if isinstance(function, ast.AsyncFunctionDef) and not name.startswith(ASYNC_ALLOWED)
    ]

    assert waiting == []


def test_no_test_sleeps() -> None:
    sleeping = [
        f"{name}:{node.lineno}"
        for name, tree in _sources("tests").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep", "asyncio.sleep")
    ]

    assert sleeping == []


def test_generated_files_say_so_on_their_first_line() -> None:
    files = [
        path
        for place in GENERATED
        for path in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
    ]

    assert files
    assert [path.name for path in files if "generated" not in path.read_text("utf-8").split("\n", 1)[0].lower()] == []


def test_every_place_that_the_architecture_page_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:kwire|mockbroker|schemas|tools|tests|docs)/[\w./-]+)`", text))

    assert named
    assert sorted(place for place in named if not (ROOT / place).exists()) == []


def test_every_page_that_a_page_links_to_exists() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]

    assert broken == []


@pytest.mark.parametrize("pattern", [r"/work/", r"\.\./shared", r"/root/", r"\bTODO\b", r"\bFIXME\b"])
def test_the_project_speaks_of_itself_alone(pattern: str) -> None:
    places = sorted(name for name, text in _texts().items() if re.search(pattern, text))

    assert _texts()
    assert places == []


def test_nothing_is_kept_that_is_made_again() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: there is no git to ask")
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )

    assert done.stdout.splitlines() == []
