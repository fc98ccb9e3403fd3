"""The structure of the code: no import cycles, no crowded folders, no forbidden words, tests where the code is."""

from __future__ import annotations

import pytest

from tools import structure

if not (structure.ROOT / ".git").exists():
    pytest.skip("not a checkout: these tests read the files that git tracks", allow_module_level=True)


def test_modules_do_not_import_each_other_in_a_cycle() -> None:
    assert structure.import_cycles() == []


def test_no_folder_holds_more_modules_than_a_reader_can_scan() -> None:
    assert structure.crowded_folders() == []


def test_no_file_uses_a_forbidden_word() -> None:
    assert structure.forbidden_words() == []


def test_the_folders_of_tests_mirror_the_packages() -> None:
    assert structure.misplaced_tests() == []
