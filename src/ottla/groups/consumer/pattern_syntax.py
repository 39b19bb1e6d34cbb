"""Parse the subset of RE2 syntax that names of topics and transactional ids need into a tree.

A set of characters is an int with a bit for each printable ASCII character, and one bit for all others:
a pattern can match a character outside ASCII, but cannot distinguish it from others. (Topic names use 65
characters, transactional ids may use any.) Groups do not capture and greediness has no effect, because the
only result is whether a whole name matches. Constructs that RE2 lacks (look-around, back references) are
refused.

The tree consists of tuples: ("set", bits), ("cat", [trees]), ("or", [trees]), ("times", tree, least, most or
-1) and ("at", where), with `where` one of the letters below.
"""

from __future__ import annotations

from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits, punctuation
from typing import Any, Final

Tree = tuple[Any, ...]

OTHER: Final = "\ufffd"  # represents every character outside ASCII
ALPHABET: Final = digits + ascii_letters + punctuation + " " + OTHER
BITS: Final = {character: 1 << index for index, character in enumerate(ALPHABET)}
ALL: Final = (1 << len(ALPHABET)) - 1
START: Final = "A"
END: Final = "z"
BOUNDARY: Final = "b"
NO_BOUNDARY: Final = "B"

PATTERN_LENGTH_MAX = 1000
REPEAT_MAX = 1000
_DEPTH_MAX = 100


class PatternError(ValueError):
    """A pattern that is not valid RE2 syntax, or too expensive."""


def bits_of(characters: str) -> int:
    bits = 0
    for character in characters:
        bits |= BITS.get(character, 0)
    return bits


_DIGITS = bits_of(digits)
_UPPER = bits_of(ascii_uppercase)
_LOWER = bits_of(ascii_lowercase)
_LETTERS = _UPPER | _LOWER
WORD: Final = _LETTERS | _DIGITS | BITS["_"]
_PUNCTUATION = bits_of(punctuation)

_SPACE = BITS[" "]
_ASCII = ALL & ~BITS[OTHER]
_SYMBOLS = bits_of("$+<=>^`|~")

_PERL = {"d": _DIGITS, "w": WORD, "s": _SPACE}
_NAMED = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": _ASCII,
    "blank": _SPACE,
    "cntrl": 0,
    "digit": _DIGITS,
    "graph": _ASCII & ~_SPACE,
    "lower": _LOWER,
    "print": _ASCII,
    "punct": _PUNCTUATION,
    "space": _SPACE,
    "upper": _UPPER,
    "word": WORD,
    "xdigit": bits_of("0123456789abcdefABCDEF"),
}
# Unicode categories and scripts with a character of the alphabet, and known ones without.
_PROPERTIES = {
    "Any": ALL,
    "L": _LETTERS,
    "Lu": _UPPER,
    "Ll": _LOWER,
    "Lt": 0,
    "Lm": 0,
    "Lo": 0,
    "M": 0,
    "N": _DIGITS,
    "Nd": _DIGITS,
    "Nl": 0,
    "No": 0,
    "P": _PUNCTUATION & ~_SYMBOLS,
    "Pc": BITS["_"],
    "Pd": BITS["-"],
    "Pe": bits_of(")]}"),
    "Po": bits_of("!\"#%&'*,./:;?@\\"),
    "Ps": bits_of("([{"),
    "S": _SYMBOLS,
    "Sc": BITS["$"],
    "Sk": bits_of("^`"),
    "Sm": bits_of("+<=>|~"),
    "Z": _SPACE,
    "Zs": _SPACE,
    "C": 0,
    "Latin": _LETTERS,
    "Common": _ASCII & ~_LETTERS,
    "Greek": 0,
    "Cyrillic": 0,
    "Han": 0,
}
_CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_POSITIONS = {"A": START, "z": END, "b": BOUNDARY, "B": NO_BOUNDARY}


