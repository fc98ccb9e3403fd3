"""Documentation texts of configurations, which DescribeConfigs returns on request; read from config_docs.tsv."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from mockbroker.config.keys import Scope


@cache
def config_docs(scope: Scope) -> Mapping[str, str]:
    """One sentence for each configuration of a scope, by name."""
    table = pkgutil.get_data("mockbroker.config", "config_docs.tsv")
    assert table is not None
    rows = (line.split("\t") for line in table.decode("utf-8").splitlines()[1:])
    return MappingProxyType({name: text for row_scope, name, text in rows if row_scope == scope.value})
