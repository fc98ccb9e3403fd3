"""The archive of Spark's classes: where it lies, when it is written, and that a JVM uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.spark.class_archive import ENVIRONMENT_VARIABLE, ClassArchive, find_archive
from kwire.spark.java import Java

JAVA = Java(Path("/opt/java"), 17, "PATH")

# Two sessions: the first one writes the archive, the second one logs where its classes come from.
RUN_A_SESSION = """
import sys
from kwire.spark import class_archive, java, spark_session
archive = class_archive.find_archive(java.find_java())
log = f"-Xlog:class+load:file={sys.argv[1]}"
spark = spark_session.session("local[1]", is_short=True, java_options=f"{archive.writing_options()} {log}")
assert spark.range(10).count() == 10
spark_session.end(spark)
print(archive.complete())
"""


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
def test_the_second_session_takes_classes_of_spark_from_the_archive_of_the_first(tmp_path: Path) -> None:
    def run_session(log: Path) -> str:
        command = [sys.executable, "-c", RUN_A_SESSION, str(log)]
        environ = {**os.environ, ENVIRONMENT_VARIABLE: str(tmp_path / "with space.jsa")}
        completed = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=170, check=False)
        assert completed.returncode == 0, completed.stderr
        return completed.stdout.strip()

    def archived_classes(log: Path) -> int:
        lines = log.read_text().splitlines()
        return sum("org.apache.spark." in line and "source: shared objects file (top)" in line for line in lines)

    assert run_session(tmp_path / "first.log") == "True"
    assert run_session(tmp_path / "second.log") == "False"

    assert archived_classes(tmp_path / "first.log") == 0
    assert archived_classes(tmp_path / "second.log") > 1_000
