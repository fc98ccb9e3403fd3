"""Running Kafka's own command-line tools, from the jars of the release, as processes with a time limit."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import needs
from tools.oracle.jars import KAFKA_VERSIONS, TOOLS_VERSION, fetch_clients_jar, fetch_jars

if TYPE_CHECKING:
    from mockbroker import Cluster
    from mockbroker.server import Server

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_FORMATTERS = "org.apache.kafka.tools.consumer."
_TIMEOUT_S = 90
_TOOL_SHELL = Path(__file__).parent / "java" / "ToolShell.java"


class ToolShell:
    """One virtual machine that runs tools one after another, so that it starts only once."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Run the main class of a tool. Returns: its standard output. A tool that fails fails the test."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(_TIMEOUT_S, self._process.kill)
        timer.start()
        try:
            print(stdin.replace("\n", "\1"), tool, *arguments, sep="\t", file=self._process.stdin, flush=True)
            return self._read_output(tool, self._process.stdout)
        finally:
            timer.cancel()

    def run_steps(self, steps: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Run commands one after another. Returns: the lines of each step, with single spaces."""
        texts = {name: self.run(*command) for name, command in steps.items()}
        return {name: [" ".join(line.split()) for line in text.splitlines()] for name, text in texts.items()}

    def _read_output(self, tool: str, stdout: Iterable[str]) -> str:
        output: list[str] = []
        for line in stdout:
            if line.startswith("\0"):
                text = "".join(output).strip()
                assert line == "\x000\n", f"{tool} ended with {line[1:].strip()}:\n{text}"
                return text
            output.append(line)
        raise AssertionError(f"the virtual machine ended within {tool}:\n{''.join(output)}")

    def read_topic(self, cluster: Cluster, topic: str, formatter: str) -> list[dict[str, Any]]:
        """Read all records of an internal topic, as one of Kafka's formatters prints them; by partition, in order."""
        rows: list[dict[str, Any]] = []
        for partition, count in cluster.run(lambda server: _record_counts(server, topic)).items():
            output = self.run(
                CONSOLE_CONSUMER,
                *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--partition", str(partition)),
                *("--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "30000"),
                *("--formatter", _FORMATTERS + formatter),
            )
            # The formatter prints nothing between two records.
            rows += json.loads(f"[{output.replace('}{', '},{')}]")
        return rows


def _record_counts(server: Server, topic_name: str) -> dict[int, int]:
    """The number of records that a consumer gets from each partition that is not empty."""
    state = server.core.state
    topic, store = state.metadata.topic(topic_name), state.log_store
    assert topic is not None
    assert store is not None
    counts: dict[int, int] = {}
    for partition in topic.partitions:
        log = store.open_log(topic, partition.index)
        batches = [batch for batch in log.batches_below(log.end_offset) if not batch.header().is_control]
        counts[partition.index] = sum(len(batch.records()) for batch in batches)
    return {index: count for index, count in counts.items() if count}


@contextmanager
def tool_shell() -> Iterator[ToolShell]:
    """A virtual machine for tools, which is killed when a tool exceeds the time limit."""
    needs.tool("javac")  # A runtime alone does not run a source file.
    classes = f"{fetch_jars(TOOLS_VERSION, maven=needs.tool('mvn'))}/*"
    command = [needs.tool("java"), "-XX:TieredStopAtLevel=1", "-cp", classes, str(_TOOL_SHELL)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TZ": "UTC"},
    )
    with process:
        yield ToolShell(process)


def run_program(
    program: Path, *arguments: str, more_jars: Sequence[Path] = (), class_path: Sequence[Path] | None = None
) -> str:
    """Run a Java source file. Returns: its standard output. A program that fails fails the test.

    more_jars: in addition to those of the release. class_path: jars instead of those of the release.
    """
    needs.tool("javac")  # A runtime alone does not run a source file.
    if class_path is None:
        class_path = (fetch_jars(TOOLS_VERSION, maven=needs.tool("mvn")) / "*", *more_jars)
    command = [needs.tool("java"), "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, class_path)), str(program)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{program.name} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def clients_of_release(release: str) -> list[Path]:
    """The class path of Kafka's clients of a release, and of the libraries that they use."""
    maven = needs.tool("mvn")
    libraries = (jar for jar in fetch_jars(TOOLS_VERSION, maven=maven).glob("*.jar") if "kafka" not in jar.name)
    return [fetch_clients_jar(KAFKA_VERSIONS[release], maven=maven), *sorted(libraries)]
