"""The certificates of a cluster with `--tls auto`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.control.models import certificates as models
from mockbroker.control.models.common import NoParameters
from mockbroker.control.operations import ClusterContext

if TYPE_CHECKING:
    from pathlib import Path

    from mockbroker.security.issued_certificates import IssuedCertificate


def get_authority(control: ClusterContext, parameters: NoParameters) -> models.CertificateAuthority:
    """The authority that clients trust."""
    path = control.cluster.tls.authority
    return models.CertificateAuthority(authority=_read(path), authority_file=str(path))


def issue_certificate(
    control: ClusterContext, parameters: NoParameters, body: models.CertificateRequest
) -> models.Certificate:
    """Issue a certificate for a client or a broker: valid, expired, not valid yet, or of a foreign authority."""
    issued = control.cluster.tls.issue(
        body.name, hosts=body.hosts, expired=body.expired, not_yet_valid=body.not_yet_valid, ca=body.ca
    )
    return _certificate_model(issued)


def rotate_certificate(control: ClusterContext, parameters: NoParameters, body: models.Rotation) -> models.Certificate:
    """Present another certificate to new connections, of one node or of all, until the cluster is reset."""
    issued = control.cluster.tls.rotate(
        node_id=body.node, hosts=body.hosts, expired=body.expired, not_yet_valid=body.not_yet_valid, ca=body.ca
    )
    return _certificate_model(issued)


def _certificate_model(issued: IssuedCertificate) -> models.Certificate:
    return models.Certificate(
        certificate=_read(issued.certificate),
        key=_read(issued.key),
        authority=_read(issued.authority),
        certificate_file=str(issued.certificate),
        key_file=str(issued.key),
        store_file=str(issued.store),
        authority_file=str(issued.authority),
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii")
