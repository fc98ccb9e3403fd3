"""Recursive-descent parser of display filters; the docstring of each method has its grammar rule."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kwire.capture.display_filter.expression import (
    ALL,
    ANY,
    BooleanOperation,
    Comparison,
    Negation,
    Presence,
    Truthiness,
)
from kwire.capture.display_filter.fields import WIRESHARK, FieldKind, FilterField, filter_fields
from kwire.capture.display_filter.operands import Operand, OperandError, TimeOfDay, parse_operand, suggest_name
from kwire.capture.display_filter.tokenizer import END, QUOTED, SIGN, WORD, FilterError, Token, tokenize
from kwire.regex import Pattern, PatternError

if TYPE_CHECKING:
    from kwire.capture.display_filter.expression import FilterExpression
    from kwire.capture.display_filter.fields import Values

_DEPTH_MAX = 100
_CONTAINS = "contains"
_KEYWORDS = frozenset({"and", "or", "not", "in"})
_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_OPERATORS = ("=", "==", "!=", "<", "<=", ">", ">=", "~", "!~")
# The words that Wireshark has for operators.
_WIRESHARK_OPERATORS = {
    "eq": "=",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "matches": "~",
    "contains": _CONTAINS,
}
_TEXTS = frozenset({FieldKind.TEXT, FieldKind.API, FieldKind.ERROR, FieldKind.STATUS})
_DAY_NS = 86_400 * 10**9


def parse_filter(text: str, level: str) -> FilterExpression:
    """Parse the text of a display filter for rows of the level.

    Raises: FilterError for invalid syntax.
    """
    return _Parser(text, filter_fields(level), f"the level {level}").parse()


def parse_filter_of_fields(text: str, fields: Mapping[str, FilterField], subject: str) -> FilterExpression:
    """Parse a filter on other fields than those of a level, by name in lower case; subject: what has them, for errors.

    Raises: FilterError for invalid syntax.
    """
    return _Parser(text, fields, subject).parse()


class _Parser:
    """Parses the tokens in one pass."""

    def __init__(self, text: str, fields: Mapping[str, FilterField], subject: str) -> None:
        self._text = text
        self._subject = subject
        self._fields = fields
        self._tokens = tokenize(text)
        self._at = 0
        self._depth = 0

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _advance(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != END:
            self._at += 1
        return token

    def parse(self) -> FilterExpression:
        """Filter = or, end."""
        expression = self._parse_or()
        if self._token.kind != END:
            raise self._error(f"expected 'and', 'or' or the end, found {self._token.description}")
        return expression

    def _parse_or(self) -> FilterExpression:
        """Or = and, { ("or" | "||"), and }."""
        parts = [self._parse_and()]
        while self._accept("or", "||"):
            parts.append(self._parse_and())
        return _join(ANY, parts)

    def _parse_and(self) -> FilterExpression:
        """And = not, { ("and" | "&&"), not }."""
        parts = [self._parse_not()]
        while self._accept("and", "&&"):
            parts.append(self._parse_not())
        return _join(ALL, parts)

    def _parse_not(self) -> FilterExpression:
        """Not = ("not" | "!"), not | "(", or, ")" | comparison."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._error(f"more than {_DEPTH_MAX} levels of nesting")
        if self._accept("not", "!"):
            expression: FilterExpression = Negation(self._parse_not())
        elif self._accept("", "("):
            expression = self._parse_or()
            self._expect(")", "'and', 'or' or )")
        else:
            expression = self._parse_comparison()
        self._depth -= 1
        return expression

    def _parse_comparison(self) -> FilterExpression:
        """Comparison = field, [ ( operator | word ), value | [ "not" ], "in", "(", value, { ",", value }, ")" ]."""
        field = self._parse_field()
        token = self._token
        if token.keyword in _WIRESHARK_OPERATORS:
            token = token._replace(kind=SIGN, text=_WIRESHARK_OPERATORS[token.keyword])
        if token.kind == SIGN and token.text in (*_OPERATORS, _CONTAINS):
            self._advance()
            return self._parse_operand(field, token)
        is_negative = token.keyword == "not" and self._tokens[self._at + 1].keyword == "in"
        if is_negative:
            self._advance()
        if self._accept("in", ""):
            return self._parse_list(field, is_negative=is_negative)
        return Truthiness(field)

    def _parse_field(self) -> FilterField:
        token = self._token
        if token.kind != WORD or token.keyword in _KEYWORDS:
            raise self._error(f"expected a field, such as api or latency, found {token.description}")
        field = self._fields.get(token.keyword)
        if field is None:
            equivalent = WIRESHARK.get(token.keyword)
            is_wireshark_field = equivalent in self._fields
            hint = f"; here it is {equivalent}" if is_wireshark_field else suggest_name(token.text, self._fields)
            hint = hint or f"; there are {', '.join(self._fields)}"
            raise self._error(f"{token.text!r} is no field of {self._subject}{hint}")
        self._advance()
        return field

    def _parse_operand(self, field: FilterField, sign: Token) -> FilterExpression:
        token = self._parse_value()
        if sign.text == _CONTAINS:
            substring = token.text
            texts = self._texts(field, sign)
            return Comparison(field, texts, lambda value: isinstance(value, str) and substring in value)
        is_negative = sign.text in ("!=", "!~")
        if sign.text in ("~", "!~"):
            return Comparison(field, self._texts(field, sign), self._compile_pattern(token), is_negative)
        if token.keyword == "null":
            if sign.text not in ("=", "==", "!="):
                raise self._error(f"null is compared by = and !=, not by {sign.text}", token)
            return Presence(field, is_present=is_negative)
        operand = self._convert_operand(field, token)
        if sign.text in _ORDERS:
            if isinstance(operand, str):
                raise self._error(f"{sign.text} compares numbers and times; {field.name} is {field.kind.value}", sign)
            holds = _compare_with(_ORDERS[sign.text], operand)
            return Comparison(field, _field_values(field, operand), holds, operand=(sign.text, operand))
        comparison = "!=" if is_negative else "=", operand
        return Comparison(field, _field_values(field, operand), _equals(operand), is_negative, comparison)

    def _parse_list(self, field: FilterField, *, is_negative: bool) -> FilterExpression:
        self._expect("(", "( and a list of values")
        alternatives = [self._parse_list_item(field)]
        while self._accept("", ","):
            alternatives.append(self._parse_list_item(field))
        self._expect(")", ", or )")
        expression = _join(ANY, alternatives)
        if not is_negative:
            return expression
        # As for `!=`: a row without a value does not match.
        return BooleanOperation(ALL, (Presence(field, is_present=True), Negation(expression)))

    def _parse_list_item(self, field: FilterField) -> FilterExpression:
        token = self._parse_value()
        if token.keyword == "null":
            raise self._error("null is not allowed in a list; write 'or ... = null'", token)
        operand = self._convert_operand(field, token)
        return Comparison(field, _field_values(field, operand), _equals(operand), operand=("=", operand))

    def _parse_value(self) -> Token:
        token = self._token
        if token.kind not in (WORD, QUOTED) or token.keyword in _KEYWORDS:
            raise self._error(f"expected a value, found {token.description}; put signs and spaces in quotes")
        return self._advance()

    def _convert_operand(self, field: FilterField, token: Token) -> Operand:
        try:
            return parse_operand(field, token.text)
        except OperandError as error:
            raise self._error(str(error), token) from error

    def _texts(self, field: FilterField, sign: Token) -> Values:
        if field.kind not in _TEXTS:
            raise self._error(f"{sign.text} searches text; {field.name} is {field.kind.value}", sign)
        return field.texts

    def _compile_pattern(self, token: Token) -> Callable[[object], bool]:
        try:
            pattern = Pattern(token.text)
        except PatternError as error:
            at = token.at + (token.kind == QUOTED) + max(token.text.find(error.fragment), 0)
            raise FilterError(f"the pattern: {error}", self._text, at) from error
        return lambda value: isinstance(value, str) and pattern.search(value)

    def _accept(self, word: str, sign: str) -> bool:
        token = self._token
        is_accepted = bool(word and token.keyword == word) or (token.kind == SIGN and token.text == sign)
        if is_accepted:
            self._advance()
        return is_accepted

    def _expect(self, sign: str, expected: str) -> None:
        if not self._accept("", sign):
            raise self._error(f"expected {expected}, found {self._token.description}")

    def _error(self, message: str, token: Token | None = None) -> FilterError:
        token = token or self._token
        return FilterError(message, self._text, token.at, token.size)


def _join(kind: str, parts: list[FilterExpression]) -> FilterExpression:
    """The only part, or the parts joined by `ALL` or `ANY`."""
    return parts[0] if len(parts) == 1 else BooleanOperation(kind, tuple(parts))


def _field_values(field: FilterField, operand: Operand) -> Values:
    return field.texts if isinstance(operand, str) else field.numbers


def _equals(operand: Operand) -> Callable[[object], bool]:
    if isinstance(operand, TimeOfDay):
        return _compare_with(operator.eq, operand)
    return lambda value: value == operand


def _compare_with(compare: Callable[[Any, Any], bool], operand: Operand) -> Callable[[object], bool]:
    if isinstance(operand, TimeOfDay):
        ns = operand.ns
        return lambda value: isinstance(value, int) and compare(value % _DAY_NS, ns)
    return lambda value: compare(value, operand)
