"""Share groups as Apache Kafka 4.0.0 had them: early access, version 0 of every API, no administration of offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.registry import DEFAULT_EDITION
from mockbroker.editions.dialect import Dialect
from mockbroker.editions.recast import recast
from mockbroker.handlers import ROUTES
from mockbroker.routes import Route
from mockbroker.state.share_rules import ShareRules

EDITION = "4.0-early-access"

RULES = ShareRules(joining_bumps=1)

#: The share APIs, and the released versions as which they are handled.
_HANDLED_AS = {76: 1, 77: 1, 78: 1, 79: 1, 83: 0, 84: 0, 85: 0, 86: 0, 87: 0}
#: Offsets could not be described, altered or deleted yet.
_LATER = frozenset({90, 91, 92})
#: A fetch said nothing of records: all that its bytes held were acquired, in batches as they came.
_NO_LIMIT = 0x7FFFFFFF


def routes() -> Mapping[int, Route]:
    """The table of APIs."""
    return {key: _line(route) for key, route in ROUTES.items() if key not in _LATER}


def _line(route: Route) -> Route:
    handled_as = _HANDLED_AS.get(route.api_key)
    if handled_as is None:
        return route
    arrive = (lambda request: without_limits(request, EDITION)) if route.name == "ShareFetch" else None
    return Dialect(route, EDITION, {0: handled_as}, arrive=arrive)


def without_limits(request: Any, edition: str) -> Any:
    """The ShareFetch of an edition in which fetches had no limit of records."""
    asked = recast("ShareFetchRequest", edition, DEFAULT_EDITION)(request)
    asked.max_records = asked.batch_size = _NO_LIMIT
    return asked
