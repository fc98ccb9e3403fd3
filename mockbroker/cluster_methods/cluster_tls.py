"""`ClusterTls`: the certificates of a running cluster with `tls="auto"`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mockbroker.cluster_methods.cluster_thread import ClusterThread
from mockbroker.security.issued_certificates import CertificateRequest, IssuedCertificate
from mockbroker.security.listener_stores import read_pem_keys

if TYPE_CHECKING:
    from pathlib import Path

    from mockbroker.security.issued_certificates import AuthorityName
    from mockbroker.server import Server


class ClusterTls:
    """Issues certificates, and has the brokers present others. Valid ones are valid for 30 days by the wall clock."""

    def __init__(self, cluster: ClusterThread) -> None:
        security = cluster._options.security
        if security is None or security.certificates is None:
            raise RuntimeError("the cluster has no certificates of its own: start it with tls='auto'")
        self._cluster = cluster
        self._paths = security.certificates
        self._issuer = security.issued

    @property
    def authority(self) -> Path:
        """The certificate of the authority, which clients trust."""
        return self._paths.authority

    def issue(
        self,
        name: str = "client",
        *,
        hosts: Iterable[str] | None = None,
        expired: bool = False,
        not_yet_valid: bool = False,
        ca: AuthorityName = "own",
    ) -> IssuedCertificate:
        """Issue a certificate for a client, or for a broker.

        name: the CN of its subject. hosts: that it is valid for, by default the names of the brokers. ca: "own", or
        "foreign" for an authority that neither brokers nor clients trust. Raises: ValueError.
        """
        return self._issuer.issue(CertificateRequest(name, hosts, expired, not_yet_valid, ca))

    def rotate(
        self,
        certificate: IssuedCertificate | None = None,
        *,
        node_id: int | None = None,
        hosts: Iterable[str] | None = None,
        expired: bool = False,
        not_yet_valid: bool = False,
        ca: AuthorityName = "own",
    ) -> IssuedCertificate:
        """Present another certificate to new connections, of one node or of all; open connections stay.

        By default a new one, with the arguments of `issue`. It is presented until the next rotation or `reset`, also
        after a restart of the node. Returns: the certificate. Raises: ValueError.
        """
        issued, rotate = self.prepare_rotation(
            certificate, node_id, CertificateRequest("localhost", hosts, expired, not_yet_valid, ca)
        )
        self._cluster.run(rotate)
        return issued

    def prepare_rotation(
        self, certificate: IssuedCertificate | None, node_id: int | None, request: CertificateRequest
    ) -> tuple[IssuedCertificate, Callable[[Server], None]]:
        """The certificate to present, and what presents it in the cluster's thread."""
        issued = self._issuer.issue(request) if certificate is None else certificate
        keys = read_pem_keys(issued.store.read_text(encoding="utf-8"), None, str(issued.store))

        def rotate(server: Server) -> None:
            node_ids = [node.node_id for node in server.nodes]
            if node_id is not None and node_id not in node_ids:
                raise ValueError(f"node_id: there is no node {node_id}")
            server.require_tls().serve(node_ids if node_id is None else [node_id], keys)

        return issued, rotate


class AsyncTls:
    """The methods of `ClusterTls` as coroutines, in `cluster.aio.tls`: arguments and errors are the same."""

    def __init__(self, cluster: ClusterThread) -> None:
        self._cluster = cluster
        self._tls = ClusterTls(cluster)

    async def issue(
        self,
        name: str = "client",
        *,
        hosts: Iterable[str] | None = None,
        expired: bool = False,
        not_yet_valid: bool = False,
        ca: AuthorityName = "own",
    ) -> IssuedCertificate:
        """As `ClusterTls.issue`."""
        return self._tls.issue(name, hosts=hosts, expired=expired, not_yet_valid=not_yet_valid, ca=ca)

    async def rotate(
        self,
        certificate: IssuedCertificate | None = None,
        *,
        node_id: int | None = None,
        hosts: Iterable[str] | None = None,
        expired: bool = False,
        not_yet_valid: bool = False,
        ca: AuthorityName = "own",
    ) -> IssuedCertificate:
        """As `ClusterTls.rotate`."""
        issued, rotate = self._tls.prepare_rotation(
            certificate, node_id, CertificateRequest("localhost", hosts, expired, not_yet_valid, ca)
        )
        await self._cluster.run_async(rotate)
        return issued
