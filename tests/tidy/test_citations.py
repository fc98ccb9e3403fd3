"""What code and documentation cite exists: rules of share groups, files, sections of pages."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("kwire", "mockbroker", "tests", "tools", "docs")
RULES_PAGE = "docs/share-groups.md"
_RULES = re.compile(r"share-semantics((?:(?:,| and| to)? \d{1,2}(?:\.\d{1,2})?)+)")
_NUMBER = re.compile(r"\d{1,2}(?:\.\d{1,2})?")
_PATH = re.compile(r"(?<![\w./-])((?:docs|tests|tools|schemas)/[\w./-]*\w)(?:#([\w.-]+))?")
_LINK = re.compile(r"\]\(([^)#:\s]*)#([\w.-]+)\)")
_PAGE_LINK = re.compile(r"\]\(([^)#:\s]+\.md)(?:#[\w.-]+)?\)")
#: Placeholders such as NAME.json, and prefixes of several names.
_PLACEHOLDER = re.compile(r"NAME|_$")
#: Citations of documents that are not part of the project.
_UNPUBLISHED = re.compile(r"\b(?:law \d|corrections? \d|pages? 00\d)", re.IGNORECASE)
GENERATED = ("kwire/messages/", "kwire/records/coordinator/", "kwire/records/metadata/")


@cache
def _texts() -> dict[str, str]:
    """The tracked Python files and pages by path."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    names = listed or [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file()]
    return {
        name: (ROOT / name).read_text("utf-8")
        for name in names
        if name.endswith((".py", ".md")) and (name.startswith(FOLDERS) or "/" not in name) and (ROOT / name).exists()
    }


def _anchors(page: str) -> set[str]:
    """The anchors of a page: those of its headings, as GitHub forms them, and explicit ones."""
    text = _texts()[page]
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"<[^>]*>|[`*]|\]\([^)]*\)|\[", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain} | set(
        re.findall(r'<a id="([^"]+)">', text)
    )


def _cited_paths() -> Iterator[tuple[str, str, str]]:
    """The citing file, the cited path and the cited anchor, if there is one."""
    for name, text in _texts().items():
        if not name.startswith(GENERATED):
            found = ((path, anchor) for path, anchor in _PATH.findall(text) if not _PLACEHOLDER.search(path))
            yield from ((name, path, anchor) for path, anchor in found)


def test_every_cited_rule_of_share_groups_is_on_the_page() -> None:
    cited = {
        (name, number)
        for name, text in _texts().items()
        for numbers in _RULES.findall(re.sub(r"\n\s*(#:? )?", " ", text))
        for number in _NUMBER.findall(numbers)
    }
    anchors = _anchors(RULES_PAGE)

    assert len(cited) > 50
    assert sorted(f"{name}: {number}" for name, number in cited if f"rule-{number}" not in anchors) == []


def test_every_cited_file_exists() -> None:
    missing = {f"{name}: {path}" for name, path, _ in _cited_paths() if not (ROOT / path).exists()}

    assert sorted(missing) == []


def test_every_cited_section_exists() -> None:
    cited = {(name, path, anchor) for name, path, anchor in _cited_paths() if anchor and path in _texts()}
    for name, text in _texts().items():
        if name.endswith(".md"):
            for target, anchor in _LINK.findall(text):
                path = (ROOT / name).parent / target if target else ROOT / name
                cited.add((name, path.resolve().relative_to(ROOT).as_posix(), anchor))

    missing = {f"{name}: {path}#{anchor}" for name, path, anchor in cited if anchor not in _anchors(path)}
    assert sorted(missing) == []


def test_a_page_that_the_site_includes_links_only_to_pages_of_the_site() -> None:
    included = re.findall(r"\{include\} \.\./(\S+\.md)", "\n".join(_texts().values()))
    links = [(name, target) for name in included for target in _PAGE_LINK.findall(_texts()[name])]

    assert len(included) > 1
    assert len(links) > 10
    assert [f"{name}: {target}" for name, target in links if not target.startswith("docs/")] == []


def test_no_unpublished_document_is_cited() -> None:
    assert sorted(name for name, text in _texts().items() if _UNPUBLISHED.search(text)) == []
