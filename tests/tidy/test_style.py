"""The rules of style that a program can check: sizes, docstrings, sleeps, generated files, links, names."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.structure import GENERATED, ROOT, handwritten_modules, tracked_files

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
#: The modules that may wait: the network layer and the entry points around it.
ASYNC_ALLOWED = (
    "mockbroker/net/",
    "mockbroker/control/",
    "mockbroker/proxy/",
    "mockbroker/server.py",
    "mockbroker/cluster.py",
    "mockbroker/cluster_methods/",
    "mockbroker/cli.py",
)
TEXT_SUFFIXES = (".py", ".md", ".cfg", ".toml", ".sh", ".json", ".html", ".yaml", ".java", ".go", ".js", ".rs")

if not (ROOT / ".git").exists():
    pytest.skip("not a checkout: these tests read the files that git tracks", allow_module_level=True)


@cache
def _syntax_trees(*folders: str) -> dict[str, ast.Module]:
    return {name: ast.parse((ROOT / name).read_text(encoding="utf-8")) for name in handwritten_modules(*folders)}


@cache
def _texts() -> dict[str, str]:
    here = Path(__file__).relative_to(ROOT).as_posix()
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in tracked_files()
        if name.endswith(TEXT_SUFFIXES) and name != here
    }


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_no_handwritten_module_is_too_long() -> None:
    lengths = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines())
        for name in handwritten_modules("kwire", "mockbroker")
    }

    assert {name: length for name, length in lengths.items() if length > MODULE_LINES_MAX} == {}


def test_no_function_is_too_long() -> None:
    long_functions = {
        f"{name}:{function.name}": length
        for name, tree in _syntax_trees("kwire", "mockbroker", "tools").items()
        for function in _functions(tree)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    }

    assert long_functions == {}


def test_every_module_has_a_docstring() -> None:
    trees = _syntax_trees("kwire", "mockbroker", "tools")

    assert [name for name, tree in trees.items() if not ast.get_docstring(tree)] == []


def test_only_the_network_layer_and_the_entry_points_are_asynchronous() -> None:
    asynchronous = [
        f"{name}:{function.name}"
        for name, tree in _syntax_trees("mockbroker").items()
        for function in _functions(tree)
        if isinstance(function, ast.AsyncFunctionDef) and not name.startswith(ASYNC_ALLOWED)
    ]

    assert asynchronous == []


def test_no_test_sleeps() -> None:
    calls = [
        f"{name}:{node.lineno}"
        for name, tree in _syntax_trees("tests").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep", "asyncio.sleep")
    ]

    assert calls == []


def test_generated_files_have_a_notice_on_their_first_line() -> None:
    files = [name for name in tracked_files() if name.startswith(GENERATED) and name.endswith(".py")]

    assert files
    assert [name for name in files if "generated" not in _texts()[name].split("\n", 1)[0].lower()] == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_place_that_a_page_for_contributors_names_exists(page: str) -> None:
    places = set(re.findall(r"`((?:kwire|mockbroker|schemas|tools|tests|docs)/[\w./-]+)`", _texts()[page]))

    assert places
    assert sorted(place for place in places if not (ROOT / place).exists()) == []


def test_the_architecture_page_fits_on_two_screens() -> None:
    assert len(_texts()["ARCHITECTURE.md"].splitlines()) <= 100


def test_every_page_that_a_page_links_to_exists() -> None:
    broken = [
        f"{name}: {target}"
        for name, text in _texts().items()
        if name.endswith(".md")
        for target in re.findall(r"\]\(([^)#:]+)\)", text)
        if not ((ROOT / name).parent / target).exists()
    ]

    assert broken == []


@pytest.mark.parametrize("pattern", [r"/work/", r"\.\./shared", r"/root/", r"\bTODO\b", r"\bFIXME\b"])
def test_no_file_names_the_machine_or_unfinished_work(pattern: str) -> None:
    assert _texts()
    assert sorted(name for name, text in _texts().items() if re.search(pattern, text)) == []


def test_no_ignored_file_is_tracked() -> None:
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )

    assert done.stdout.splitlines() == []
