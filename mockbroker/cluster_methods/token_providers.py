"""Token providers of kafka-python and aiokafka, in the form of each, for clients of a running cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.cluster_methods.oauth import ClusterOAuth


def kafka_python_provider(oauth: ClusterOAuth, subject: str) -> object:
    """A provider for `sasl_oauth_token_provider` of kafka-python. Raises: ImportError without it."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            """A new token."""
            return oauth.token(subject)

    return TokenProvider()


def aiokafka_provider(oauth: ClusterOAuth, subject: str) -> object:
    """A provider for `sasl_oauth_token_provider` of aiokafka. Raises: ImportError without it."""
    from aiokafka.abc import AbstractTokenProvider

    class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            """A new token."""
            return await asyncio.to_thread(oauth.token, subject)

    return TokenProvider()
