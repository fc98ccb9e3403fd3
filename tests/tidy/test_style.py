"""The rules of style that a program can check: sizes, docstrings, sleeps, generated files, links, names."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

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


class Function(NamedTuple):
    name: str
    line_count: int
    is_async: bool


class Module(NamedTuple):
    has_docstring: bool
    functions: tuple[Function, ...]


@cache
def _modules() -> dict[str, Module]:
    """What the tests ask of each module; the syntax trees would be millions of objects."""
    return {name: _module(name) for name in handwritten_modules("kwire", "mockbroker", "tools")}


def _module(name: str) -> Module:
    tree = _parse(name)
    functions = [
        Function(node.name, (node.end_lineno or 0) - node.lineno + 1, isinstance(node, ast.AsyncFunctionDef))
        for node in _functions(tree)
    ]
    return Module(bool(ast.get_docstring(tree)), tuple(functions))


def _parse(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text(encoding="utf-8"))


@cache
def _texts() -> dict[str, str]:
    here = Path(__file__).relative_to(ROOT).as_posix()
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in tracked_files()
        if name.endswith(TEXT_SUFFIXES) and name != here
    }


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions below a node, found by its statements: expressions contain none."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, field, ()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node
            yield from _functions(node)


def test_no_handwritten_module_is_too_long() -> None:
    lengths = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines())
        for name in handwritten_modules("kwire", "mockbroker")
    }

    assert {name: length for name, length in lengths.items() if length > MODULE_LINES_MAX} == {}


def test_no_function_is_too_long() -> None:
    long_functions = {
        f"{name}:{function.name}": function.line_count
        for name, module in _modules().items()
        for function in module.functions
        if function.line_count > FUNCTION_LINES_MAX
    }

    assert long_functions == {}


def test_every_module_has_a_docstring() -> None:
    assert [name for name, module in _modules().items() if not module.has_docstring] == []


def test_only_the_network_layer_and_the_entry_points_are_asynchronous() -> None:
    asynchronous = [
        f"{name}:{function.name}"
        for name, module in _modules().items()
        for function in module.functions
        if function.is_async and name.startswith("mockbroker/") and not name.startswith(ASYNC_ALLOWED)
    ]

    assert asynchronous == []


def test_no_test_sleeps() -> None:
    calls = [
        f"{name}:{node.lineno}"
        for name in handwritten_modules("tests")
        if "sleep" in (ROOT / name).read_text(encoding="utf-8")
        for node in ast.walk(_parse(name))
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
