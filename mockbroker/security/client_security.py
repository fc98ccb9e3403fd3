"""TLS and SASL in one word each: the configurations of the brokers, and the settings of clients by library."""

from __future__ import annotations

import re
import shutil
import ssl
import tempfile
import weakref
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from mockbroker.config.keys import ConfigError
from mockbroker.security.certificate_files import create_own_folder
from mockbroker.security.certificates import (
    Authority,
    Certificates,
    certificate_paths,
    check_package,
    keep_authority,
    write_certificates,
)
from mockbroker.state.security.oauthbearer import MECHANISM as OAUTHBEARER

if TYPE_CHECKING:
    from mockbroker.security.issued_certificates import IssuedCertificate, IssuedCertificates
    from mockbroker.security.token_issuer import TokenIssuer

#: The libraries whose names of settings are known.
Library = Literal["librdkafka", "kafka-python", "aiokafka", "java"]
LIBRARIES = ("librdkafka", "kafka-python", "aiokafka", "java")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
_USER = re.compile(r"(?P<mechanism>\S+) (?P<user>[^\s:\",\[\]=]+):(?P<password>[^\s\",\[\]]+)")
_MODULES = {"PLAIN": "plain.PlainLoginModule", OAUTHBEARER: "oauthbearer.OAuthBearerLoginModule"}
_LOGIN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_SCRAM_MODULE = "scram.ScramLoginModule"


class SaslUser(NamedTuple):
    """A user with a mechanism and a password."""

    mechanism: str
    user: str
    password: str

    @property
    def login_module(self) -> str:
        """The Java class of the mechanism in a JAAS configuration."""
        return f"org.apache.kafka.common.security.{_MODULES.get(self.mechanism, _SCRAM_MODULE)}"


