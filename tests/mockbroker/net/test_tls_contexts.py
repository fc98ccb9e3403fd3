"""Key stores and trust stores that change while a cluster runs. Each answer was seen with Kafka 4.4.0."""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.client import Client, ClientError
from kwire.error_codes import ErrorCode
from kwire.messages import incremental_alter_configs as incremental
from mockbroker import Cluster, ConfigError, KafkaError
from tests.support.certificates import STORE_PASSWORD, SelfSigned, create_self_signed, fetch_certificate

_PREFIX = "listener.name.ssl."
_LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"
_BROKER, _SET, _DELETE = 4, 0, 1


class Files(NamedTuple):
    """Certificates of the same names, and one of another subject, further addresses, and other addresses."""

    first: SelfSigned
    second: SelfSigned
    renamed: SelfSigned
    further: SelfSigned
    elsewhere: SelfSigned
    expired: SelfSigned
    live: Path

    def place(self, source: Path) -> None:
        """Replace the store that the cluster was started with."""
        before = self.live.stat().st_mtime_ns if self.live.exists() else 0
        shutil.copy(source, self.live)
        os.utime(self.live, ns=(before + 10**9, before + 10**9))  # Some file systems have coarse times.


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[SelfSigned]:
    folder = tmp_path_factory.mktemp("stores")
    return [
        create_self_signed(folder, "first"),
        create_self_signed(folder, "second"),
        create_self_signed(folder, "renamed", subject="other"),
        create_self_signed(folder, "further", hosts=("127.0.0.1", "127.0.0.2")),
        create_self_signed(folder, "elsewhere", hosts=("127.0.0.3",)),
        create_self_signed(folder, "expired", days=-1),
    ]


@pytest.fixture
def files(made: list[SelfSigned], tmp_path: Path) -> Files:
    first, second, renamed, further, elsewhere, expired = made
    files = Files(first, second, renamed, further, elsewhere, expired, tmp_path / "live.p12")
    files.place(files.first.pkcs12)
    return files


def _properties(files: Files, **more: object) -> dict[str, object]:
    store = {"type": "PKCS12", "location": files.live, "password": STORE_PASSWORD}
    return {"listeners": _LISTENERS, **{f"{_PREFIX}ssl.keystore.{end}": value for end, value in store.items()}, **more}


@pytest.fixture
def cluster(files: Files) -> Iterator[Cluster]:
    with Cluster(nodes=2, properties=_properties(files)) as cluster:
        yield cluster


def _served(cluster: Cluster, node_id: int = 0, listener: str = "SSL") -> bytes:
    return fetch_certificate(cluster.nodes()[node_id].endpoints[listener])


def _alter(
    cluster: Cluster,
    changes: dict[str, object],
    *,
    delete: tuple[str, ...] = (),
    prefix: str = _PREFIX,
    validate_only: bool = False,
) -> tuple[int, str]:
    configs = [incremental.AlterableConfig(f"{prefix}{name}", _SET, str(value)) for name, value in changes.items()]
    configs += [incremental.AlterableConfig(f"{prefix}{name}", _DELETE, None) for name in delete]
    resource = incremental.AlterConfigsResource(_BROKER, "0", configs)
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    with Client(cluster.nodes()[0].endpoints["PLAINTEXT"]) as client:
        row = client.send(request).responses[0]
    return int(row.error_code), row.error_message or ""


def test_another_key_store_is_served_to_new_connections_of_its_node(cluster: Cluster, files: Files) -> None:
    assert _served(cluster) == files.first.certificate

    assert _alter(cluster, {"ssl.keystore.location": files.second.pkcs12}) == (0, "")

    assert _served(cluster) == files.second.certificate
    assert _served(cluster, 1) == files.first.certificate


def test_the_same_location_is_read_again_if_its_file_has_changed(cluster: Cluster, files: Files) -> None:
    files.place(files.second.pkcs12)
    assert _served(cluster) == files.first.certificate
    assert _alter(cluster, {"ssl.keystore.location": files.live}, validate_only=True)[0] == 0
    assert _served(cluster) == files.first.certificate

    assert _alter(cluster, {"ssl.keystore.location": files.live})[0] == 0
    assert _served(cluster) == files.second.certificate

    files.place(files.first.pkcs12)
    assert _alter(cluster, {"ssl.keystore.location": files.live})[0] == 0
    assert _served(cluster) == files.first.certificate