def parse_pattern(text: str) -> Tree:
    """Raises PatternError."""
    if len(text) > PATTERN_LENGTH_MAX:
        raise PatternError(f"longer than {PATTERN_LENGTH_MAX} characters")
    parser = _Parser(text)
    tree = parser.alternatives(0)
    if parser.at < len(text):
        raise PatternError(f"unexpected ) at {parser.at}")
    return tree


class _Parser:
    __slots__ = ("at", "ignore_case", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.ignore_case = False

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self) -> str:
        if self.at == len(self.text):
            raise PatternError("unexpected end of pattern")
        self.at += 1
        return self.text[self.at - 1]

    def _skip(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def alternatives(self, depth: int) -> Tree:
        if depth > _DEPTH_MAX:
            raise PatternError(f"groups nested deeper than {_DEPTH_MAX}")
        branches = [self._branch(depth)]
        while self._skip("|"):
            branches.append(self._branch(depth))
        return branches[0] if len(branches) == 1 else ("or", branches)

    def _branch(self, depth: int) -> Tree:
        parts: list[Tree] = []
        while self._peek() not in ("", "|", ")"):
            if self._skip("\\Q"):
                end = self.text.find("\\E", self.at)
                quoted = self.text[self.at :] if end < 0 else self.text[self.at : end]
                self.at = len(self.text) if end < 0 else end + 2
                parts.extend(self._literal(character) for character in quoted)
                if parts and quoted:
                    parts.append(self._repeated(parts.pop()))
                continue
            atom = self._atom(depth)
            if atom is not None:
                parts.append(self._repeated(atom))
        return parts[0] if len(parts) == 1 else ("cat", parts)

    def _repeated(self, tree: Tree) -> Tree:
        bounds = self._quantifier()
        if bounds is None:
            return tree
        self._skip("?")
        if self._peek() in ("*", "+", "?") or (self._peek() == "{" and self._counted(self.at + 1)):
            raise PatternError(f"nothing to repeat at {self.at}")
        least, most = bounds
        if max(least, most) > REPEAT_MAX or (most >= 0 and least > most):
            raise PatternError(f"bad repetition {{{least},{most}}}")
        return ("times", tree, least, most)

    def _quantifier(self) -> tuple[int, int] | None:
        character = self._peek()
        if character in ("*", "+", "?") and character:
            self.at += 1
            return {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[character]
        if character == "{":
            counted = self._counted(self.at + 1)
            if counted is not None:
                least, most, self.at = counted
                return least, most
        return None

    def _counted(self, at: int) -> tuple[int, int, int] | None:
        """Parse {n}, {n,} or {n,m}: the bounds and the end; any other brace is literal."""
        end = self.text.find("}", at)
        least, comma, most = self.text[at:end].partition(",") if end > 0 else ("", "", "")
        if not _is_number(least) or (most and not _is_number(most)):
            return None
        if len(least) > 4 or len(most) > 4:
            raise PatternError(f"more than {REPEAT_MAX} repetitions")
        return int(least), (int(most) if most else -1 if comma else int(least)), end + 1

    def _atom(self, depth: int) -> Tree | None:
        character = self._take()
        if character == "(":
            return self._group(depth)
        if character == "[":
            return ("set", self._class())
        if character == ".":
            return ("set", ALL)
        if character == "^":
            return ("at", START)
        if character == "$":
            return ("at", END)
        if character in "*+?":
            raise PatternError(f"nothing to repeat at {self.at - 1}")
        if character == "\\":
            where = _POSITIONS.get(self._peek())
            if where is not None:
                self.at += 1
                return ("at", where)
            return ("set", self._fold(self._escape()))
        return self._literal(character)

    def _literal(self, character: str) -> Tree:
        return ("set", self._fold(BITS.get(character, 0)))

    def _fold(self, bits: int) -> int:
        if self.ignore_case and bits & _LETTERS:
            same = (character for character in ascii_letters if BITS[character] & bits)
            bits |= bits_of("".join(same).swapcase())
        return bits

    def _group(self, depth: int) -> Tree | None:
        ignored_case = self.ignore_case
        if self._skip("?P<") or (self.text[self.at : self.at + 3] not in ("?<=", "?<!") and self._skip("?<")):
            name, closed, _ = self.text[self.at :].partition(">")
            if not closed or not name.isidentifier():
                raise PatternError(f"invalid group name at {self.at}")
            self.at += len(name) + 1
        elif self._skip("?") and not self._flags():
            return None
        tree = self.alternatives(depth + 1)
        if not self._skip(")"):
            raise PatternError("a group is not closed")
        self.ignore_case = ignored_case
        return tree

    def _flags(self) -> bool:
        """After "(?": flags for the group that follows, or for the rest of the current group."""
        turn_on = True
        while True:
            character = self._take()
            if character == "i":
                self.ignore_case = turn_on
            elif character == "-" and turn_on:
                turn_on = False
            elif character in ":)":
                return character == ":"
            elif character not in "msU":
                raise PatternError(f"(?{character} is not supported")

    def _escape(self) -> int:
        character = self._take()
        if character.lower() in _PERL:
            bits = _PERL[character.lower()]
            return bits if character.islower() else ALL & ~bits
        if character in "pP":
            return self._property(character == "P")
        return BITS.get(self._escaped(character), 0)

    def _escaped(self, character: str) -> str:
        """Return the character that an escape represents."""
        if character in _CONTROL:
            return _CONTROL[character]
        if character == "x":
            return self._hexadecimal()
        if character in "01234567":
            return self._octal(character)
        if character.isascii() and not character.isalnum():
            return character
        raise PatternError(f"\\{character} is not supported")

    def _hexadecimal(self) -> str:
        if self._skip("{"):
            number, closed, _ = self.text[self.at :].partition("}")
            self.at += len(number) + 1
        else:
            number, closed = self.text[self.at : self.at + 2], "}"
            self.at += 2
            if len(number) < 2:
                raise PatternError("unexpected end of \\x")
        try:
            return chr(int(number, 16)) if closed and number.isalnum() else chr(-1)
        except (ValueError, OverflowError) as error:
            raise PatternError(f"bad \\x{number}") from error

    def _octal(self, first: str) -> str:
        number = first
        while len(number) < 3 and self._peek() and self._peek() in "01234567":
            number += self._take()
        if first != "0" and len(number) == 1:
            raise PatternError(f"back reference \\{first}")
        return chr(int(number, 8))

    def _property(self, negated: bool) -> int:
        if self._skip("{"):
            name, closed, _ = self.text[self.at :].partition("}")
            self.at += len(name) + 1
            if not closed:
                raise PatternError("\\p{ is not closed")
        else:
            name = self._take()
        if name.startswith("^"):
            name, negated = name[1:], not negated
        bits = _PROPERTIES.get(name)
        if bits is None:
            raise PatternError(f"\\p{{{name}}} is not supported")
        return ALL & ~bits if negated else bits

    def _class(self) -> int:
        negated = self._skip("^")
        bits = 0
        first = True
        while first or self._peek() != "]":
            first = False
            if self._skip("[:"):
                bits |= self._posix()
                continue
            if self._peek() == "\\" and self.text[self.at + 1 : self.at + 2] in tuple("dDwWsSpP"):
                self.at += 1
                bits |= self._escape()
                continue
            low = self._class_character()
            high = low
            if self._peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._class_character()
                if high < low:
                    raise PatternError(f"bad range {low}-{high}")
            bits |= bits_of("".join(each for each in ALPHABET if low <= each <= high))
        self.at += 1
        bits = self._fold(bits)
        return ALL & ~bits if negated else bits

    def _class_character(self) -> str:
        character = self._take()
        return self._escaped(self._take()) if character == "\\" else character

    def _posix(self) -> int:
        name, closed, _ = self.text[self.at :].partition(":]")
        negated = name.startswith("^")
        bits = _NAMED.get(name.lstrip("^"))
        if not closed or bits is None:
            raise PatternError(f"[:{name}:] is not supported")
        self.at += len(name) + 2
        return ALL & ~bits if negated else bits


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
