"""TLS and SASL in one word each: the configurations of the brokers, and the settings of clients by library."""

from __future__ import annotations

import re
import shutil
import ssl
import tempfile
import weakref
from pathlib import Path
from typing import Literal, NamedTuple

from mockbroker.config.keys import ConfigError
from mockbroker.security.certificates import Certificates, create_certificates

#: The libraries whose names of settings are known.
Library = Literal["librdkafka", "kafka-python", "aiokafka", "java"]
LIBRARIES = ("librdkafka", "kafka-python", "aiokafka", "java")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_USER = re.compile(r"(?P<mechanism>\S+) (?P<user>[^\s:\",\[\]=]+):(?P<password>[^\s\",\[\]]+)")
_MODULES = {"PLAIN": "plain.PlainLoginModule"}
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
    USER:PASSWORD". host: of the brokers, besides the names of this machine.
    Raises: ConfigError for anything else; MissingExtra for TLS without the package cryptography.
    """

    def __init__(self, *, tls: str | None = None, sasl: str | None = None, host: str | None = None) -> None:
        if tls not in (None, "auto"):
            raise ConfigError(f"tls: {tls!r}; expected 'auto'; for other certificates set ssl.keystore.location")
        self.sasl = None if sasl is None else _parse_sasl(sasl)
        self.certificates: Certificates | None = None
        if tls is not None:
            folder = tempfile.mkdtemp(prefix="mockbroker-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.certificates = create_certificates(Path(folder), host=host)

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
        return settings

    def scram_users(self) -> list[str]:
        """The users to create, in the format of `kafka-storage.sh --add-scram`."""
        if self.sasl is None or self.sasl.mechanism == "PLAIN":
            return []
        return [f"{self.sasl.mechanism}=[name={self.sasl.user},password={self.sasl.password}]"]

    def client_settings(self, bootstrap: str, library: Library = "librdkafka") -> dict[str, object]:
        """The settings of a client, by the names of its library. Raises: ValueError for an unknown library."""
        if library == "librdkafka":
            return self._dotted_settings(bootstrap)
        if library == "java":
            return self._java_settings(bootstrap)
        if library in ("kafka-python", "aiokafka"):
            return self._python_settings(bootstrap, library)
        raise ValueError(f"library={library!r} is not one of {', '.join(LIBRARIES)}")

    def _dotted_settings(self, bootstrap: str) -> dict[str, object]:
        settings: dict[str, object] = {"bootstrap.servers": bootstrap, "security.protocol": self.protocol}
        if self.certificates is not None:
            settings["ssl.ca.location"] = str(self.certificates.authority)
            settings["ssl.certificate.location"] = str(self.certificates.client)
            settings["ssl.key.location"] = str(self.certificates.client_key)
        if self.sasl is not None:
            settings["sasl.mechanisms"] = self.sasl.mechanism
            settings |= {"sasl.username": self.sasl.user, "sasl.password": self.sasl.password}
        return settings

    def _java_settings(self, bootstrap: str) -> dict[str, object]:
        settings: dict[str, object] = {"bootstrap.servers": bootstrap, "security.protocol": self.protocol}
        if self.certificates is not None:
            stores = {"truststore": self.certificates.authority, "keystore": self.certificates.client_store}
            for store, path in stores.items():
                settings |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(path)}
        if self.sasl is not None:
            login = f'username="{self.sasl.user}" password="{self.sasl.password}"'
            settings["sasl.mechanism"] = self.sasl.mechanism
            settings["sasl.jaas.config"] = f"{self.sasl.login_module} required {login};"
        return settings

    def _python_settings(self, bootstrap: str, library: str) -> dict[str, object]:
        settings: dict[str, object] = {"bootstrap_servers": bootstrap, "security_protocol": self.protocol}
        if self.certificates is not None and library == "aiokafka":
            context = ssl.create_default_context(cafile=self.certificates.authority)
            context.load_cert_chain(self.certificates.client, self.certificates.client_key)
            settings["ssl_context"] = context
        elif self.certificates is not None:
            settings["ssl_cafile"] = str(self.certificates.authority)
            settings["ssl_certfile"] = str(self.certificates.client)
            settings["ssl_keyfile"] = str(self.certificates.client_key)
        if self.sasl is not None:
            settings["sasl_mechanism"] = self.sasl.mechanism
            settings |= {"sasl_plain_username": self.sasl.user, "sasl_plain_password": self.sasl.password}
        return settings


def _parse_sasl(text: str) -> SaslUser:
    match = _USER.fullmatch(text)
    if match is None:
        raise ConfigError("sasl: expected MECHANISM USER:PASSWORD, as SCRAM-SHA-512 alice:PASSWORD")
    if match["mechanism"] not in MECHANISMS:
        raise ConfigError(f"sasl: {match['mechanism']!r} is not one of {', '.join(MECHANISMS)}")
    return SaslUser(match["mechanism"], match["user"], match["password"])
