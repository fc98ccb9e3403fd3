"""The sets of captures that Spark is measured with: as many exchanges as the copies have, and disk asked for first."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import kwire
from tests.support.captures.small_capture import write
from tools.bench import scale
from tools.bench.scale_copies import Template, write_files
from tools.bench.scale_plot import plot


@pytest.fixture
def template(tmp_path: Path) -> Template:
    write(tmp_path / "one.pcapng", "orders")
    return Template(tmp_path / "one.pcapng", 9092)


def test_copies_have_the_exchanges_of_the_original_from_different_hosts(tmp_path: Path, template: Template) -> None:
    (tmp_path / "out").mkdir()

    files = list(write_files([template], tmp_path / "out", size=template.size * 6, file_size=template.size * 2))

    rows = kwire.read_capture([path for path, _ in files]).to_pylist()
    assert len(files) == 3
    assert [count for _, count in files] == [2 * template.packet_count] * 3
    assert {row["status"] for row in rows} == {"ok"}
    assert len(rows) == 6 * 5
    assert len({row["client_ip"] for row in rows}) == 6
    assert [row["req_ts"] for row in rows] == sorted(row["req_ts"] for row in rows)


def test_no_files_are_created_without_enough_disk_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scale", "--size", "1e9", "--folder", str(tmp_path)])

    assert scale.main() == 1

    captured = capsys.readouterr()
    assert "needs 1000000002.0 GB of disk" in captured.out
    assert "not enough" in captured.err
    assert list(tmp_path.iterdir()) == []


def test_files_are_removed_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: Template) -> None:
    def fail(folder: Path) -> list[Template]:
        (folder / "half").write_bytes(b"made")
        raise RuntimeError("a client died")

    monkeypatch.setattr(sys, "argv", ["scale", "--size", "0.001", "--folder", str(tmp_path)])
    monkeypatch.setattr(scale, "_templates", fail)

    with pytest.raises(RuntimeError, match="a client died"):
        scale.main()

    assert [path.name for path in tmp_path.iterdir()] == ["one.pcapng"]


def test_the_plot_has_a_point_for_each_measurement() -> None:
    measured = [
        scale.Measurement(query, size * scale.GB, 1, 1, 1, size * 2.0, 1, 2.0, 1.0)
        for query in ("a <b>", "c")
        for size in (1, 2, 4)
    ]

    tree = ET.fromstring(plot(measured))

    assert len(tree.findall(".//{http://www.w3.org/2000/svg}circle")) == 6


def test_the_lines_of_the_plot_stay_inside_it() -> None:
    # The first query pays for what later ones find ready: time grows by less than the data.
    measured = [
        scale.Measurement("a", size * scale.GB, 1, 1, 1, seconds, 1, 2.0, 1.0)
        for size, seconds in ((1, 6), (2, 7), (4, 9))
    ]

    paths = [path.get("d", "") for path in ET.fromstring(plot(measured)).iter("{http://www.w3.org/2000/svg}path")]

    heights = [float(path.replace(",", " ").split()[-1]) for path in paths if "L" in path]
    assert heights
    assert min(heights) >= 40


def test_each_query_has_its_time_its_cpu_beside_the_library_and_its_memory_in_the_history() -> None:
    measured = [
        scale.Measurement("bytes", size, 1, 1, 1, seconds, 2_500_000_000, 13.0, 10.0)
        for size, seconds in ((250_000_000, 4.0), (10_060_000_000, 40.0))
    ]

    results = [(result.case, result.unit, result.median) for result in scale.results_of(measured)]

    assert results == [
        ("0.25 GB, bytes: wall", "s", 4.0),
        ("0.25 GB, bytes: CPU beside the library", "x", 1.3),
        ("0.25 GB, bytes: memory", "MB", 2500.0),
        ("10 GB, bytes: wall", "s", 40.0),
        ("10 GB, bytes: CPU beside the library", "x", 1.3),
        ("10 GB, bytes: memory", "MB", 2500.0),
    ]
