"""`mockbroker.Proxy`: a proxy for tests and programs, in its own thread and event loop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from kwire.client.address import parse_bootstrap
from mockbroker.cluster_methods.faults import load_faults
from mockbroker.cluster_options import check_stop_grace, parse_control_options
from mockbroker.config.keys import ConfigError
from mockbroker.controlled import Controlled
from mockbroker.proxy.methods import ProxyMethods
from mockbroker.proxy.proxy_server import ProxyOptions, ProxyServer
from mockbroker.server_options import STOP_GRACE_MS

if TYPE_CHECKING:
    import ssl

    from mockbroker.cluster_methods.faults import FaultSource
    from mockbroker.control.operations import ControlApi

__all__ = ["Proxy"]


class Proxy(Controlled, ProxyMethods):
    """Stands between clients and a cluster for as long as the `with` block lasts (docs/proxy-and-replay.md).

    upstream: HOST:PORT of a broker of the cluster; the others are found. port: of the listener for that broker, the
    others follow; 0: a free port for each. host, advertised: as for `Cluster`. upstream_tls_ca: a PEM file with the
    authorities of a cluster that needs TLS. capture: a pcapng file to write, with the traffic on the side of the
    clients. faults: as for `Cluster`, without those of nodes. seed: of the faults' random choices.
    control, control_token: as for `Cluster`: the control over HTTP, whose URL is `control_url`. stop_grace_ms: as for
    `Cluster`.
    Raises: ConfigError for a wrong address; ConnectionError if there is no cluster, FaultError for a wrong fault,
    OSError if an address is in use, when it starts.
    """

    def __init__(
        self,
        upstream: str,
        *,
        port: int = 0,
        host: str | None = None,
        advertised: str | None = None,
        upstream_tls_ca: str | Path | None = None,
        capture: str | Path | None = None,
        faults: FaultSource = (),
        seed: int | None = None,
        control: int | str | None = None,
        control_token: str | None = None,
        stop_grace_ms: int = STOP_GRACE_MS,
    ) -> None:
        control_options = parse_control_options(control, control_token)
        options = make_options(
            upstream,
            port=port,
            host=host,
            advertised=advertised,
            upstream_tls_ca=None if upstream_tls_ca is None else Path(upstream_tls_ca),
            capture=None if capture is None else Path(capture),
            faults=faults,
            seed=seed,
            stop_grace_ms=check_stop_grace(stop_grace_ms),
        )
        super().__init__(options, control_options, _load_control_api)
        self._proxy_options = options

    def _make_server(self) -> ProxyServer:
        return ProxyServer(self._proxy_options)

    def __repr__(self) -> str:
        host, port = self._proxy_options.upstream
        return f"<mockbroker.Proxy: {host}:{port}>"

    def __enter__(self) -> Self:
        return self.start()


def _load_control_api() -> ControlApi:
    from mockbroker.proxy.control_api import PROXY_API

    return PROXY_API


def make_options(
    upstream: str,
    *,
    port: int,
    host: str | None,
    advertised: str | None,
    upstream_tls_ca: Path | None,
    capture: Path | None,
    faults: FaultSource,
    seed: int | None,
    stop_grace_ms: int,
) -> ProxyOptions:
    """The options of a proxy. Raises: ConfigError for a wrong address, OSError for a wrong file of authorities."""
    try:
        addresses = parse_bootstrap(upstream)
    except ValueError as error:
        raise ConfigError(f"upstream: {error}") from error
    if len(addresses) != 1:
        raise ConfigError(f"upstream: {upstream!r}; one address is expected, the others are found")
    return ProxyOptions(
        port=port,
        host=host,
        advertised=advertised,
        capture=capture,
        seed=seed,
        stop_grace_ms=stop_grace_ms,
        faults=load_faults(faults),
        upstream=(addresses[0].host, addresses[0].port),
        upstream_tls=None if upstream_tls_ca is None else _create_context(upstream_tls_ca),
    )


def _create_context(path: Path) -> ssl.SSLContext:
    import ssl

    try:
        return ssl.create_default_context(cafile=path)
    except ssl.SSLError as error:
        raise ConfigError(f"upstream-tls-ca: {path}: no certificates in PEM form ({error.reason})") from error
