"""What stands on the pages runs: their Python as it is, their commands on a capture, their options in the programs.

`docs/spark.md` has its own test, beside those that have a Spark running.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import kwire
import mockbroker
from kwire.cli.main import main as kwire_command
from tests.support.needs import tool

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/first-test.md",
    "docs/how-to-test-a-client.md",
    "docs/how-to-wait-and-assert.md",
    "docs/faults.md",
    "docs/conformance.md",
    "docs/proxy-and-replay.md",
    "docs/control.md",
    "docs/coming-from.md",
    "docs/how-to-read-a-capture.md",
    "docs/how-to-debug-a-client.md",
    "docs/how-to-analyse-captures-with-spark.md",
    "docs/kwire.md",
    "docs/captures.md",
    "docs/mockbroker.md",
    "docs/kip-932.md",
)
CAPTURES = ROOT / "tests" / "captures"


def _python_blocks() -> list[tuple[str, str]]:
    return [(page, code) for page in PAGES for code in re.findall(r"```python\n(.*?)```", _text(page), re.DOTALL)]


def _commands() -> list[str]:
    """Every line that is a command of `kwire`, without what the page says of it behind.

    The report is left to its own tests, which have a Spark that runs already.
    """
    return _lines(r"kwire (?!report)\w+ ")


def _brokers() -> list[str]:
    """Every line that starts a broker in another edition."""
    return _lines(r"mockbroker .*--share-edition ")


def _lines(pattern: str) -> list[str]:
    lines = [line.strip() for page in PAGES for line in _text(page).splitlines()]
    return sorted({re.split(r"\s{2,}", line)[0] for line in lines if re.match(pattern, line)})


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=170, cwd=cwd, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the captures that the pages name."""
    for name in ("traffic.pcapng", "trace.pcapng"):
        (tmp_path / name).write_bytes((CAPTURES / "small_share.pcap").read_bytes())
    (tmp_path / "tls.pcapng").symlink_to(CAPTURES / "small_tlskey.pcap")
    (tmp_path / "client.keys").symlink_to(CAPTURES / "small_tlskey.keys")
    (tmp_path / "vectors.jsonl.gz").symlink_to(ROOT / "tests" / "golden" / "batches.jsonl.gz")
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures" / "trace.pcap").symlink_to(CAPTURES / "small_share.pcap")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "captures").symlink_to(CAPTURES)
    return tmp_path


def _draft_capture(path: Path) -> None:
    """A heartbeat in the fourth revision of KIP-932, as the page has it captured."""
    edition = "kip932-r4"
    heartbeat = {"groupId": "G1", "memberId": "AAAAAAAAAAAAAAAAAAAAAQ", "memberEpoch": 0, "subscribedTopicNames": []}
    with (
        mockbroker.Cluster(share_edition=edition, capture=path) as cluster,
        kwire.Client(cluster.bootstrap_servers, edition=edition) as client,
    ):
        client.send(kwire.from_json("ShareGroupHeartbeatRequest", 0, heartbeat, edition=edition), 0)


def _is_test(code: str) -> bool:
    return "def test_" in code


def _is_spark(code: str) -> bool:
    return "spark" in code


@pytest.mark.parametrize("page", sorted({page for page, code in _python_blocks() if _is_test(code)}))
def test_the_example_tests_of_a_page_pass(page: str, place: Path) -> None:
    examples = [code for name, code in _python_blocks() if name == page and _is_test(code)]
    for number, code in enumerate(examples):
        (place / f"test_example_{number}.py").write_text(code, encoding="utf-8")

    assert re.search(rf"^{len(examples)} passed", _run("-m", "pytest", "-q", ".", cwd=place), re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "code"), [each for each in _python_blocks() if not _is_test(each[1]) and not _is_spark(each[1])]
)
def test_an_example_runs(page: str, code: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (place / "example.py").write_text(code, encoding="utf-8")

    runpy.run_path("example.py", run_name="__main__")


@pytest.mark.spark
def test_the_spark_examples_run(place: Path) -> None:
    pages = ("docs/how-to-analyse-captures-with-spark.md", "README.md")  # The last one stops the session.
    codes = [code for page in pages for name, code in _python_blocks() if name == page and _is_spark(code)]
    (place / "example.py").write_text("\n".join(codes), encoding="utf-8")

    shown = _run("example.py", cwd=place)

    assert "error_name" in shown
    assert "ShareFetch" in shown


@pytest.mark.parametrize("command", _commands())
def test_a_command_runs(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    edition = re.search(r"--edition (\S+)", command)
    if "draft.pcapng" in command:
        _draft_capture(place / "draft.pcapng")
    with mockbroker.Cluster(share_edition=edition[1] if edition else None) as cluster:
        name, *words = shlex.split(command.replace("127.0.0.1:9092", cluster.bootstrap_servers))
        assert name == "kwire"

        # What is followed has no end of its own.
        words += ["--duration", "300ms"] if "--follow" in words else []

        assert kwire_command(words) == 0, capsys.readouterr().err
    assert capsys.readouterr().out or {"-o", "-Y"} & set(words)


@pytest.mark.parametrize("command", _brokers())
def test_a_broker_of_another_edition_starts(command: str, place: Path) -> None:
    _, *words = shlex.split(command)
    started = subprocess.Popen(
        [sys.executable, "-m", "mockbroker.cli", *words, "--port", "0"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with started:
        assert started.stdout is not None
        first = started.stdout.readline()
        started.terminate()

    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", first)
    assert started.returncode == 0


def test_the_shell_examples_of_the_control_run(place: Path) -> None:
    tool("curl")
    blocks = re.findall(r"```bash\n(.*?)```", _text("docs/control.md"), re.DOTALL)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    started = subprocess.Popen(
        [tool("bash"), "-eu", "-c", "\n".join(blocks)],
        cwd=place,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        shown, _ = started.communicate(timeout=120)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)

    assert len(blocks) >= 7
    assert started.returncode == 0, shown
    assert set(re.findall(r"urn:problem-type:mockbroker:([a-z-]+)", shown)) == {"wait-timeout"}
    assert '"bootstrapServers"' in shown


def test_the_pages_have_commands_and_examples() -> None:
    assert len(_commands()) >= 10
    assert len(_brokers()) >= 2
    assert {page for page, _ in _python_blocks()} == set(PAGES) - {"docs/how-to-debug-a-client.md"}


def test_the_page_of_the_broker_names_the_options_that_there_are() -> None:
    there = set(re.findall(r"--[a-z-]+", _run("-m", "mockbroker.cli", "--help", cwd=ROOT))) - {"--help", "--version"}
    named = set(re.findall(r"--[a-z][a-z-]*", _text("docs/mockbroker.md")))

    assert named ^ there == set()
