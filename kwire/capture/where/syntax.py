"""The grammar of filters; what each rule reads stands in its docstring."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kwire.capture.where.condition import ALL, ANY, Comparison, Condition, Negation, Presence, Several, Truth
from kwire.capture.where.fields import WIRESHARK, Field, Kind, fields
from kwire.capture.where.operands import Operand, OperandError, TimeOfDay, nearest, operand
from kwire.capture.where.tokens import END, QUOTED, SIGN, WORD, FilterError, Token, tokens
from kwire.regex import Pattern, PatternError

if TYPE_CHECKING:
    from kwire.capture.where.fields import Values

_DEPTH_MAX = 100
_CONTAINS = "contains"
_KEYWORDS = frozenset({"and", "or", "not", "in"})
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPERATORS = ("=", "==", "!=", "<", "<=", ">", ">=", "~", "!~")
# What people of Wireshark write instead.
_WORDS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "matches": "~", "contains": _CONTAINS}
_TEXTS = frozenset({Kind.TEXT, Kind.API, Kind.ERROR, Kind.STATUS})
_DAY_NS = 86_400 * 10**9


def parse(text: str, level: str) -> Condition:
    """The condition that the text states about rows of the level.

    Raises: FilterError when it states none.
    """
    return _Parser(text, level).whole()


class _Parser:
    """Goes through the tokens once."""

    def __init__(self, text: str, level: str) -> None:
        self._text = text
        self._level = level
        self._fields = fields(level)
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != END:
            self._at += 1
        return token

    def whole(self) -> Condition:
        """Whole = any, end."""
        found = self._any()
        if self._now.kind != END:
            raise self._error(f"expected 'and', 'or' or the end, found {self._now.shown}")
        return found

    def _any(self) -> Condition:
        """Any = all, { ("or" | "||"), all }."""
        parts = [self._all()]
        while self._takes("or", "||"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Several(ANY, tuple(parts))

    def _all(self) -> Condition:
        """All = one, { ("and" | "&&"), one }."""
        parts = [self._one()]
        while self._takes("and", "&&"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Several(ALL, tuple(parts))

    def _one(self) -> Condition:
        """One = ("not" | "!"), one | "(", any, ")" | comparison."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._error(f"more than {_DEPTH_MAX} parts are inside each other")
        if self._takes("not", "!"):
            found: Condition = Negation(self._one())
        elif self._takes("", "("):
            found = self._any()
            self._expect(")", "'and', 'or' or )")
        else:
            found = self._comparison()
        self._depth -= 1
        return found

    def _comparison(self) -> Condition:
        """Comparison = field, [ ( operator | word ), value | [ "not" ], "in", "(", value, { ",", value }, ")" ]."""
        field = self._field()
        token = self._now
        if token.keyword in _WORDS:
            token = token._replace(kind=SIGN, text=_WORDS[token.keyword])
        if token.kind == SIGN and token.text in (*_OPERATORS, _CONTAINS):
            self._next()
            return self._compared(field, token)
        is_negative = token.keyword == "not" and self._tokens[self._at + 1].keyword == "in"
        if is_negative:
            self._next()
        if self._takes("in", ""):
            return self._one_of(field, is_negative=is_negative)
        return Truth(field)

    def _field(self) -> Field:
        token = self._now
        if token.kind != WORD or token.keyword in _KEYWORDS:
            raise self._error(f"expected a field, as api or latency, found {token.shown}")
        found = self._fields.get(token.keyword)
        if found is None:
            meant = WIRESHARK.get(token.keyword)
            near = f"; here it is {meant}" if meant in self._fields else nearest(token.text, self._fields)
            known = near or f"; there are {', '.join(self._fields)}"
            raise self._error(f"{token.text!r} is no field of the level {self._level}{known}")
        self._next()
        return found

    def _compared(self, field: Field, sign: Token) -> Condition:
        token = self._value()
        if sign.text == _CONTAINS:
            part = token.text
            return Comparison(field, self._texts(field, sign), lambda value: isinstance(value, str) and part in value)
        is_negative = sign.text in ("!=", "!~")
        if sign.text in ("~", "!~"):
            return Comparison(field, self._texts(field, sign), self._pattern(token), is_negative)
        if token.keyword == "null":
            if sign.text not in ("=", "==", "!="):
                raise self._error(f"null is compared by = and !=, not by {sign.text}", token)
            return Presence(field, is_present=is_negative)
        wanted = self._operand(field, token)
        if sign.text in _ORDERS:
            if isinstance(wanted, str):
                raise self._error(f"{sign.text} compares numbers and times; {field.name} is {field.kind.value}", sign)
            order = _ordered(_ORDERS[sign.text], wanted)
            return Comparison(field, _values(field, wanted), order, asked=(sign.text, wanted))
        asked = "!=" if is_negative else "=", wanted
        return Comparison(field, _values(field, wanted), _equal(wanted), is_negative, asked)

    def _one_of(self, field: Field, *, is_negative: bool) -> Condition:
        self._expect("(", "( and a list of values")
        each = [self._compared_to(field)]
        while self._takes("", ","):
            each.append(self._compared_to(field))
        self._expect(")", ", or )")
        found = each[0] if len(each) == 1 else Several(ANY, tuple(each))
        if not is_negative:
            return found
        # As for != : a row without a value is not among those that are not in the list.
        return Several(ALL, (Presence(field, is_present=True), Negation(found)))

    def _compared_to(self, field: Field) -> Condition:
        token = self._value()
        if token.keyword == "null":
            raise self._error("null stands in no list; say 'or ... = null'", token)
        wanted = self._operand(field, token)
        return Comparison(field, _values(field, wanted), _equal(wanted), asked=("=", wanted))

    def _value(self) -> Token:
        token = self._now
        if token.kind not in (WORD, QUOTED) or token.keyword in _KEYWORDS:
            raise self._error(f"expected a value, found {token.shown}; signs and spaces go in quotes")
        return self._next()

    def _operand(self, field: Field, token: Token) -> Operand:
        try:
            return operand(field, token.text)
        except OperandError as error:
            raise self._error(str(error), token) from error

    def _texts(self, field: Field, sign: Token) -> Values:
        if field.kind not in _TEXTS:
            raise self._error(f"{sign.text} searches text; {field.name} is {field.kind.value}", sign)
        return field.texts

    def _pattern(self, token: Token) -> Callable[[object], bool]:
        try:
            pattern = Pattern(token.text)
        except PatternError as error:
            inside = max(token.text.find(error.fragment), 0)
            raise FilterError(
                f"the pattern: {error}", self._text, token.at + (token.kind == QUOTED) + inside
            ) from error
        return lambda value: isinstance(value, str) and pattern.search(value)

    def _takes(self, word: str, sign: str) -> bool:
        token = self._now
        found = bool(word and token.keyword == word) or (token.kind == SIGN and token.text == sign)
        if found:
            self._next()
        return found

    def _expect(self, sign: str, wanted: str) -> None:
        if not self._takes("", sign):
            raise self._error(f"expected {wanted}, found {self._now.shown}")

    def _error(self, what: str, token: Token | None = None) -> FilterError:
        token = token or self._now
        return FilterError(what, self._text, token.at, token.size)


def _values(field: Field, wanted: Operand) -> Values:
    return field.texts if isinstance(wanted, str) else field.numbers


def _equal(wanted: Operand) -> Callable[[object], bool]:
    if isinstance(wanted, TimeOfDay):
        return _ordered(operator.eq, wanted)
    return lambda value: value == wanted


def _ordered(compare: Callable[[Any, Any], bool], wanted: Operand) -> Callable[[object], bool]:
    if isinstance(wanted, TimeOfDay):
        ns = wanted.ns
        return lambda value: isinstance(value, int) and compare(value % _DAY_NS, ns)
    return lambda value: compare(value, wanted)
