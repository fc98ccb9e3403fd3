"""Shrinking: the smallest script for which a check is true."""

from __future__ import annotations

from typing import Any

from tools.oracle.fuzz.shrinking import shrink, smaller_trees


def _script(*names: str, body: Any = None) -> dict[str, Any]:
    return {"steps": [{"api": name, "body": body or {}} for name in names]}


def _names(script: dict[str, Any]) -> list[str]:
    return [step["api"] for step in script["steps"]]


def test_steps_that_are_not_needed_are_removed() -> None:
    script = _script(*"abcdefghijklmnop", "last")

    smallest = shrink(script, lambda candidate: {"c", "k", "last"} <= set(_names(candidate)))

    assert _names(smallest) == ["c", "k", "last"]


def test_rows_and_fields_that_are_not_needed_are_removed() -> None:
    body = {
        "topics": [{"name": "a", "partitions": [1, 2]}, {"name": "b", "partitions": [3]}],
        "force": True,
        "timeoutMs": 5,
    }

    smallest = shrink(_script("last", body=body), lambda candidate: "2" in str(candidate["steps"][-1]["body"]))

    assert smallest["steps"][-1]["body"] == {"topics": [{"partitions": [2]}], "timeoutMs": 5}


def test_a_step_is_removed_together_with_the_waits_after_it() -> None:
    script = {"steps": [{"api": "a"}, {"sleep_ms": 5}, {"api": "b"}, {"api": "c", "until": {}}, {"api": "last"}]}

    smallest = shrink(script, lambda candidate: {"api": "b"} in candidate["steps"])

    assert smallest["steps"] == [{"api": "b"}, {"api": "c", "until": {}}, {"api": "last"}]


def test_the_check_is_called_at_most_so_often() -> None:
    calls = []

    def check(candidate: dict[str, Any]) -> bool:
        calls.append(candidate)
        return False

    script = _script(*"abcdefghijklmnop")

    assert shrink(script, check, checks_max=5) == script
    assert len(calls) == 5


def test_implausible_scripts_are_not_checked() -> None:
    script = _script(*"abcd")

    assert shrink(script, lambda candidate: True, is_plausible=lambda candidate: "a" in _names(candidate)) == _script(
        *"ad"
    )


def test_a_check_cannot_change_the_script() -> None:
    def check(candidate: dict[str, Any]) -> bool:
        candidate["steps"][-1]["body"].clear()
        return True

    smallest = shrink(_script("a", body={"x": [1]}), check)

    assert smallest["steps"][-1]["body"] == {}


def test_smaller_trees_leave_out_one_row_or_field() -> None:
    assert list(smaller_trees({"a": [1, 2], "b": 0})) == [{"b": 0}, {"a": [2], "b": 0}, {"a": [1], "b": 0}]
