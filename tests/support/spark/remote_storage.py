"""Storage that only Spark can access: a real HDFS, and files with unusual names."""

from __future__ import annotations

import gzip
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import zstandard

from tests.support import needs

CAPTURES = Path(__file__).parents[2] / "captures"
SHARE = CAPTURES / "small_share.pcap"
# The environment variable with the URL of an empty folder on another storage, to run the tests there.
PLACE = "KWIRE_TESTS_PLACE"
# A key of that storage, which must not be printed.
SECRET = "hunter2-and-more"
JARS = Path(pyspark.__file__).with_name("jars")
_HERE = Path(__file__).parent
_PATIENCE_S = 120

# The content of each file by its name below the folder; None for files that are no captures.
NAMES: dict[str, str | None] = {
    "plain.pcap": "",
    "two words.pcap": "",
    "100%25.pcap": "",
    "größe.pcap": "",
    "one#two?three.pcapng": "",
    "packed.pcap.gz": "gzip",
    "packed.pcap.zst": "zstd",
    "day=2026-03-01/hour=7/nested.pcap": "",
    "day=2026-03-02/nested.cap": "",
    "capture.dump": "",
    "notes.txt": None,
    "plain.pcap.kwire-index": None,
}
# The files that a directory means, as Spark writes their names.
CAPTURE_NAMES = [name for name, kind in NAMES.items() if kind is not None and name != "capture.dump"]


def contents(name: str) -> bytes:
    """The bytes of a file of `NAMES`."""
    kind = NAMES[name]
    if kind is None:
        return b"no capture, and longer than all of them" * 10_000
    whole = SHARE.read_bytes()
    if kind == "gzip":
        return gzip.compress(whole)
    return zstandard.compress(whole) if kind == "zstd" else whole


def hadoop_version() -> str:
    """The version of Spark's Hadoop."""
    (jar,) = JARS.glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def jars(pom: str) -> Path:
    """The folder with the jars of a Maven project, filled by Maven on first use, for Spark's Hadoop.

    Raises: RuntimeError with Maven's words when it fails.
    """
    version = hadoop_version()
    home = Path.home() / ".cache" / f"hadoop-{version}" / Path(pom).parent.name
    if not (home / "ready").exists():
        command = [needs.tool("mvn"), "-q", "-B", "-f", str(_HERE / pom), f"-Dhadoop.version={version}"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={home}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        if done.returncode:
            raise RuntimeError(f"Maven could not bring the jars of {pom}:\n{done.stdout}{done.stderr}")
        (home / "ready").touch()
    return home


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """The URL of a real HDFS, which ends with the context or with this process."""
    needs.tool("javac")  # A Java runtime without compiler cannot run a source file.
    (jar,) = jars("hdfs/pom.xml").glob("*.jar")
    command = [needs.tool("java"), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{jar}:{JARS}/*"]
    with (folder / "hdfs.log").open("w") as log:
        process = subprocess.Popen(
            [*command, str(_HERE / "hdfs" / "SmallHdfs.java"), str(folder / "dfs")],
            stdin=subprocess.PIPE,  # It ends when this pipe closes, however this process ends.
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    alarm = threading.Timer(_PATIENCE_S, process.kill)
    alarm.start()
    try:
        with process:
            assert process.stdout is not None
            found = next((line.strip() for line in process.stdout if line.startswith("hdfs://")), "")
            assert found, (folder / "hdfs.log").read_text()[-4000:]
            yield found
    finally:
        alarm.cancel()
