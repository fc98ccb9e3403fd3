"""`--data-dir` of the command and `data_dir` of `Cluster`: restarts, and directories that are refused with one line."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import pytest

from kwire import Client
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster, cli
from mockbroker.config.keys import ConfigError
from mockbroker.log_directory.directory_lock import LOCK_FILE
from tests.support.stored.stored_process import StoredProcess

LOG = "node-0/__cluster_metadata-0/00000000000000000000.log"


def run_command(*arguments: str) -> int:
    return cli.main(["--port", "0", *arguments])


def topics_of(bootstrap: str) -> list[tuple[str | None, int]]:
    with Client(bootstrap) as client:
        return [(topic.name, len(topic.partitions)) for topic in client.send(MetadataRequest(topics=None)).topics]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_topic_that_was_acknowledged_is_there_after_the_process_has_ended(
    tmp_path: Path, end: signal.Signals
) -> None:
    with StoredProcess(tmp_path / "data") as process:
        with Client(process.bootstrap) as client:
            client.send(CreateTopicsRequest([CreatableTopic("a", 3, 1)]))

        process.restart(end)

        assert topics_of(process.bootstrap) == [("a", 3)]
        assert process.log().count("the data directory is") == 2
        assert process.log().count("topic a was made") <= 1  # A killed process may not have logged it.
    marks = tmp_path.glob("data/node-0/.kafka_cleanshutdown")
    assert [mark.name for mark in marks] == []  # The last process was killed.


def test_a_clean_end_leaves_its_mark_with_the_epoch_of_the_broker(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path, nodes=2):
        assert not (tmp_path / "node-0" / ".kafka_cleanshutdown").exists()

    assert '"brokerEpoch":' in (tmp_path / "node-1" / ".kafka_cleanshutdown").read_text()


def test_a_cluster_object_goes_on_where_it_stopped(tmp_path: Path) -> None:
    cluster = Cluster(data_dir=tmp_path, topics={"a": 1}, nodes=2)
    with cluster:
        cluster.create_topic("b", partitions=2)
    with cluster:
        assert topics_of(cluster.bootstrap_servers) == [("a", 1), ("b", 2)]


def test_the_number_of_nodes_is_that_of_the_directory(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path, nodes=3):
        pass

    with Cluster(data_dir=tmp_path) as cluster:
        assert len(cluster.bootstrap_servers.split(",")) == 3


def test_a_second_process_says_who_uses_the_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with StoredProcess(tmp_path / "data") as process:
        owner = (tmp_path / "data" / "node-0" / LOCK_FILE).read_text().strip().replace(" ", " on ", 1)
        assert run_command("--data-dir", str(tmp_path / "data")) == 2
        assert topics_of(process.bootstrap) == []

    written = capsys.readouterr().err
    assert f"data-dir: {tmp_path / 'data' / 'node-0'} is in use by process {owner}" in written
    assert written.count("\n") == 1


def test_two_clusters_of_one_process_do_not_share_a_directory(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path), pytest.raises(ConfigError, match=f"in use by process {os.getpid()}"):
        Cluster(data_dir=tmp_path).start()


def test_a_directory_that_was_refused_can_be_used_afterwards(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path, topics={"a": 1}):
        pass
    with pytest.raises(ConfigError, match="topic a: 2 partitions; in the data directory it has 1"):
        Cluster(data_dir=tmp_path, topics={"a": 2}).start()

    with Cluster(data_dir=tmp_path, topics={"a": 1}) as cluster:
        assert topics_of(cluster.bootstrap_servers) == [("a", 1)]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not hold for root")
def test_a_directory_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match=f"data-dir: .*Permission denied: '{tmp_path}"):
        Cluster(data_dir=tmp_path / "data").start()


def test_a_directory_of_more_nodes_of_another_release_or_of_one_broker_is_refused(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path, nodes=2):
        pass

    with pytest.raises(ConfigError, match=r"it has the nodes \[0, 1\], and this cluster only \[0\]: give more --nodes"):
        Cluster(data_dir=tmp_path, nodes=1).start()
    with pytest.raises(ConfigError, match=r"it has metadata.version 33; this release supports 7 to 30"):
        Cluster(data_dir=tmp_path, release="4.3").start()
    with pytest.raises(ConfigError, match=r"has the nodes \[0, 1\], and this cluster begins with node.id 5"):
        Cluster(data_dir=tmp_path, properties={"node.id": 5}).start()
    with pytest.raises(ConfigError, match="is the log directory of one broker"):
        Cluster(data_dir=tmp_path / "node-0").start()


def test_nodes_of_different_clusters_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Cluster(data_dir=tmp_path / name, nodes=2):
            pass
    (tmp_path / "a" / "node-1").rename(tmp_path / "old")
    (tmp_path / "b" / "node-1").rename(tmp_path / "a" / "node-1")

    with pytest.raises(ConfigError, match=r"node-1/meta.properties: cluster id .*; the other nodes have"):
        Cluster(data_dir=tmp_path / "a").start()


def test_damage_is_refused_with_file_and_byte_and_cut_off_with_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(data_dir=tmp_path, topics={"a": 1}) as cluster:
        cluster.create_topic("b")
        size = (tmp_path / LOG).stat().st_size
        cluster.create_topic("c")
        cluster.create_topic("d")
    data = bytearray((tmp_path / LOG).read_bytes())
    data[size + 70] ^= 1
    (tmp_path / LOG).write_bytes(data)

    assert run_command("--data-dir", str(tmp_path)) == 2
    written = capsys.readouterr().err
    assert f"{LOG}, byte {size}: no valid batch" in written
    assert "; --repair cuts damaged logs" in written

    with caplog.at_level(logging.WARNING, "mockbroker.storage"), Cluster(data_dir=tmp_path, repair=True) as cluster:
        assert topics_of(cluster.bootstrap_servers) == [("a", 1), ("b", 1)]
    assert f"{LOG}, byte {size}" in caplog.text


def test_an_address_in_use_leaves_the_directory_free(tmp_path: Path) -> None:
    with Cluster() as other:
        port = int(other.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            Cluster(data_dir=tmp_path, port=port).start()

    with Cluster(data_dir=tmp_path):
        pass


def test_the_directory_of_a_node_is_that_of_the_data_directory_and_others_have_no_effect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, "mockbroker.storage"),
        Cluster(data_dir=tmp_path, nodes=2, properties={"log.dirs": "/x,/y", "metadata.log.dir": "/z"}) as cluster,
        Client(cluster.bootstrap_servers) as client,
    ):
        response = client.send(DescribeLogDirsRequest(topics=None))

    assert [row.log_dir for row in response.results] == [str(tmp_path / "node-0")]
    assert "log.dirs, metadata.log.dir has no effect" in caplog.text


def test_a_cluster_with_a_data_directory_cannot_be_reset(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path) as cluster, pytest.raises(RuntimeError, match="cannot be reset"):
        cluster.reset()


def test_with_fsync_and_without_the_same_is_stored(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path, fsync=True) as cluster:
        cluster.create_topic("a")

    with Cluster(data_dir=tmp_path) as cluster:
        assert topics_of(cluster.bootstrap_servers) == [("a", 1)]
