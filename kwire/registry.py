"""From names, API keys and editions to message classes; a module is imported when it is first asked for."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

import msgspec

from kwire.codec_table import Codec
from kwire.errors import UnsupportedVersion
from kwire.messages.index import APIS, MODULES

DEFAULT_EDITION = "4.3"

#: The editions there are; each but the default lies over it and has only the messages in which it differs.
EDITIONS = tuple(MODULES)

#: The keys of all APIs of the default edition, ascending.
API_KEYS = tuple(APIS)

#: The API whose response keeps header version 0, so that any client can read why its version was refused (KIP-511).
_API_VERSIONS = 18


@cache
def codec_of_name(name: str, edition: str = DEFAULT_EDITION) -> Codec:
    """The codec of a message by its name; what an edition does not have itself is that of the default edition.

    Raises: UnsupportedVersion when there is no such edition or message.
    """
    modules = MODULES.get(edition)
    if modules is None:
        raise UnsupportedVersion(name, f"edition {edition!r} is not one of {', '.join(EDITIONS)}")
    dotted = modules.get(name) or MODULES[DEFAULT_EDITION].get(name)
    if dotted is None:
        raise UnsupportedVersion(name, f"is not a message of edition {edition}")
    codecs: dict[str, Codec] = import_module(dotted).CODECS
    return codecs[name]


@cache
def codec_of_class(message: type[msgspec.Struct]) -> Codec:
    """The codec of a message class.

    Raises: UnsupportedVersion when the class is not a generated message.
    """
    codecs: dict[str, Codec] = getattr(sys.modules.get(message.__module__), "CODECS", {})
    codec = codecs.get(message.__name__)
    if codec is None or codec.message is not message:
        raise UnsupportedVersion(message.__name__, "is not a message class of kwire")
    return codec


def message_class(name: str, edition: str = DEFAULT_EDITION) -> type[msgspec.Struct]:
    """The class of a message by its name in the schema, such as ShareFetchRequest.

    Raises: UnsupportedVersion when there is no such edition or message.
    """
    return codec_of_name(name, edition).message


def api_name(api_key: int) -> str:
    """The name of an API, such as ShareFetch.

    Raises: UnsupportedVersion when no API has the key.
    """
    api = APIS.get(api_key)
    if api is None:
        raise UnsupportedVersion("", f"no API has the key {api_key}")
    return api.name


def api_versions(api_key: int) -> tuple[int, int]:
    """The first and last version of an API in the default edition.

    Raises: UnsupportedVersion when no API has the key.
    """
    api_name(api_key)
    return APIS[api_key].low, APIS[api_key].high


def request_class(api_key: int, edition: str = DEFAULT_EDITION) -> type[msgspec.Struct]:
    """The request class of an API.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    return message_class(f"{api_name(api_key)}Request", edition)


def response_class(api_key: int, edition: str = DEFAULT_EDITION) -> type[msgspec.Struct]:
    """The response class of an API.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    return message_class(f"{api_name(api_key)}Response", edition)


def header_versions(api_key: int, version: int) -> tuple[int, int]:
    """The versions of the request header and of the response header that go with an API's version.

    Versions outside the API's range are answered too: a broker reads the header before it knows what it refuses.

    Raises: UnsupportedVersion when no API has the key.
    """
    api_name(api_key)
    flexible = version >= APIS[api_key].first_flexible
    return (2 if flexible else 1), (1 if flexible and api_key != _API_VERSIONS else 0)