class ClientSecurity:
    """The security of a cluster's listener. Without TLS and SASL it is plain.

    tls: "auto" makes certificates in a temporary folder, which is deleted with this object. sasl: "MECHANISM
    USER:PASSWORD", or "OAUTHBEARER" for any user. host: of the brokers, besides the names of this machine. kept_folder:
    where the authority and the certificates are kept instead; `create_files` makes them.
    Raises: ConfigError for anything else; MissingExtra for TLS without the package cryptography, and for OAUTHBEARER
    without PyJWT.
    """

    def __init__(
        self,
        *,
        tls: str | None = None,
        sasl: str | None = None,
        host: str | None = None,
        kept_folder: Path | None = None,
    ) -> None:
        if tls not in (None, "auto"):
            raise ConfigError(f"tls: {tls!r}; expected 'auto'; for other certificates set ssl.keystore.location")
        self.sasl = None if sasl is None else _parse_sasl(sasl)
        self.host = host
        self.certificates: Certificates | None = None
        #: Signs the certificates of `tls="auto"`.
        self.authority: Authority | None = None
        self._kept_folder = kept_folder if tls is not None else None
        #: Signs the tokens of OAUTHBEARER, and the endpoint that gives them out while the cluster runs.
        self.issuer: TokenIssuer | None = None
        self.token_endpoint_url: str | None = None
        is_bearer = self.sasl is not None and self.sasl.mechanism == OAUTHBEARER
        if tls is None and not is_bearer:
            return
        #: What is deleted with this object.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="mockbroker-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        if tls is not None:
            self.certificates = certificate_paths(kept_folder or folder)
            check_package()
        if tls is not None and kept_folder is None:
            self.authority = Authority.create()
            write_certificates(folder, self.authority, host=host)
        if is_bearer:
            self._create_issuer(folder / "jwks.json", sasl)

    @cached_property
    def issued(self) -> IssuedCertificates:
        """Issues further certificates, with TLS."""
        from mockbroker.security.issued_certificates import IssuedCertificates

        return IssuedCertificates(self.folder, host=self.host, find_authority=self._require_authority)

    def _require_authority(self) -> Authority:
        if self.authority is None:
            raise RuntimeError("the authority is in the data directory: start the cluster first")
        return self.authority

    def create_files(self) -> None:
        """Make the certificates of a folder that keeps its authority. Raises: ConfigError."""
        folder = self._kept_folder
        if folder is None:
            return
        try:
            create_own_folder(folder)
            self.authority = keep_authority(folder)
            write_certificates(folder, self.authority, host=self.host)
        except OSError as error:
            raise ConfigError(f"tls: {error}") from error

    def _create_issuer(self, jwks: Path, sasl: str | None) -> None:
        from mockbroker.security.token_issuer import TokenIssuer

        assert self.sasl is not None
        client = None if sasl == OAUTHBEARER else (self.sasl.user, self.sasl.password)
        self.issuer = TokenIssuer(jwks, client=client)

    @property
    def protocol(self) -> str:
        """The security protocol, as Kafka names it."""
        encrypted = self.certificates is not None
        if self.sasl is not None:
            return "SASL_SSL" if encrypted else "SASL_PLAINTEXT"
        return "SSL" if encrypted else "PLAINTEXT"

    def broker_settings(self, port: int = 0) -> list[str]:
        """The configurations of the brokers as "KEY=VALUE"; none for a plain listener. port: of the listener."""
        if self.protocol == "PLAINTEXT":
            return []
        settings = [f"listeners={self.protocol}://127.0.0.1:{port}"]
        if self.certificates is not None:
            settings += ["ssl.keystore.type=PEM", f"ssl.keystore.location={self.certificates.broker}"]
            settings += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.certificates.authority}"]
        if self.sasl is not None:
            users = f' user_{self.sasl.user}="{self.sasl.password}"' if self.sasl.mechanism == "PLAIN" else ""
            prefix = f"listener.name.{self.protocol.lower()}.{self.sasl.mechanism.lower()}"
            settings.append(f"sasl.enabled.mechanisms={self.sasl.mechanism}")
            settings.append(f"{prefix}.sasl.jaas.config={self.sasl.login_module} required{users};")
            settings += self._oauth_settings(prefix)
        return settings

    def _oauth_settings(self, prefix: str) -> list[str]:
        if self.issuer is None:
            return []
        from mockbroker.security.oauth_config import SIGNED_HANDLER
        from mockbroker.security.token_issuer import AUDIENCE, ISSUER

        return [
            f"{prefix}.sasl.server.callback.handler.class={SIGNED_HANDLER}",
            f"sasl.oauthbearer.jwks.endpoint.url={self.issuer.jwks.as_uri()}",
            f"sasl.oauthbearer.expected.audience={AUDIENCE}",
            f"sasl.oauthbearer.expected.issuer={ISSUER}",
        ]

    def scram_users(self) -> list[str]:
        """The users to create, in the format of `kafka-storage.sh --add-scram`."""
        if self.sasl is None or self.sasl.mechanism in _MODULES:
            return []
        return [f"{self.sasl.mechanism}=[name={self.sasl.user},password={self.sasl.password}]"]

    def client_settings(
        self, bootstrap: str, library: Library = "librdkafka", certificate: IssuedCertificate | None = None
    ) -> dict[str, object]:
        """The settings of a client, by the names of its library. certificate: that it shows, by default its own.

        Raises: ValueError for an unknown library, and for a certificate without TLS.
        """
        shown = self._shown_certificate(certificate)
        if library == "librdkafka":
            return self._dotted_settings(bootstrap, shown)
        if library == "java":
            return self._java_settings(bootstrap, shown)
        if library in ("kafka-python", "aiokafka"):
            return self._python_settings(bootstrap, library, shown)
        raise ValueError(f"library={library!r} is not one of {', '.join(LIBRARIES)}")

    def _shown_certificate(self, certificate: IssuedCertificate | None) -> Certificates | None:
        """The files of a client."""
        if certificate is None:
            return self.certificates
        if self.certificates is None:
            raise ValueError("certificate: the cluster has no TLS; start it with tls='auto'")
        return self.certificates._replace(
            client=certificate.certificate, client_key=certificate.key, client_store=certificate.store
        )

    def _dotted_settings(self, bootstrap: str, files: Certificates | None) -> dict[str, object]:
        settings: dict[str, object] = {"bootstrap.servers": bootstrap, "security.protocol": self.protocol}
        if files is not None:
            settings["ssl.ca.location"] = str(files.authority)
            settings["ssl.certificate.location"] = str(files.client)
            settings["ssl.key.location"] = str(files.client_key)
        if self.sasl is not None:
            settings["sasl.mechanisms"] = self.sasl.mechanism
            settings |= self._librdkafka_login(self.sasl)
        return settings

    def _java_settings(self, bootstrap: str, files: Certificates | None) -> dict[str, object]:
        settings: dict[str, object] = {"bootstrap.servers": bootstrap, "security.protocol": self.protocol}
        if files is not None:
            stores = {"truststore": files.authority, "keystore": files.client_store}
            for store, path in stores.items():
                settings |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(path)}
        if self.sasl is not None:
            names = ("username", "password") if self.issuer is None else ("clientId", "clientSecret")
            login = f'{names[0]}="{self.sasl.user}" {names[1]}="{self.sasl.password}"'
            settings["sasl.mechanism"] = self.sasl.mechanism
            settings["sasl.jaas.config"] = f"{self.sasl.login_module} required {login};"
        if self.issuer is not None:
            settings["sasl.login.callback.handler.class"] = _LOGIN_HANDLER
            settings["sasl.oauthbearer.token.endpoint.url"] = self._require_token_endpoint()
        return settings

    def _librdkafka_login(self, sasl: SaslUser) -> dict[str, object]:
        if self.issuer is None:
            return {"sasl.username": sasl.user, "sasl.password": sasl.password}
        return {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": sasl.user,
            "sasl.oauthbearer.client.secret": sasl.password,
            "sasl.oauthbearer.token.endpoint.url": self._require_token_endpoint(),
        }

    def _require_token_endpoint(self) -> str:
        if self.token_endpoint_url is None:
            raise RuntimeError("the token endpoint is not running: start the cluster first")
        return self.token_endpoint_url

    def _python_settings(self, bootstrap: str, library: str, files: Certificates | None) -> dict[str, object]:
        settings: dict[str, object] = {"bootstrap_servers": bootstrap, "security_protocol": self.protocol}
        if files is not None and library == "aiokafka":
            context = ssl.create_default_context(cafile=files.authority)
            context.load_cert_chain(files.client, files.client_key)
            settings["ssl_context"] = context
        elif files is not None:
            settings["ssl_cafile"] = str(files.authority)
            settings["ssl_certfile"] = str(files.client)
            settings["ssl_keyfile"] = str(files.client_key)
        if self.sasl is not None:
            settings["sasl_mechanism"] = self.sasl.mechanism
        if self.sasl is not None and self.issuer is None:  # The caller adds the provider of tokens.
            settings |= {"sasl_plain_username": self.sasl.user, "sasl_plain_password": self.sasl.password}
        return settings


def _parse_sasl(text: str) -> SaslUser:
    if text == OAUTHBEARER:
        return SaslUser(OAUTHBEARER, "client", "client")
    match = _USER.fullmatch(text)
    if match is None:
        raise ConfigError("sasl: expected MECHANISM USER:PASSWORD, as SCRAM-SHA-512 alice:PASSWORD")
    if match["mechanism"] not in MECHANISMS:
        raise ConfigError(f"sasl: {match['mechanism']!r} is not one of {', '.join(MECHANISMS)}")
    return SaslUser(match["mechanism"], match["user"], match["password"])
