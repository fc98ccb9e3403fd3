"""Certificates that a test asks for: expired, not valid yet, for other hosts, or of a foreign authority."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from mockbroker.security.certificate_files import write_own_file
from mockbroker.security.certificates import EXPIRED, NOT_YET_VALID, VALID, Authority, broker_hosts

#: Who signs: the authority of the cluster, which its clients and brokers trust, or one that nobody trusts.
AuthorityName = Literal["own", "foreign"]


class IssuedCertificate(NamedTuple):
    """The paths of PEM files: a certificate, its private key, both in one file, and the authority that signed it."""

    certificate: Path
    key: Path
    store: Path
    authority: Path


class CertificateRequest(NamedTuple):
    """What a certificate is to be. name: the CN of its subject. hosts: None for the names of the brokers."""

    name: str = "client"
    hosts: Iterable[str] | None = None
    expired: bool = False
    not_yet_valid: bool = False
    ca: AuthorityName = "own"


class IssuedCertificates:
    """Issues certificates for a cluster with `tls="auto"`.

    folder: of their files. host: of the brokers, besides the names of this machine. find_authority: returns the
    authority of the cluster.
    """

    def __init__(self, folder: Path, *, host: str | None, find_authority: Callable[[], Authority]) -> None:
        self._folder = folder
        self._host = host
        self._find_own = find_authority
        self._foreign: Authority | None = None
        self._count = 0

    def issue(self, request: CertificateRequest) -> IssuedCertificate:
        """Issue a certificate. Raises: ValueError for one that there cannot be."""
        if request.expired and request.not_yet_valid:
            raise ValueError("expired, not_yet_valid: a certificate cannot be both")
        validity = EXPIRED if request.expired else NOT_YET_VALID if request.not_yet_valid else VALID
        if isinstance(request.hosts, str):
            raise ValueError(f"hosts: {request.hosts!r} is one text; expected a list of names and addresses")
        hosts = broker_hosts(self._host) if request.hosts is None else tuple(request.hosts)
        authority = self._find_authority(request.ca)
        pair = authority.issue(request.name, hosts, validity)
        self._count += 1
        start = self._folder / f"issued-{self._count}"
        ends = (".pem", ".key", "-store.pem", "-ca.pem")
        issued = IssuedCertificate(*(start.with_name(f"{start.name}{end}") for end in ends))
        texts = (pair.certificate, pair.key, pair.key + pair.certificate, authority.pem)
        for path, text in zip(issued, texts, strict=True):
            write_own_file(path, text)
        return issued

    def _find_authority(self, name: str) -> Authority:
        if name == "own":
            return self._find_own()
        if name != "foreign":
            raise ValueError(f"ca: {name!r} is neither 'own' nor 'foreign'")
        if self._foreign is None:
            self._foreign = Authority.create("foreign CA")
        return self._foreign
