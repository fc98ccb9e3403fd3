"""Editions of KIP-932: messages, rules and records of each revision.

An edition is a table of APIs, in which the share APIs use its own messages, and one value of rules. Handlers and state
machines are the same for all editions and do not depend on an edition's name. docs/kip-932.md describes the history.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mockbroker.cluster_services.edition_records import EditionRecords
from mockbroker.config.keys import ConfigError
from mockbroker.engine.routes import Route
from mockbroker.state.share.share_rules import SHARE_EDITIONS, ShareRules


class Edition(msgspec.Struct, frozen=True):
    """One row of the table of editions.

    defaults: different defaults of the broker's configuration. records: the record formats of share groups and their
    state, None for the released ones.
    """

    name: str
    routes: Mapping[int, Route]
    rules: ShareRules
    defaults: Mapping[str, str] = {}
    records: EditionRecords | None = None


def load_edition(name: str) -> Edition:
    """The edition with a name; the released one does not use this package, and is not loaded here.

    Raises: ConfigError if there is none.
    """
    from mockbroker.editions import drafts, early_access

    if name == early_access.EDITION:
        return Edition(name, early_access.routes(), early_access.RULES, records=early_access.RECORDS)
    if name in drafts.RULES:
        return Edition(name, drafts.routes(name), drafts.RULES[name], drafts.DEFAULTS, drafts.RECORDS.get(name))
    raise ConfigError(f"share-edition: {name!r} is not one of {', '.join(SHARE_EDITIONS)}")
