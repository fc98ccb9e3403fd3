"""The workflows of `examples/ci`: what they are made of, and the options that they use."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.examples.projects import EXAMPLES


def _workflow(name: str) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load((EXAMPLES / "ci" / name).read_text(encoding="utf-8"))
    return loaded


def _github_commands() -> list[str]:
    jobs = _workflow("github-actions.yaml")["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def _gitlab_commands() -> list[str]:
    return [command for job in _workflow("gitlab-ci.yaml").values() for command in job["script"]]


def test_the_steps_of_github_actions_run_or_use_something() -> None:
    workflow = _workflow("github-actions.yaml")

    assert {"on", True} & set(workflow)  # YAML 1.1 reads `on` as true.
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert [step for step in job["steps"] if len({"run", "uses"} & set(step)) != 1] == []


def test_the_jobs_of_gitlab_have_an_image_and_a_script() -> None:
    jobs = _workflow("gitlab-ci.yaml")

    assert [name for name, job in jobs.items() if not {"image", "script"} <= set(job)] == []


@pytest.mark.parametrize("commands", [_github_commands(), _gitlab_commands()])
def test_the_traffic_of_failed_tests_is_kept_where_pytest_writes_it(
    commands: list[str], request: pytest.FixtureRequest
) -> None:
    (words,) = [command.split() for command in commands if command.startswith("pytest ")]
    folder = words[words.index("--kafka-artifacts") + 1]

    assert request.config.getoption("--kafka-artifacts", default="no such option") != "no such option"
    kept = [_workflow("gitlab-ci.yaml")["pytest"]["artifacts"]["paths"][0]]
    kept += [step["with"]["path"] for step in _workflow("github-actions.yaml")["jobs"]["pytest"]["steps"][-1:]]
    assert kept == [folder, folder]
