"""The language of RE2, as Kafka's brokers read SubscribedTopicRegex: from a text to a tree.

Source: RE2's syntax page and RE2/J, which Kafka uses; pinned by the conversation other-consumer-regex-forms.
Refused as RE2 refuses it: look-around, back-references, possessive and nested repetition. Unicode classes are those
of ASCII characters, as a topic's name has no others.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

from mockbroker.state.regex_unicode import ascii_members

#: RE2 allows no more repetitions than this.
_REPEAT_MAX = 1_000
#: Deeper nesting is refused before it can exhaust the stack.
_DEPTH_MAX = 100
_POSIX = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "ascii": "".join(map(chr, range(128))),
    "blank": "\t ",
    "cntrl": "".join(map(chr, range(32))) + "\x7f",
    "digit": string.digits,
    "graph": "".join(map(chr, range(33, 127))),
    "lower": string.ascii_lowercase,
    "print": "".join(map(chr, range(32, 127))),
    "punct": string.punctuation,
    "space": "\t\n\v\f\r ",
    "upper": string.ascii_uppercase,
    "word": string.ascii_letters + string.digits + "_",
    "xdigit": string.hexdigits,
}
_PERL = {"d": "digit", "w": "word"}
_PERL_SPACE = "\t\n\f\r "
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ASSERTIONS = {"A": "begin", "z": "end", "b": "boundary", "B": "inside"}
_OCTAL_DIGITS = "01234567"


class RegexError(ValueError):
    """An expression that cannot be read; the message says what and where."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of ranges, first and last code point each, or out of all others."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False
    ignores_case: bool = False

    def matches(self, char: str) -> bool:
        """Say whether this character is meant."""
        variants = {char, char.lower(), char.upper()} if self.ignores_case else {char}
        codes = [ord(variant) for variant in variants if len(variant) == 1]
        return any(low <= code <= high for code in codes for low, high in self.ranges) != self.negated


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place without width: "begin", "end", "boundary" of a word, "inside" or outside of one."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after another; none at all matches the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One part or another."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part several times; most None: without limit."""

    part: Node
    least: int
    most: int | None


Node = Chars | Assertion | Sequence | Choice | Repeat


def parse(text: str) -> Node:
    """Read an expression.

    Raises: RegexError.
    """
    return _Parser(text).whole()


def _ranges(chars: str) -> tuple[tuple[int, int], ...]:
    return tuple((ord(char), ord(char)) for char in chars)


def _complement(chars: str) -> tuple[tuple[int, int], ...]:
    """All but these ASCII characters, as ranges."""
    codes = sorted(map(ord, chars))
    starts = [0, *(code + 1 for code in codes)]
    ends = [*(code - 1 for code in codes), 0x10FFFF]
    return tuple((low, high) for low, high in zip(starts, ends, strict=True) if low <= high)


class _Parser:
    """A recursive descent: choice, sequence, repetition, atom."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.ignores_case = False
        self.dot_matches_newline = False

    def whole(self) -> Node:
        """The whole expression."""
        node = self.choice()
        if self.at < len(self.text):
            raise self.error("an unexpected )")
        return node

    def error(self, what: str) -> RegexError:
        """What is wrong, and where."""
        return RegexError(f"{what} at position {self.at}")

    def peek(self) -> str:
        """The next character, or nothing at the end."""
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self, what: str) -> bool:
        """Step over this text if it stands here."""
        if self.text.startswith(what, self.at):
            self.at += len(what)
            return True
        return False

    def next(self) -> str:
        """The next character, stepped over."""
        if self.at == len(self.text):
            raise self.error("an unexpected end")
        self.at += 1
        return self.text[self.at - 1]

    def choice(self) -> Node:
        """Sequences between bars."""
        parts = [self.sequence()]
        while self.take("|"):
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self) -> Node:
        """One thing after the other, up to a bar, a closing bracket or the end."""
        parts: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            if self.take("\\Q"):
                end = self.text.find("\\E", self.at)
                quoted = self.text[self.at :] if end < 0 else self.text[self.at : end]
                self.at += len(quoted) + (0 if end < 0 else 2)
                parts += [self.literal(char) for char in quoted[:-1]]
                # A repetition behind the quotation is for its last character.
                parts += [self.repeated(self.literal(char)) for char in quoted[-1:]]
                continue
            parts.append(self.repeated(self.atom()))
        return Sequence(tuple(parts))

    def literal(self, char: str) -> Chars:
        """A character that stands for itself."""
        return Chars(_ranges(char), ignores_case=self.ignores_case)

    def repeated(self, node: Node) -> Node:
        """The node with the repetition that stands behind it, if one does."""
        bounds = self.repetition()
        if bounds is None:
            return node
        self.take("?")  # Lazy or greedy is the same when the whole text has to match.
        if self.repetition() is not None:
            raise self.error("a repetition of a repetition")
        return Repeat(node, *bounds)

    def repetition(self) -> tuple[int, int | None] | None:
        """Least and most of a repetition that stands here; None where there is none."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        if self.peek() != "{":
            return None
        least, comma, most = self.text[self.at + 1 : self.text.find("}", self.at)].partition(",")
        if "}" not in self.text[self.at :] or not least.isdecimal() or (most and not most.isdecimal()):
            return None  # Without numbers in it a brace is just a brace.
        low = int(least[:5])
        high = low if not comma else int(most[:5]) if most else None
        if max(low, high or 0) > _REPEAT_MAX or (high is not None and high < low):
            raise self.error("a repetition with bad numbers")
        self.at = self.text.index("}", self.at) + 1
        return low, high

    def atom(self) -> Node:
        """What a repetition would repeat."""
        if self.repetition() is not None:
            raise self.error("a repetition of nothing")
        char = self.next()
        if char == "(":
            return self.group()
        if char == "[":
            return self.bracket()
        if char == "\\":
            return self.escape()
        if char == ".":
            return Chars(() if self.dot_matches_newline else _ranges("\n"), negated=True)
        if char in "^$":
            return Assertion("begin" if char == "^" else "end")
        return self.literal(char)

    def group(self) -> Node:
        """What is inside round brackets, with flags of its own."""
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            raise self.error("groups that nest too deeply")
        flags = self.ignores_case, self.dot_matches_newline
        node: Node = Sequence(())
        if not self.group_begin():
            # Flags alone, "(?i)", hold to the end of the group around.
            self.depth -= 1
            return node
        node = self.choice()
        if not self.take(")"):
            raise self.error("a missing )")
        self.ignores_case, self.dot_matches_newline = flags
        self.depth -= 1
        return node

    def group_begin(self) -> bool:
        """Read what follows an opening bracket; False when it was flags alone, closing bracket and all."""
        if not self.take("?"):
            return True
        if self.take("P<") or (self.peek() == "<" and self.text[self.at + 1 : self.at + 2] not in ("=", "!")):
            self.take("<")
            name, closed, _ = self.text[self.at :].partition(">")
            if not closed or not name or not all(char in _POSIX["word"] for char in name):
                raise self.error("a bad name of a group")
            self.at += len(name) + 1
            return True
        on = True
        while (flag := self.next()) not in ":)":
            if flag == "-" and on:
                on = False
            elif flag == "i":
                self.ignores_case = on
            elif flag == "s":
                self.dot_matches_newline = on
            elif flag not in "mU":
                raise self.error("a group that RE2 does not have")
        return flag == ":"

    def escape(self) -> Node:
        """What a backslash and what follows it stand for."""
        char = self.next()
        if char in _ASSERTIONS:
            return Assertion(_ASSERTIONS[char])
        ranges = self.shared_class(char)
        if ranges is not None:
            return Chars(ranges)
        return self.literal(self.escaped(char))

    def shared_class(self, char: str) -> tuple[tuple[int, int], ...] | None:
        """The ranges of \\d, \\s, \\w, \\p... and their opposites; None for another character."""
        if char in ("p", "P"):
            return self.unicode_class(negated=char == "P")
        if char.lower() not in "dsw" or not char.isalpha():
            return None
        chars = _PERL_SPACE if char in "sS" else _POSIX[_PERL[char.lower()]]
        return _ranges(chars) if char.islower() else _complement(chars)

    def unicode_class(self, *, negated: bool) -> tuple[tuple[int, int], ...]:
        """The ranges of a class such as Lu, as far as topic names can tell."""
        name = self.next()
        if name == "{":
            name, closed, _ = self.text[self.at :].partition("}")
            self.at += len(name) + len(closed)
            name = name if closed else ""
        chars = ascii_members(name.removeprefix("^"))
        if chars is None:
            raise self.error("a class that is not known")
        return _complement(chars) if negated != name.startswith("^") else _ranges(chars)

    def escaped(self, char: str) -> str:
        """The one character that an escape stands for."""
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "x":
            return self.hexadecimal()
        if char in _OCTAL_DIGITS and (char == "0" or self.peek() in tuple(_OCTAL_DIGITS)):
            digits = char
            while len(digits) < 3 and self.peek() in tuple(_OCTAL_DIGITS):
                digits += self.next()
            return chr(int(digits, 8))
        if char.isascii() and not char.isalnum():
            return char
        raise self.error(f"an escape that is not known here, \\{char},")

    def hexadecimal(self) -> str:
        """The character of an escape such as x41 or x{1F600}."""
        if self.take("{"):
            digits, closed, _ = self.text[self.at :].partition("}")
            self.at += len(digits) + 1
        else:
            digits, closed = self.text[self.at : self.at + 2], "}"
            self.at += 2
        wrong = not closed or not 0 < len(digits) <= 6 or not all(digit in string.hexdigits for digit in digits)
        if wrong or int(digits, 16) > 0x10FFFF or (len(digits) != 2 and self.text[self.at - 1 : self.at] != "}"):
            raise self.error("a bad hexadecimal escape")
        return chr(int(digits, 16))

    def bracket(self) -> Chars:
        """A set of characters in square brackets."""
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self.peek() != "]":
            first = False
            ranges += self.bracket_part()
        self.at += 1
        return Chars(tuple(ranges), negated, self.ignores_case)

    def bracket_part(self) -> tuple[tuple[int, int], ...]:
        """One character, range or class of such a set."""
        if self.take("[:"):
            name, closed, _ = self.text[self.at :].partition(":]")
            chars = _POSIX.get(name.removeprefix("^"))
            if not closed or chars is None:
                raise self.error("a class that is not known")
            self.at += len(name) + 2
            return _complement(chars) if name.startswith("^") else _ranges(chars)
        low = self.next()
        if low == "\\":
            escaped = self.next()
            ranges = self.shared_class(escaped)
            if ranges is not None:
                return ranges
            low = self.escaped(escaped)
        high = low
        if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
            self.at += 1
            high = self.next()
            high = self.escaped(self.next()) if high == "\\" else high
        if high < low:
            raise self.error("a range from back to front")
        return ((ord(low), ord(high)),)
