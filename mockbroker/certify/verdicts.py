"""Verdicts of cases, by the level of the rule."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """How strongly the source demands what a case asserts, in the words of RFC 2119."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


class Verdict(StrEnum):
    """The result of a case with a client."""

    OK = "OK"
    NON_STRICT = "NON-STRICT"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INFORMATIONAL = "INFORMATIONAL"
    NOT_EXERCISED = "NOT-EXERCISED"
    ERROR = "ERROR"


#: The verdict of an expectation that is not met.
UNMET = {Level.MUST: Verdict.FAILED, Level.SHOULD: Verdict.NON_STRICT, Level.MAY: Verdict.INFORMATIONAL}

#: The verdicts by which a client passed a case, and by which it did not: in the others it was not judged.
PASSED = frozenset({Verdict.OK, Verdict.NON_STRICT})
BAD = frozenset({Verdict.FAILED, Verdict.TIMEOUT})
