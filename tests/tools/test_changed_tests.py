"""Which tests run for a change: those that mirror the changed module, and those that import it."""

from __future__ import annotations

from tools.changed_tests import affected_tests, module_name


def test_a_module_selects_its_mirrored_test_and_not_those_of_other_parts() -> None:
    tests = affected_tests(["mockbroker/state/storage/segments.py"])

    assert "tests/mockbroker/state/storage/test_segments.py" in tests
    assert not any(test.startswith("tests/kwire") for test in tests)


def test_a_support_module_selects_the_tests_that_use_it() -> None:
    tests = affected_tests(["tests/support/brokers/group_broker.py"])

    assert [test for test in tests if test.startswith("tests/mockbroker/coordinators/group/")]
    assert not any("support" in test for test in tests)


def test_a_page_selects_only_the_tests_that_always_run() -> None:
    assert affected_tests(["README.md"]) == ["tests/tidy"]


def test_a_package_is_named_without_its_init_file() -> None:
    assert module_name("kwire/records/__init__.py") == "kwire.records"
    assert module_name("kwire/records/batch.py") == "kwire.records.batch"
