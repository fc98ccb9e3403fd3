"""`Containerfile` and the compose example, without containers: their options, files and commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mockbroker import Cluster, cli
from tests.examples.projects import EXAMPLES

ROOT = EXAMPLES.parent
COMPOSE = EXAMPLES / "compose" / "compose.yaml"


def _instructions(path: Path) -> list[tuple[str, str]]:
    """The instructions of a Containerfile with their arguments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def _one(name: str) -> str:
    (found,) = [rest for word, rest in _instructions(ROOT / "Containerfile") if word == name]
    return found


def _services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return services


def _broker_words() -> list[str]:
    """The options of the service `kafka`: those of the image, and its own."""
    program, *words = json.loads(_one("ENTRYPOINT"))
    assert Path(program).name == "mockbroker"
    return [*words, *_services()["kafka"]["command"]]


def test_the_options_of_the_image_and_of_the_service_are_those_of_the_command() -> None:
    parsed = cli._create_parser().parse_args(_broker_words())

    assert (parsed.host, parsed.port, parsed.control) == ("0.0.0.0", 9092, "0.0.0.0:9090")
    assert parsed.advertised == _services()["shop"]["environment"]["BOOTSTRAP_SERVERS"] == "kafka:9092"
    assert _one("EXPOSE").split() == ["9092", "9090"]
    assert _one("USER") != "root"


def test_the_image_is_built_from_all_that_the_distribution_needs() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    included = [line[1:] for line in ignored if line.startswith("!")]

    assert "*" in ignored
    assert [name for name in included if not (ROOT / name).exists()] == []
    needed = {"kwire", "mockbroker", "schemas", "setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"}
    assert needed <= set(included)


def test_the_contexts_and_files_of_the_services_exist() -> None:
    for service in _services().values():
        context = COMPOSE.parent / service["build"]["context"]
        file = context / service["build"]["dockerfile"]
        copied = [rest.split()[0] for word, rest in _instructions(file) if word == "COPY" and "--from" not in rest]

        assert copied
        assert [name for name in copied if not (context / name).exists()] == []
    assert _services()["shop"]["depends_on"]["kafka"]["condition"] == "service_healthy"


@pytest.mark.client
def test_the_health_check_and_the_application_succeed_with_a_cluster() -> None:
    token = _services()["kafka"]["environment"]["MOCKBROKER_CONTROL_TOKEN"]
    _, check, code = json.loads(_one("HEALTHCHECK").partition("CMD ")[2])
    shop = EXAMPLES / "compose" / "shop" / "shop.py"
    with Cluster(control=0, control_token=token, topics={"orders": 1}, profile="quick") as cluster:
        environment = {
            **os.environ,
            "MOCKBROKER_CONTROL_TOKEN": token,
            "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
            "CONTROL_URL": str(cluster.control_url),
        }
        code_here = code.replace("http://127.0.0.1:9090", str(cluster.control_url))
        _run([check, code_here], environment)
        written = _run([str(shop)], environment)

    assert code_here != code
    assert "sent again" in written


def _run(words: list[str], environment: dict[str, str]) -> str:
    command = [sys.executable, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
