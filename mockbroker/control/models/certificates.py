"""Bodies of certificates."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mockbroker.control.models.common import RequestModel, ResponseModel

_HOSTS_MAX = 100
_NAME = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_HOST = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]


class CertificateRequest(RequestModel, frozen=True):
    """name: the CN of the subject. hosts: null for the names of the brokers. ca: foreign for one that nobody trusts."""

    name: _NAME = "client"
    hosts: Annotated[list[_HOST], msgspec.Meta(max_length=_HOSTS_MAX)] | None = None
    expired: bool = False
    not_yet_valid: bool = False
    ca: Literal["own", "foreign"] = "own"


class Rotation(RequestModel, frozen=True):
    """node: null for all. The other fields are as those of a certificate that is issued."""

    node: int | None = None
    hosts: Annotated[list[_HOST], msgspec.Meta(max_length=_HOSTS_MAX)] | None = None
    expired: bool = False
    not_yet_valid: bool = False
    ca: Literal["own", "foreign"] = "own"


class Certificate(ResponseModel, frozen=True):
    """A certificate, its private key and the authority that signed it, in PEM; and the paths of files with them."""

    certificate: str
    key: str
    authority: str
    certificate_file: str
    key_file: str
    store_file: str
    authority_file: str


class CertificateAuthority(ResponseModel, frozen=True):
    """The authority that clients trust, in PEM, and the path of its file."""

    authority: str
    authority_file: str
