"""The command line as a whole: exit codes, one line for each failure, and a quick start."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.cli import main as cli
from kwire.cli.usage_error import UsageError
from kwire.errors import MissingExtra, SchemaError, Truncated, UnsupportedVersion
from tests.support.captures.capture_files import CapturedConnection, build_pcap
from tests.support.cli.commands import Capsys

ROOT = Path(__file__).parents[3]


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kwire.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, check=False, timeout=60)


def failing(error: BaseException) -> int:
    def work() -> int:
        raise error

    return cli.run_guarded(work)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (Truncated("M.field", 3, 4, 1), 1, "kwire: M.field at byte 3: needs 4 bytes, but 1 are left"),
        (UnsupportedVersion("M", "has no version 9"), 2, "kwire: M: has no version 9"),
        (SchemaError("M.json", "M", "f", "is wrong"), 1, "kwire: M.json: M.f: is wrong"),
        (MissingExtra("a table", "captures"), 2, "[captures]"),
        (UsageError("HEX: no digits"), 2, "kwire: HEX: no digits"),
        (FileNotFoundError(2, "No such file or directory", "x.pcap"), 2, "kwire: x.pcap: No such file or directory"),
        (ConnectionRefusedError(111, "Connection refused"), 1, "kwire: Connection refused"),
        (TimeoutError("no answer in 3 s"), 1, "kwire: no answer in 3 s"),
        (KeyboardInterrupt(), 130, "kwire: interrupted"),
    ],
)
def test_a_known_error_is_one_line_and_its_exit_code(
    error: BaseException, code: int, line: str, capsys: Capsys
) -> None:
    assert failing(error) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert line in shown.err
    assert shown.err.count("\n") == 1


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError())


def test_hostile_text_in_an_error_stays_on_one_line(capsys: Capsys) -> None:
    failing(FileNotFoundError(2, "No such file or directory", "a\x1b[2J\nkwire: all good"))

    assert capsys.readouterr().err == "kwire: a\\x1b[2J\\nkwire: all good: No such file or directory\n"


def test_help_lists_every_command_and_loads_none_of_them(capsys: Capsys) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in ("decode", "message", "describe", "check", "request", "report") if name not in shown] == []


@pytest.mark.parametrize(("words", "text"), [([], "usage: kwire"), (["decoed"], "invalid choice: 'decoed'")])
def test_a_missing_or_unknown_command_is_a_usage_error(words: list[str], text: str, capsys: Capsys) -> None:
    assert cli.main(words) == 2
    assert text in capsys.readouterr().err


def test_version_is_a_line(capsys: Capsys) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kwire ")


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_has_help(name: str) -> None:
    done = run(name, "--help")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: kwire {name}")


@pytest.mark.parametrize(
    "words",
    [
        ("describe", "--version", "1", "ApiVersionsRequest"),
        ("describe", "ApiVersionsRequest", "--version", "1"),
        ("request", "--bootstrap", "x", "Metadata", "{}", "--version", "1"),
        ("request", "--bootstrap", "x", "Metadata", "--version", "1", "{}"),
        ("request", "Metadata", "--bootstrap", "x", "{}"),
        ("check", "x.jsonl", "--edition", "4.3", "y.jsonl"),
        ("decode", "x.pcap", "--format", "tree", "y.pcap"),
        ("decode", "--", "-x.pcap"),
        ("message", "decode", "ApiVersionsRequest", "1", "--", "-"),
    ],
    ids=" ".join,
)
def test_options_may_be_anywhere_among_the_arguments(words: tuple[str, ...], capsys: Capsys) -> None:
    cli.main(words)

    assert "unrecognized" not in capsys.readouterr().err


def test_an_unknown_option_prints_the_usage_of_the_command(capsys: Capsys) -> None:
    assert cli.main(["describe", "--verson", "1", "ApiVersionsRequest"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("usage: kwire describe")
    assert "unrecognized arguments: --verson" in shown


def test_a_pipe_closed_early_causes_no_traceback() -> None:
    # `describe` writes more than the buffer of a pipe, and the pipe is not read.
    command = [sys.executable, "-m", "kwire.cli.main", "describe"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 141


def test_starting_loads_neither_construct_nor_asyncio_nor_spark() -> None:
    code = (
        "import sys; from kwire.cli.main import main; main(['--help']);"
        "heavy = {'construct', 'asyncio', 'pyspark', 'pyarrow', 'numpy'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)

    assert done.stderr == ""
    assert done.returncode == 0


def test_a_stream_that_is_not_utf_8_gets_escapes_and_no_traceback() -> None:
    env = {"PYTHONIOENCODING": "ascii", "PATH": ""}
    done = run("message", "decode", "MetadataRequest", "1", "0000000100036bc3a4", env=env)

    assert done.returncode == 0, done.stderr
    assert "k\\xe4" in done.stdout


def test_a_command_that_uses_arrow_does_not_import_pandas(tmp_path: Path) -> None:
    capture = tmp_path / "many.pcap"
    connection = CapturedConnection().open()
    for correlation_id in range(700):
        # Metadata v0 without topics, and an answer without brokers and topics.
        request = struct.pack(">hhihi", 3, 0, correlation_id, -1, 0)
        connection.exchange(request, struct.pack(">iii", correlation_id, 0, 0))
    capture.write_bytes(build_pcap(connection.packets))
    program = (
        "import sys; from kwire.cli.main import main; main(); "
        "print(*sorted({'pandas', 'pyarrow'} & sys.modules.keys()), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "decode", str(capture)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)

    assert done.stderr == "pyarrow\n"
    assert done.stdout.count("Metadata v0") == 700
