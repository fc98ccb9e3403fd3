"""KIP-932 as each revision drew it: what an edition speaks, and what it decides.

An edition is a table of APIs, in which the share APIs speak its own messages, and one value of rules. Handlers and
state machines are the same for all of them and know none by its name. docs/kip-932.md tells the history.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kwire.registry import EDITIONS as MESSAGE_EDITIONS
from mockbroker.config_keys import ConfigError
from mockbroker.coordinators.edition_records import EditionRecords
from mockbroker.routes import Route
from mockbroker.state.share_rules import ShareRules


class Edition(msgspec.Struct, frozen=True):
    """One row of the table of editions.

    defaults: of the broker's configuration, where they are others. records: in which share groups and their state are
    kept, None for the released ones.
    """

    name: str
    routes: Mapping[int, Route]
    rules: ShareRules
    defaults: Mapping[str, str] = {}
    records: EditionRecords | None = None


def edition_of(name: str) -> Edition:
    """An edition by its name; the released one needs nothing of this package, and is not asked for here.

    Raises: ConfigError when there is none.
    """
    from mockbroker.editions import drafts, early_access

    if name == early_access.EDITION:
        return Edition(name, early_access.routes(), early_access.RULES, records=early_access.RECORDS)
    if name in drafts.RULES:
        return Edition(name, drafts.routes(name), drafts.RULES[name], drafts.DEFAULTS, drafts.RECORDS.get(name))
    raise ConfigError(f"share-edition: {name!r} is not one of {', '.join(MESSAGE_EDITIONS)}")
