"""A start that a data directory refuses leaves nothing open: the same process can start there when it is mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mockbroker import Cluster, ConfigError
from mockbroker.cli import main
from mockbroker.server import Server

_SETTINGS = ["offsets.topic.num.partitions=1"]


def _cluster(folder: Path) -> Cluster:
    return Cluster(data_dir=folder, settings=_SETTINGS)


def _fill(folder: Path) -> None:
    with _cluster(folder) as cluster:
        cluster.create_topic("t", 1)
        for number in range(5):
            cluster.produce("t", f"{number}")


def _append_garbage(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"garbage" * 20)


_DAMAGES: dict[str, Callable[[Path], object]] = {
    "t-0/00000000000000000000.log": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "t-0/partition.metadata": lambda path: path.write_bytes(b"version: 0\n"),
    "__cluster_metadata-0/00000000000000000000.log": lambda path: path.write_bytes(b"x" + path.read_bytes()[1:]),
    "meta.properties": lambda path: path.unlink(),
}


@pytest.mark.parametrize("name", _DAMAGES)
def test_after_a_refused_start_the_directory_is_free_and_starts_when_it_is_mended(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    _fill(folder)
    path = folder / "node-0" / name
    before = path.read_bytes()
    _DAMAGES[name](path)
    for _ in range(2):
        with pytest.raises(ConfigError, match=name), _cluster(folder):
            pass
    code = main(["--data-dir", str(folder), "--port", "0", "--set", *_SETTINGS])
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mockbroker: ")]
    path.write_bytes(before)

    assert code == 2
    assert len(lines) == 1
    assert name in lines[0]
    with _cluster(folder) as cluster:
        assert [record.value for record in cluster.read("t")] == [b"0", b"1", b"2", b"3", b"4"]


def test_an_error_after_the_sockets_are_open_releases_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Server) -> None:
        raise OverflowError("too large")

    folder = tmp_path / "data"
    _fill(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Server, "_log_start", fail)
        with pytest.raises(OverflowError):
            _cluster(folder).start()

    with _cluster(folder) as cluster:
        assert len(cluster.read("t")) == 5


def test_a_topic_that_does_not_fit_is_no_clean_end_and_the_next_start_has_everything(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    _fill(folder)
    with pytest.raises(ConfigError, match="2 partitions; in the data directory it has 1"):
        Cluster(data_dir=folder, settings=_SETTINGS, topics={"t": 2}).start()

    with _cluster(folder) as cluster:
        assert len(cluster.read("t")) == 5
