"""Places that only Spark reaches: a real HDFS, and files with names that a program trips over."""

from __future__ import annotations

import gzip
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import zstandard

from tests import needs

CAPTURES = Path(__file__).parents[2] / "captures"
SHARE = CAPTURES / "small_share.pcap"
# Names an empty folder in one more place that Spark reaches, to try the tests there.
PLACE = "KWIRE_TESTS_PLACE"
# A key of that place, which nobody may see.
SECRET = "hunter2-and-more"
JARS = Path(pyspark.__file__).with_name("jars")
_HERE = Path(__file__).parent
_PATIENCE_S = 120

# What each file holds, by its name below a folder; those of None are no captures.
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
# As Spark has it: those of which a directory stands.
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
    """Of the Hadoop that Spark has."""
    (jar,) = JARS.glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def jars(pom: str) -> Path:
    """The folder of the jars that a description names, filled by Maven on first use, for Spark's Hadoop.

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
    """The address of a real HDFS of its own, which ends with the block, or with this process."""
    needs.tool("javac")  # A runtime alone does not run a source file.
    (jar,) = jars("hdfs/pom.xml").glob("*.jar")
    command = [needs.tool("java"), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{jar}:{JARS}/*"]
    with (folder / "hdfs.log").open("w") as log:
        process = subprocess.Popen(
            [*command, str(_HERE / "hdfs" / "SmallHdfs.java"), str(folder / "dfs")],
            stdin=subprocess.PIPE,  # It ends when this does, however we end.
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
