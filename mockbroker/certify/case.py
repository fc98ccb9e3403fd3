"""A case: what a source demands of clients, the cluster, and the function that plays it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import cleandoc
from typing import Any, NamedTuple, Required, TypedDict, Unpack

import msgspec

from mockbroker.certify.driver.names import CAPABILITIES
from mockbroker.certify.driver.settings import SETTINGS
from mockbroker.certify.verdicts import Level

__all__ = ["FAMILIES", "Case", "ClusterPlan", "Level", "Source", "case"]

#: The families, in the order of the table.
FAMILIES = ("connecting", "producing", "fetching", "groups", "share")
#: The default limit of a case, seconds.
TIMEOUT_S = 15.0
#: Plays a case with a `CaseRun`.
CaseFunction = Callable[[Any], None]
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)+")


class Source(NamedTuple):
    """Where the rule stands. document: "KIP-932"; section: its heading; contract: of the Java client, its class."""

    document: str
    section: str = ""
    contract: str = ""

    def __str__(self) -> str:
        section = f', "{self.section}"' if self.section else ""
        return f"{self.document}{section}{'; ' if self.contract else ''}{self.contract}"


class ClusterPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster of a case. topics: partition counts; the other fields are arguments of `mockbroker.Cluster`.

    On a real Kafka only `topics` has an effect, and cases with other fields than `nodes` are not played there.
    """

    nodes: int = 1
    topics: Mapping[str, int] = {}
    properties: Mapping[str, object] = {}
    features: tuple[str, ...] = ()
    versions: str | Mapping[str, int] | None = None
    tls: str | None = None
    sasl: str | None = None
    add_scram: tuple[str, ...] = ()


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A case. broker: what the broker does, the docstring of the function; timeout_s: its limit, seconds.

    quick: a part of the subset that `--quick` plays. decided_by: the APIs whose last exchanges decide where an
    expectation names none.
    """

    id: str
    title: str
    level: Level
    rule: str
    source: Source
    function: CaseFunction
    needs: tuple[str, ...] = ()
    settings_needed: tuple[str, ...] = ()
    cluster: ClusterPlan = ClusterPlan()
    on_kafka: bool = False
    quick: bool = False
    timeout_s: float = TIMEOUT_S
    decided_by: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]

    @property
    def broker(self) -> str:
        """What the broker does."""
        return cleandoc(self.function.__doc__ or "")


class CaseFields(TypedDict, total=False):
    """The fields of `Case` that the decorator has."""

    title: Required[str]
    level: Required[Level]
    rule: Required[str]
    source: Required[Source]
    needs: tuple[str, ...]
    settings_needed: tuple[str, ...]
    cluster: ClusterPlan
    on_kafka: bool
    quick: bool
    timeout_s: float
    decided_by: tuple[str, ...]


def case(case_id: str, /, **fields: Unpack[CaseFields]) -> Callable[[CaseFunction], Case]:
    """Make a case of a function, with the fields of `Case`. Raises: ValueError for a wrong case."""

    def make(function: CaseFunction) -> Case:
        made = Case(id=case_id, function=function, **fields)
        check_case(made)
        return made

    return make


def check_case(checked: Case) -> None:
    """Raises: ValueError for a wrong id, an unknown capability or setting, and missing texts."""
    if not _ID.fullmatch(checked.id) or checked.family not in FAMILIES:
        raise ValueError(f"case id {checked.id!r}: expected FAMILY.SUBJECT.NAME with a family of {', '.join(FAMILIES)}")
    for kind, names, known in (
        ("capability", checked.needs, CAPABILITIES),
        ("setting", checked.settings_needed, SETTINGS),
    ):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"case {checked.id}: unknown {kind} {', '.join(unknown)}")
    for name, text in (("title", checked.title), ("rule", checked.rule), ("docstring", checked.broker)):
        if not text:
            raise ValueError(f"case {checked.id}: the {name} is missing")
    if not checked.source.document:
        raise ValueError(f"case {checked.id}: the source is missing")