def test_any_configuration_of_the_node_has_changed_files_read_again(cluster: Cluster, files: Files) -> None:
    files.place(files.second.pkcs12)

    assert _alter(cluster, {"log.cleaner.threads": 1}, prefix="")[0] == 0
    assert _served(cluster) == files.second.certificate


@pytest.mark.parametrize("content", [b"damaged", None])
def test_a_file_that_became_useless_under_the_same_location_is_not_served(
    cluster: Cluster, files: Files, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    if content is None:
        files.live.unlink()
    else:
        files.live.write_bytes(content)
        os.utime(files.live, (9, 9))

    assert _alter(cluster, {"ssl.keystore.location": files.live})[0] == 0
    assert _served(cluster) == files.first.certificate
    assert ("key store and trust store stay as they were" in caplog.text) == (content is not None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ssl.keystore.location": "/none.p12"}, "No such file"),
        ({"ssl.keystore.location": "/"}, "Is a directory"),
        ({"ssl.keystore.password": "misremembered"}, "wrong password"),
        ({"ssl.key.password": "misremembered"}, "ssl.key.password: another one than that of"),
        ({"ssl.keystore.type": "PEM"}, "ssl.keystore.password: a store of the type PEM has none"),
        ({"ssl.keystore.type": "FOO"}, "ssl.keystore.type: 'FOO' is not supported"),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.key: given for a store of the type PKCS12"),
        ({"ssl.keystore.key": "x", "ssl.keystore.type": "PEM"}, "give one of them"),
        ({"ssl.truststore.password": "x"}, "ssl.truststore.password: given without ssl.truststore.location"),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_changes(
    cluster: Cluster, files: Files, changes: dict[str, object], message: str
) -> None:
    for validate_only in (True, False):
        code, text = _alter(cluster, changes, validate_only=validate_only)

        assert code == ErrorCode.INVALID_REQUEST
        assert message in text
        assert "misremembered" not in text
    assert _served(cluster) == files.first.certificate
    assert _alter(cluster, {"log.cleaner.threads": 1}, prefix="")[0] == 0


def test_certificates_of_other_names_are_refused_unless_they_are_allowed(files: Files) -> None:
    with Cluster(properties=_properties(files)) as cluster:
        code, text = _alter(cluster, {"ssl.keystore.location": files.renamed.pkcs12})
        assert (code, "CN=other instead of CN=localhost" in text) == (ErrorCode.INVALID_REQUEST, True)
        code, text = _alter(cluster, {"ssl.keystore.location": files.elsewhere.pkcs12})
        assert (code, "is not for 127.0.0.1 any more" in text) == (ErrorCode.INVALID_REQUEST, True)
        for allowed in (files.expired, files.further):
            assert _alter(cluster, {"ssl.keystore.location": allowed.pkcs12})[0] == 0
            assert _served(cluster) == allowed.certificate
        # The names are compared with those of the certificate that is served now.
        assert _alter(cluster, {"ssl.keystore.location": files.first.pkcs12})[0] == ErrorCode.INVALID_REQUEST

    both = {f"{_PREFIX}ssl.allow.{names}.changes": "true" for names in ("dn", "san")}
    with Cluster(properties=_properties(files, **both)) as cluster:
        for other in (files.renamed, files.elsewhere):
            assert _alter(cluster, {"ssl.keystore.location": other.pkcs12})[0] == 0
            assert _served(cluster) == other.certificate


def test_without_its_dynamic_configuration_a_listener_serves_its_own_store_again(
    cluster: Cluster, files: Files
) -> None:
    _alter(cluster, {"ssl.keystore.location": files.second.pkcs12})

    assert _alter(cluster, {}, delete=("ssl.keystore.location",))[0] == 0
    assert _served(cluster) == files.first.certificate


def test_a_store_without_a_prefix_is_reloaded_with_the_node(files: Files) -> None:
    store = {"type": "PKCS12", "location": files.live, "password": STORE_PASSWORD}
    properties = {f"ssl.keystore.{end}": value for end, value in store.items()}
    with Cluster(properties={"listeners": _LISTENERS, **properties}) as cluster:
        assert (
            _alter(cluster, {"ssl.keystore.location": files.second.pkcs12}, prefix="")[0] == ErrorCode.INVALID_REQUEST
        )
        files.place(files.second.pkcs12)
        _alter(cluster, {"log.cleaner.threads": 1}, prefix="")

        assert _served(cluster) == files.second.certificate


def test_stores_of_other_listeners_are_taken_without_a_look(cluster: Cluster, files: Files) -> None:
    for listener in ("plaintext", "other"):
        assert _alter(cluster, {"ssl.keystore.location": "/none"}, prefix=f"listener.name.{listener}.") == (0, "")
    assert _served(cluster) == files.first.certificate


def test_a_node_that_starts_again_reads_the_files_again(cluster: Cluster, files: Files) -> None:
    files.place(files.second.pkcs12)
    cluster.stop_node(1)
    cluster.start_node(1)

    assert (_served(cluster, 0), _served(cluster, 1)) == (files.first.certificate, files.second.certificate)


def test_a_node_whose_key_store_is_gone_does_not_start(cluster: Cluster, files: Files) -> None:
    cluster.stop_node(1)
    files.live.unlink()

    with pytest.raises(KafkaError, match=r"node 1 cannot start: .*No such file"):
        cluster.start_node(1)
    assert cluster.nodes()[1].state == "down"
    files.place(files.second.pkcs12)
    cluster.start_node(1)
    assert _served(cluster, 1) == files.second.certificate


def test_a_node_that_starts_again_keeps_its_dynamic_store_unless_it_is_gone(
    cluster: Cluster, files: Files, tmp_path: Path
) -> None:
    store = tmp_path / "dynamic.p12"
    shutil.copy(files.second.pkcs12, store)
    _alter(cluster, {"ssl.keystore.location": store})
    for expected in (files.second, files.first):
        cluster.stop_node(0)
        cluster.start_node(0)

        assert _served(cluster, 0) == expected.certificate
        store.unlink(missing_ok=True)


def test_reset_reads_the_files_again_and_forgets_dynamic_stores(files: Files) -> None:
    with Cluster(properties=_properties(files)) as cluster:
        _alter(cluster, {"ssl.keystore.location": files.further.pkcs12})
        files.place(files.second.pkcs12)
        cluster.reset()
        assert _served(cluster) == files.second.certificate
        files.live.unlink()

        with pytest.raises(ConfigError, match="No such file"):
            cluster.reset()
        assert _served(cluster) == files.second.certificate


def test_a_dynamic_store_is_applied_by_the_next_cluster_in_its_data_directory(files: Files, tmp_path: Path) -> None:
    properties, folder = _properties(files), tmp_path / "data"
    with Cluster(properties=properties, data_dir=folder) as cluster:
        _alter(cluster, {"ssl.keystore.location": files.second.pkcs12})
    with Cluster(properties=properties, data_dir=folder) as cluster:
        assert _served(cluster) == files.second.certificate


def test_a_node_that_is_added_reads_no_file_of_its_own(cluster: Cluster, files: Files) -> None:
    node_id = cluster.add_node()

    assert _served(cluster, node_id) == files.first.certificate


def _accepts(cluster: Cluster, shown: SelfSigned) -> bool:
    """Whether a client with this certificate can log in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(shown.pem)
    try:
        with Client(cluster.nodes()[0].endpoints["SSL"], tls=context, timeout_s=10):
            return True
    except ClientError:
        return False


def test_the_trust_store_changes_as_the_key_store_does(files: Files, tmp_path: Path) -> None:
    trust = tmp_path / "trust.pem"
    shutil.copy(files.first.pem, trust)
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": trust, "ssl.client.auth": "required"}
    properties = _properties(files, **{f"{_PREFIX}{name}": value for name, value in trusted.items()})
    with Cluster(properties=properties) as cluster:
        assert (_accepts(cluster, files.first), _accepts(cluster, files.second)) == (True, False)
        shutil.copy(files.second.pem, trust)
        os.utime(trust, (9, 9))
        assert _alter(cluster, {"ssl.truststore.location": trust})[0] == 0
        assert (_accepts(cluster, files.first), _accepts(cluster, files.second)) == (False, True)
        assert _alter(cluster, {"ssl.truststore.location": files.first.pem})[0] == 0
        assert (_accepts(cluster, files.first), _accepts(cluster, files.second)) == (True, False)
        assert _alter(cluster, {"ssl.truststore.location": "/none"})[0] == ErrorCode.INVALID_REQUEST
        assert _alter(cluster, {"ssl.client.auth": "none"})[0] == 0  # Stored, and without effect.
        assert not _accepts(cluster, files.second)


def test_a_listener_that_has_no_trust_store_gets_none(cluster: Cluster, files: Files) -> None:
    changes = {"ssl.truststore.type": "PEM", "ssl.truststore.location": files.first.pem}

    code, text = _alter(cluster, changes)
    assert (code, "cannot get one" in text) == (ErrorCode.INVALID_REQUEST, True)
