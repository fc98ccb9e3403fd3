"""The archive of Spark's classes: where it lies, when it is written, and that a JVM uses it."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.spark.class_archive import ENVIRONMENT_VARIABLE, ClassArchive, find_archive, trim_archives
from kwire.spark.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pyspark = pytest.importorskip("pyspark")

JAVA = Java(Path("/opt/java"), 17, "PATH")


def archive_of(**environ: str) -> ClassArchive:
    found = find_archive(JAVA, environ)
    assert found is not None
    return found


def test_it_lies_in_the_cache_directory_under_a_name_of_its_java_and_spark(tmp_path: Path) -> None:
    first = archive_of(XDG_CACHE_HOME=str(tmp_path))
    other = find_archive(Java(Path("/opt/other"), 17, "PATH"), {"XDG_CACHE_HOME": str(tmp_path)})

    assert first.path.parent == tmp_path / "kwire" / "java"
    assert first == archive_of(XDG_CACHE_HOME=str(tmp_path))
    assert other is not None
    assert other.path != first.path


def test_the_newest_archives_stay_and_what_killed_processes_left_does_not(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"classes-{number}.jsa").touch()
        os.utime(tmp_path / f"classes-{number}.jsa", (number, number))
    (tmp_path / "classes-0.jsa.77").touch()
    os.utime(tmp_path / "classes-0.jsa.77", (1, 1))
    (tmp_path / "classes-0.jsa.78").touch()

    trim_archives(tmp_path)

    assert sorted(file.name for file in tmp_path.iterdir()) == ["classes-0.jsa.78", "classes-2.jsa", "classes-3.jsa"]


def test_a_completed_archive_removes_older_ones_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = archive_of(XDG_CACHE_HOME=str(tmp_path))
    for number in range(2):
        (archive.path.parent / f"classes-{number}.jsa").touch()
        os.utime(archive.path.parent / f"classes-{number}.jsa", (number, number))
    archive.path.with_name(f"{archive.path.name}.{os.getpid()}").touch()

    assert archive.complete()
    assert sorted(file.name for file in archive.path.parent.iterdir()) == sorted([archive.path.name, "classes-1.jsa"])


def test_the_same_spark_installed_again_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM refuses an archive whose jars have other times, and would never get a new one."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "spark" / "__init__.py"))

    before = archive_of(XDG_CACHE_HOME=str(tmp_path))
    os.utime(tmp_path / "spark" / "jars", ns=(1, 1))

    assert archive_of(XDG_CACHE_HOME=str(tmp_path)).path != before.path


def test_the_variable_names_the_file_or_refuses_it(tmp_path: Path) -> None:
    assert archive_of(**{ENVIRONMENT_VARIABLE: str(tmp_path / "a.jsa")}).path == tmp_path / "a.jsa"
    assert find_archive(JAVA, {ENVIRONMENT_VARIABLE: "none"}) is None


def test_it_is_not_written_on_a_ci_machine_unless_it_is_named(tmp_path: Path) -> None:
    assert not archive_of(XDG_CACHE_HOME=str(tmp_path), CI="true").writing_options()
    assert archive_of(**{ENVIRONMENT_VARIABLE: str(tmp_path / "a.jsa"), "CI": "true"}).writing_options()
    assert archive_of(XDG_CACHE_HOME=str(tmp_path)).writing_options()


def test_there_is_none_where_the_cache_directory_cannot_exist(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert find_archive(JAVA, {"XDG_CACHE_HOME": str(tmp_path / "file")}) is None


def test_it_is_complete_only_when_its_jvm_has_written_it(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "a.jsa", is_written=True)

    assert not archive.complete()
    assert not archive.reading_options()
    draft = archive.writing_options().split('"')[1].removeprefix("-XX:ArchiveClassesAtExit=")
    Path(draft).write_bytes(b"classes")
    assert not archive.reading_options()
    assert archive.complete()
    assert archive.path.read_bytes() == b"classes"
    assert f"-XX:SharedArchiveFile={archive.path}" in archive.reading_options()
    assert not archive.writing_options()


@pytest.mark.spark
@pytest.mark.slow
def test_a_second_jvm_takes_classes_of_spark_from_the_archive_of_the_first(tmp_path: Path) -> None:
    from kwire.spark.spark_session import SHORT_JOB_OPTIONS  # Needs PySpark.

    found = find_java()
    archive = find_archive(found, {ENVIRONMENT_VARIABLE: str(tmp_path / "with space.jsa")})
    assert archive is not None

    def run_jvm(options: str, log: str) -> int:
        """Run a small program of Spark. Returns: how many of its classes are from the archive."""
        java = [str(found.home / "bin" / "java"), *shlex.split(SHORT_JOB_OPTIONS)]
        command = [*java, *shlex.split(options), f"-Xlog:class+load:file={tmp_path / log}"]
        jars = Path(pyspark.__file__).parent / "jars"
        program = ["-cp", f"{jars}/*", "org.apache.spark.deploy.SparkSubmit", "--version"]
        completed = subprocess.run([*command, *program], capture_output=True, text=True, timeout=170, check=False)
        assert completed.returncode == 0, completed.stderr
        lines = (tmp_path / log).read_text().splitlines()
        return sum("org.apache.spark." in line and "source: shared objects file (top)" in line for line in lines)

    assert run_jvm(archive.writing_options(), "first.log") == 0
    assert archive.complete()
    assert run_jvm(archive.reading_options(), "second.log") > 20


@pytest.mark.spark
def test_a_session_uses_the_archive_if_there_is_one(spark: SparkSession) -> None:
    archive = find_archive(find_java())

    options = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions") or ""

    assert ("-XX:SharedArchiveFile=" in options) == (archive is not None and archive.path.is_file())
