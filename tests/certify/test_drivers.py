"""The drivers of `examples/drivers`: each builds, passes `certify --check-driver`, and plays cases with its client."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.examples.projects import EXAMPLES, find_cargo, run_command
from tests.support import needs

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(900)]

_DRIVERS = EXAMPLES / "drivers"
_BUILD_S = 600
_BUILT = Path.home() / ".cache" / "kwire-drivers-rust"
_ANSWER_LOST = "producing.idempotence.answer-lost"
_ABORTED = "fetching.isolation.aborted-records"
_COMMIT_ON_CLOSE = "groups.classic.commit-on-close"
_FENCED_EPOCH = "groups.consumer.fenced-epoch"
_RELEASE = "share.acknowledge.release"


class Driver(NamedTuple):
    """A driver.

    build: makes it in a copy of its folder, and returns its command; missing: cases that its client cannot play;
    limits: steps of `--check-driver` that fail because the client cannot do them, as its README says.
    """

    build: Callable[[Path], list[str]]
    missing: frozenset[str] = frozenset()
    limits: tuple[str, ...] = ()


def _build_java(folder: Path) -> list[str]:
    needs.tool("javac")
    run_command([needs.tool("mvn"), "-B", "-ntp", "package"], folder, timeout_s=_BUILD_S)
    return [needs.tool("java"), "-XX:TieredStopAtLevel=1", "-jar", str(folder / "target" / "driver.jar")]


def _build_go(folder: Path) -> list[str]:
    run_command([needs.tool("go"), "build", "-o", "driver", "."], folder, timeout_s=_BUILD_S)
    return [str(folder / "driver")]


def _build_node(folder: Path) -> list[str]:
    install = [needs.tool("npm"), "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"]
    run_command(install, folder, timeout_s=_BUILD_S)
    return [needs.tool("node"), str(folder / "driver.js")]


def _build_rust(folder: Path) -> list[str]:
    """Its dependencies are kept after they were built: librdkafka takes minutes, and is built only on request."""
    if not _BUILT.is_dir() and not os.environ.get("KWIRE_BUILD_RUST_DRIVER"):
        pytest.skip("building librdkafka takes minutes; KWIRE_BUILD_RUST_DRIVER=1 builds it")
    run_command([find_cargo(), "build", "--locked"], folder, timeout_s=_BUILD_S, env={"CARGO_TARGET_DIR": str(_BUILT)})
    return [str(_BUILT / "debug" / "driver")]


def _use_python(folder: Path) -> list[str]:
    return [sys.executable, str(folder / "driver.py")]


_SHARE = frozenset({_RELEASE})
_NEW_PROTOCOLS = frozenset({_FENCED_EPOCH, _RELEASE})
DRIVERS = {
    "aiokafka": Driver(_use_python, _NEW_PROTOCOLS, ("send_offsets", "commit, commit_async", "subscribe, assignment")),
    "franz-go": Driver(_build_go, limits=("send_offsets",)),
    "java": Driver(_build_java),
    "kafkajs": Driver(_build_node, _NEW_PROTOCOLS | {_ABORTED}, ("send_offsets", "commit, commit_async")),
    "rust": Driver(_build_rust, _SHARE, ("commit, commit_async",)),
    "sarama": Driver(_build_go, _NEW_PROTOCOLS),
}


def _certify(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mockbroker.cli", "certify", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def _check(command: str) -> list[str]:
    """The steps of `--check-driver` that are wrong."""
    done = _certify("--check-driver", "--driver", command)
    wrong = [line.removeprefix("WRONG").strip() for line in done.stdout.splitlines() if line.startswith("WRONG")]
    assert wrong or done.returncode == 0, done.stdout + done.stderr
    return wrong


@pytest.mark.parametrize("name", DRIVERS)
def test_the_driver_builds_and_plays_the_cases_that_its_client_can(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name  # The tools write into the project.
    shutil.copytree(_DRIVERS / name, folder, ignore=shutil.ignore_patterns("node_modules", "target"))
    command = shlex.join(DRIVERS[name].build(folder))
    cases = (_ANSWER_LOST, _ABORTED, _COMMIT_ON_CLOSE, _FENCED_EPOCH, _RELEASE)

    wrong = _check(command)
    chosen = [argument for case in cases for argument in ("--cases", case)]
    output = tmp_path / "certify-out"
    played = _certify("--driver", command, *chosen, "--jobs", "1", "-o", str(output))

    assert [step for step in wrong if not step.startswith(DRIVERS[name].limits or ("no limits",))] == []
    assert played.returncode == 0, played.stdout + played.stderr
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))["results"]
    missing = DRIVERS[name].missing
    assert {result["case"]: result["verdict"] for result in results} == {
        case: "UNIMPLEMENTED" if case in missing else "OK" for case in cases
    }


@pytest.mark.parametrize("name", DRIVERS)
def test_the_readme_of_the_driver_shows_its_command(name: str) -> None:
    text = (_DRIVERS / name / "README.md").read_text(encoding="utf-8")

    assert "mockbroker certify --driver" in text
    assert "cannot do" in text


def test_lock_files_name_no_registry() -> None:
    locks = [*_DRIVERS.glob("*/package-lock.json"), *_DRIVERS.glob("*/Cargo.lock")]

    assert locks
    assert [lock for lock in locks if '"resolved"' in lock.read_text(encoding="utf-8")] == []
