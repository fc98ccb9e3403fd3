"""The lowest versions that setup.cfg allows."""

from __future__ import annotations

import pytest

from tools import lowest_versions


def test_each_requirement_has_its_lowest_version_once() -> None:
    requirements = ["msgspec>=0.19", "pandas>=2.2,<3", "msgspec>=0.19", 'uvloop>=0.21; sys_platform != "win32"']

    assert list(lowest_versions.lowest(requirements)) == [
        "msgspec==0.19",
        "pandas==2.2",
        'uvloop==0.21; sys_platform != "win32"',
    ]


def test_a_requirement_without_a_lowest_version_is_refused() -> None:
    with pytest.raises(ValueError, match="'msgspec' has no lowest version"):
        list(lowest_versions.lowest(["msgspec"]))


def test_every_dependency_of_the_project_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    extras = ["captures", "tls", "oauth", "control", "completion", "fast", "spark"]

    assert lowest_versions.main(extras) == 0
    printed = capsys.readouterr().out.splitlines()
    assert {"h11==0.16", "pyspark==4.0"} <= set(printed)
    assert lowest_versions.main(["nothing"]) == 2
    assert "setup.cfg has no extra nothing" in capsys.readouterr().err
