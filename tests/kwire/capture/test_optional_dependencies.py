"""Without numpy and pyarrow, what needs them names the extra `captures`; the broker and its capture file do not."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.capture.optional_dependencies import explain_missing
from kwire.capture.reader import read_rows
from kwire.errors import MissingExtra
from tests.support.captures.capture_files import SHARE

ROOT = Path(__file__).parents[3]

#: Makes packages unknown to a new interpreter, as if they were not installed.
HIDE = """
import sys
from importlib.machinery import PathFinder

HIDDEN = {hidden}

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else super().find_spec(name, path, target)

sys.meta_path[:] = [Finder if each is PathFinder else each for each in sys.meta_path]
"""


def run_without(code: str, *hidden: str) -> str:
    """The output of a program in an interpreter without these packages."""
    program = HIDE.format(hidden=hidden or ("numpy", "pyarrow", "pandas")) + code
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# The index needs only numpy.
@pytest.mark.parametrize(("package", "hidden"), [("index", "numpy"), ("columnar", "numpy"), ("columnar", "pyarrow")])
def test_what_needs_the_packages_names_the_extra(package: str, hidden: str) -> None:
    code = f"""
import kwire
try:
    import kwire.capture.{package}
except kwire.MissingExtra as error:
    print(error.extra, error)
"""

    extra, text = run_without(code, hidden).split(" ", 1)
    assert extra == "captures"
    assert "captures]" in text


def test_a_table_names_the_extra() -> None:
    code = f"""
import kwire
try:
    kwire.read_capture({str(SHARE)!r})
except kwire.MissingExtra as error:
    print(error.extra, error)
"""

    assert run_without(code).startswith("captures a table of rows of a capture needs more than the core of kwire: ")


def test_another_missing_package_is_not_taken_for_the_extra() -> None:
    error = ModuleNotFoundError("No module named 'mmap'", name="mmap")

    assert explain_missing("the index", error) is error
    missing = explain_missing("the index", ModuleNotFoundError(name="numpy"))
    assert isinstance(missing, MissingExtra)
    assert missing.extra == "captures"


def test_rows_and_the_command_name_the_extra() -> None:
    code = f"""
import kwire
from kwire.capture import read_rows
from kwire.cli.main import main
try:
    next(iter(read_rows({str(SHARE)!r})))
except kwire.MissingExtra as error:
    print(error.extra, error)
print(main(["decode", {str(SHARE)!r}]), main(["info", {str(SHARE)!r}]))
"""

    text, exit_codes = run_without(code).splitlines()
    assert text.startswith("captures reading a capture needs more than the core of kwire: ")
    assert exit_codes == "2 2"


def test_the_broker_writes_its_capture_file_without_them(tmp_path: Path) -> None:
    path = tmp_path / "broker.pcapng"
    code = f"""
import sys
from kwire.client import Client
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
with Cluster(capture={str(path)!r}) as cluster, Client(cluster.bootstrap_servers) as client:
    client.send(MetadataRequest())
print({{"numpy", "pyarrow"}} & set(sys.modules))
"""

    assert run_without(code) == "set()"
    assert "Metadata" in [row["api_name"] for row in read_rows(str(path))]


def test_the_extra_has_both_packages_and_its_earlier_name_is_an_alias() -> None:
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = {name: text.split() for name, text in setup["options.extras_require"].items()}

    assert extras["captures"] == ["pyarrow>=17", "numpy>=1.26"]
    assert extras["arrow"] == ["kwire[captures]"]
    assert set(extras["captures"]) <= set(extras["spark"]) & set(extras["dev"])
    assert "numpy" not in setup["options"]["install_requires"]
    assert "pyarrow" not in setup["options"]["install_requires"]
