"""Test of reading captures from a local S3 server: `python -m tests.support.spark.live_s3`.

It runs `test_file_listing` against moto's server through s3a, Hadoop's own client. The server comes from PyPI into
`.venv/s3` (140 MB), the client by Maven into the user's cache (15 MB); both are reused by the next run. Needs a JDK and
Maven. Exit code 1 when a test fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kwire.spark
from tests.support.spark.remote_storage import PLACE, SECRET, jars

ROOT = Path(__file__).parents[3]
_SERVER = ("moto[s3]>=5.2", "flask>=3.1", "flask-cors>=6")


def main() -> int:
    """Run the tests; the exit code of pytest."""
    libraries = os.pathsep.join(map(str, sorted(jars("s3/pom.xml").glob("*.jar"))))
    with server() as address:
        settings = {
            "spark.driver.extraClassPath": libraries,
            "spark.hadoop.fs.s3a.endpoint": address,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "me",
            "spark.hadoop.fs.s3a.secret.key": SECRET,
            "spark.hadoop.fs.s3a.attempts.maximum": "1",
        }
        # Any name will do: the bucket is empty, and is deleted with the server.
        bucket = urllib.request.Request(f"{address}/captures", method="PUT")
        urllib.request.urlopen(bucket, timeout=30).close()
        os.environ[PLACE] = "s3a://captures/below"
        # The tests use the running session, and stop it.
        kwire.spark.session("local[2]", is_short=True, settings=settings)
        return int(pytest.main(["-q", str(ROOT / "tests" / "kwire" / "spark" / "source" / "test_file_listing.py")]))


@contextmanager
def server() -> Iterator[str]:
    """The address of moto's server on loopback, on a port of the system; it ends with the block."""
    home = ROOT / ".venv" / "s3"
    program = home / "bin" / "moto_server"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([home / "bin" / "python", "-m", "pip", "install", "--quiet", *_SERVER], check=True)
    process = subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stderr is not None
            matches = (re.search(r"Running on (http://127\.0\.0\.1:\d+)", line) for line in process.stderr)
            match = next(filter(None, matches), None)
            assert match is not None, "the server printed no address"
            yield match[1]
        finally:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
