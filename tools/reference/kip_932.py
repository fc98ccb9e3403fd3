"""The tables of docs/kip-932.md, generated from the editions: rules, message versions, configurations.

The rest of the page is written by hand; a generated table is between two comments.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from kwire.messages.index import LAYERS, MODULES
from kwire.registry import RELEASES, api_name
from mockbroker.config.keys import Scope
from mockbroker.config.releases import EDITION_RELEASE
from mockbroker.editions import configs, load_edition
from mockbroker.editions.configs import DraftConfig
from mockbroker.editions.edition_route import EDITION_ROUTES
from mockbroker.state.share.share_rules import RELEASED, SHARE_EDITIONS, ShareRules
from tools.reference.tables import field_texts, render_table, replace_blocks, value_text, version_range

PAGE = Path(__file__).parents[2] / "docs" / "kip-932.md"

_FIND_COORDINATOR = 10
_SHARE_APIS = (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92)
_ANY = "any"
_SHORT = {"4.0-early-access": "4.0"}


def render_page() -> str:
    """The whole page, Markdown, with new tables.

    Raises: ValueError when the page has an unknown table or lacks one.
    """
    return replace_blocks(PAGE, {"configs": _config_table, "rules": _rule_table, "wire": _version_table})


def _short_name(edition: str) -> str:
    return _SHORT.get(edition, edition.removeprefix("kip932-"))


def _config_table() -> str:
    """Each configuration that a revision lists; revisions with equal rows share one."""
    listed: dict[DraftConfig, list[str]] = defaultdict(list)
    for edition, config in configs.all_configs():
        listed[config].append(_short_name(edition))
    lines = []
    for config, editions in listed.items():
        default = config.page_default if config.page_default is not None else config.default
        now = "none" if config.released is None else f"`{config.released}`"
        scope = "group" if config.scope is Scope.GROUP else "broker"
        cells = [", ".join(editions), scope, f"`{config.name}`", _default_text(default), config.valid or _ANY, now]
        lines.append(cells)
    return render_table(["edition", "of", "name", "default", "range", "in 4.3"], lines)


def _default_text(default: str | None) -> str:
    return "as in 4.3" if default is None else default or "empty"


def _version_table() -> str:
    """By API and edition, the versions that are served, and whether a message is the edition's own."""
    served = {edition: load_edition(edition).routes for edition in SHARE_EDITIONS}
    rows = []
    for key in (_FIND_COORDINATOR, *_SHARE_APIS):
        cells = [version_range(EDITION_ROUTES[key].versions)]
        for edition in SHARE_EDITIONS:
            route = served[edition].get(key)
            cells.append("none" if route is None else version_range(route.versions) + _message_origin(key, edition))
        rows.append([str(key), api_name(key), *cells])
    return render_table(["key", "API", EDITION_RELEASE, *map(_short_name, SHARE_EDITIONS)], rows)


def _message_origin(key: int, edition: str) -> str:
    """The edition whose messages an API has: its own, or an edition that it extends."""
    name = api_name(key, edition)
    for layer in LAYERS[edition]:
        if f"{name}Request" in MODULES[layer] or f"{name}Response" in MODULES[layer]:
            return "" if layer in RELEASES else " own" if layer == edition else f" as {_short_name(layer)}"
    raise AssertionError(name)


def _rule_table() -> str:
    """Every field of the rules in which some edition differs, with the text of its docstring."""
    values = {edition: load_edition(edition).rules for edition in SHARE_EDITIONS}
    sections = []
    for subject in ShareRules.__struct_fields__:
        released = getattr(RELEASED, subject)
        rows = []
        for name, text in field_texts(type(released)).items():
            by_value: dict[str, list[str]] = defaultdict(list)
            for edition in SHARE_EDITIONS:
                value = getattr(getattr(values[edition], subject), name)
                if value != getattr(released, name):
                    by_value[_value_text(name, value)].append(_short_name(edition))
            if by_value:
                others = "; ".join(f"{value} in {', '.join(editions)}" for value, editions in by_value.items())
                rows.append([f"`{subject}.{name}`", text, _value_text(name, getattr(released, name)), others])
        heading = (type(released).__doc__ or "").splitlines()[0].removesuffix(".")
        sections.append(f"**{heading}**\n\n{render_table(['rule', 'meaning', EDITION_RELEASE, 'otherwise'], rows)}")
    return "\n".join(sections)


def _value_text(name: str, value: object) -> str:
    return "all" if value is None and name == "config_names" else value_text(value)
