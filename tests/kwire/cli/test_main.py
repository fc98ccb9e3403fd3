"""The command line as a whole: exit codes, one line for each failure, and a quick start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kwire.cli import main as cli
from kwire.cli.wrong_use import WrongUseError
from kwire.errors import MissingExtra, SchemaError, Truncated, UnsupportedVersion

ROOT = Path(__file__).parents[3]


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kwire.cli.main", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)


def failing(error: BaseException) -> int:
    def work() -> int:
        raise error

    return cli.guarded(work)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (Truncated("M.field", 3, 4, 1), 1, "kwire: M.field at byte 3: needs 4 bytes, but 1 are left"),
        (UnsupportedVersion("M", "has no version 9"), 2, "kwire: M: has no version 9"),
        (SchemaError("M.json", "M", "f", "is wrong"), 1, "kwire: M.json: M.f: is wrong"),
        (MissingExtra("Arrow", "arrow"), 2, "pip install 'kwire[arrow]'"),
        (WrongUseError("HEX: no digits"), 2, "kwire: HEX: no digits"),
        (FileNotFoundError(2, "No such file or directory", "x.pcap"), 2, "kwire: x.pcap: No such file or directory"),
        (ConnectionRefusedError(111, "Connection refused"), 1, "kwire: Connection refused"),
        (TimeoutError("no answer in 3 s"), 1, "kwire: no answer in 3 s"),
        (KeyboardInterrupt(), 130, "kwire: interrupted"),
    ],
)
def test_a_failure_with_a_name_is_one_line_and_its_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing(error) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert line in shown.err
    assert shown.err.count("\n") == 1


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError())


def test_hostile_text_in_a_failure_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    failing(FileNotFoundError(2, "No such file or directory", "a\x1b[2J\nkwire: all good"))

    assert capsys.readouterr().err == "kwire: a\\x1b[2J\\nkwire: all good: No such file or directory\n"


def test_help_lists_every_command_and_loads_none_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in ("decode", "message", "describe", "check", "request", "report") if name not in shown] == []


def test_no_command_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "usage: kwire" in capsys.readouterr().err


def test_an_unknown_command_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["decoed"]) == 2
    assert "invalid choice: 'decoed'" in capsys.readouterr().err


def test_version_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kwire ")


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
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
def test_options_may_stand_anywhere_among_the_words(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(words)

    assert "unrecognized" not in capsys.readouterr().err


def test_a_wrong_option_shows_how_its_command_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["describe", "--verson", "1", "ApiVersionsRequest"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("usage: kwire describe")
    assert "unrecognized arguments: --verson" in shown


def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    # `describe` writes more than a pipe takes, and nobody reads it.
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
    command = [sys.executable, "-m", "kwire.cli.main", "message", "decode", "MetadataRequest", "1", "0000000100026bc3"]
    env = {"PYTHONIOENCODING": "ascii", "PATH": ""}
    done = subprocess.run(
        [*command[:-1], "0000000100036bc3a4"], capture_output=True, text=True, cwd=ROOT, env=env, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "k\\xe4" in done.stdout
