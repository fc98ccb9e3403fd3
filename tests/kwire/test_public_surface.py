"""Everything that Python code in the documentation imports or uses is public: in the `__all__` of its package."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = {"kwire", "mockbroker"}


def _code_blocks() -> list[tuple[str, str]]:
    """The path of each page, and the text of each of its Python blocks."""
    return [
        (page.relative_to(ROOT).as_posix(), code)
        for page in PAGES
        for code in re.findall(r"^```(?:python|py)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    ]


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Module and name of each `from kwire... import name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in PACKAGES:
            yield from ((node.module, alias.name) for alias in node.names)


def _attributes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Module and name of each `kwire.name` and `kwire.package.name` for the imported modules."""
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            module = ast.unparse(node.value)
            dotted = f"{module}.{node.attr}"
            is_package = any(name == dotted or name.startswith(f"{dotted}.") for name in modules)
            if module in modules and module.partition(".")[0] in PACKAGES and not is_package:
                yield module, node.attr


def _is_public(module_name: str, name: str) -> bool:
    """Whether a package lists the name. The generated modules hold nothing but public classes."""
    module: ModuleType = importlib.import_module(module_name)
    if module_name.startswith(("kwire.messages.", "kwire.records.coordinator.", "kwire.records.metadata.")):
        return hasattr(module, name) and not name.startswith("_")
    return name in getattr(module, "__all__", ())


@pytest.mark.parametrize("page", sorted({page for page, _ in _code_blocks()}))
def test_documentation_uses_public_names_only(page: str) -> None:
    trees = [ast.parse(code) for path, code in _code_blocks() if path == page]
    used = {use for tree in trees for use in (*_imports(tree), *_attributes(tree))}

    assert [f"{module}.{name}" for module, name in sorted(used) if not _is_public(module, name)] == []


def _names_in_text(page: str) -> set[tuple[str, str]]:
    """Module and name of each `kwire.package.name` in backticks that is not a module itself."""
    # Configuration keys such as `mockbroker.cold.coordinators` are not Python names.
    dotted = re.findall(r"`(kwire(?:\.\w+)+|mockbroker\.[A-Z]\w*)", (ROOT / page).read_text("utf-8"))
    names = {(module, name) for module, _, name in (text.rpartition(".") for text in dotted)}
    return {(module, name) for module, name in names if not _is_module(module, name)}


def _is_module(package: str, name: str) -> bool:
    if (package, name) == ("kwire.accelerator", "native"):
        return True  # Without a C compiler it is not built.
    try:
        return importlib.util.find_spec(f"{package}.{name}") is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("page", [page.relative_to(ROOT).as_posix() for page in PAGES])
def test_documentation_names_public_names_only(page: str) -> None:
    names = {name for name in _names_in_text(page) if not name[0].startswith("kwire.messages")}

    assert [f"{module}.{name}" for module, name in sorted(names) if not _is_public(module, name)] == []


@pytest.mark.parametrize(
    "package", ["kwire", "kwire.records", "kwire.client", "kwire.layout", "kwire.capture", "kwire.spark", "mockbroker"]
)
def test_every_public_name_exists(package: str) -> None:
    module = importlib.import_module(package)

    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(set(module.__all__)) == len(module.__all__)
