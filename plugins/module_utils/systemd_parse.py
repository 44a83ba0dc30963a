# SPDX-License-Identifier: GPL-3.0-or-later
"""Read unit files and environment files as systemd itself does. Pure: text to values.

Rules from systemd.syntax(7), systemd.exec(5) and the source (``env-file.c``, ``extract-word.c``).
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_BLANK = " \t\n\r"


class Setting(NamedTuple):
    """One assignment of a unit file."""

    section: str
    key: str
    value: str


def unit_settings(text: str) -> Iterator[Setting]:
    """Yield the assignments of a unit file: sections, comments, lines continued by a backslash."""
    section, pending = "", ""
    for line in text.split("\n"):
        stripped = line.lstrip(_BLANK)
        if stripped.startswith(("#", ";")) or (not stripped and not pending):
            continue
        whole = (pending + (line if pending else stripped)).rstrip("\r")
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            pending = whole[:-1] + " "
            continue
        pending = ""
        whole = whole.strip()
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
        elif "=" in whole:
            key, value = whole.split("=", 1)
            yield Setting(section, key.strip(), value.strip())


def words(text: str) -> List[str]:
    """Split a value into words: blanks, both quotes, C escapes (also inside quotes).

    A word with an unclosed quote or an unknown escape ends the list, as systemd ignores the rest of such a line.
    """
    result: List[str] = []
    word: Optional[str] = None
    quote, position = "", 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\":
            piece, position = _unescape(text, position)
            if piece is None:
                return result
            word = (word or "") + piece
        elif quote:
            word, quote = (word or "") + ("" if char == quote else char), "" if char == quote else quote
        elif char in "\"'":
            word, quote = word or "", char
        elif char in _BLANK:
            result, word = (result if word is None else [*result, word]), None
        else:
            word = (word or "") + char
    return result if word is None or quote else [*result, word]


def _unescape(text: str, position: int) -> Tuple[Optional[str], int]:
    """Return the character that the escape after a backslash stands for (None: unknown), and where it ends."""
    char = text[position : position + 1]
    if char in _ESCAPES and char:
        return _ESCAPES[char], position + 1
    if char in ("\\", '"', "'"):
        return char, position + 1
    for pattern, base in (
        (r"x([0-9a-fA-F]{2})", 16),
        (r"u([0-9a-fA-F]{4})", 16),
        (r"U([0-9a-fA-F]{8})", 16),
        (r"([0-7]{3})", 8),
    ):
        match = re.match(pattern, text[position:])
        if match:
            return chr(int(match.group(1), base)), position + match.end()
    return None, position


def assignments(value: str) -> Dict[str, str]:
    """Return the variables of one ``Environment=`` value; words that are no assignments are ignored."""
    result: Dict[str, str] = {}
    for word in words(value):
        name, separator, text = word.partition("=")
        if separator and _NAME.fullmatch(name):
            result[name] = text
    return result


def expand(text: str, specifiers: Mapping[str, str]) -> str:
    """Expand ``%i`` and the like; unknown ones stay."""
    return re.sub(
        r"%(.)",
        lambda match: "%" if match.group(1) == "%" else specifiers.get(match.group(1), match.group(0)),
        text,
    )


def specifiers(unit: str) -> Dict[str, str]:
    """Return what the specifiers of a unit's name and of the system directories stand for."""
    stem = unit.rsplit(".", 1)[0]
    prefix, _, instance = stem.partition("@")
    last = prefix.rsplit("-", 1)[-1]
    named = {
        "n": unit,
        "N": stem,
        "p": prefix,
        "P": unescaped(prefix),
        "i": instance,
        "I": unescaped(instance),
    }
    places = {
        "t": "/run",
        "S": "/var/lib",
        "C": "/var/cache",
        "L": "/var/log",
        "E": "/etc",
        "h": "/root",
        "u": "root",
    }
    return {**named, "j": last, "J": unescaped(last), **places}


def unescaped(name: str) -> str:
    """Undo systemd-escape(1)."""
    name = name.replace("-", "/")
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match.group(1), 16)), name)


class _EnvironmentFile:
    """The state machine of systemd's ``parse_env_file_internal``, one method for each group of states."""

    def __init__(self, comment_continues: bool) -> None:
        self.result: Dict[str, str] = {}
        self.state, self.key, self.value, self.kept = "pre_key", "", "", 0
        self.comment_continues = comment_continues

    def push(self) -> None:
        """Take the variable. Blanks at the end go, unless they were quoted or escaped."""
        text = self.value[: self.kept] + self.value[self.kept :].rstrip(_BLANK)
        if _NAME.fullmatch(self.key.rstrip(_BLANK)):
            self.result[self.key.rstrip(_BLANK)] = text
        self.state, self.key, self.value, self.kept = "pre_key", "", "", 0

    def add(self, text: str, quoted: bool) -> None:
        self.value += text
        if quoted:
            self.kept = len(self.value)

    def pre_key(self, char: str) -> None:
        if char in "#;":
            self.state = "comment"
        elif char not in _BLANK:
            self.state, self.key = "in_key", char

    def in_key(self, char: str) -> None:
        if char in "\n\r":
            self.state, self.key = "pre_key", ""
        elif char == "=":
            self.state = "pre_value"
        else:
            self.key += char

    def pre_value(self, char: str) -> None:
        if char in "\n\r":
            self.push()
        elif char in "\"'":
            self.state = "double" if char == '"' else "single"
        elif char == "\\":
            self.state = "escape"
        elif char not in _BLANK:
            self.state = "in_value"
            self.add(char, False)

    def in_value(self, char: str) -> None:
        if char in "\n\r":
            self.push()
        elif char == "\\":
            self.state, self.kept = "escape", len(self.value)
        else:
            self.add(char, False)

    def escape(self, char: str) -> None:
        self.state = "in_value"
        if char not in "\n\r":
            self.add(char, True)

    def single(self, char: str) -> None:
        if char == "'":
            self.state = "pre_value"
        else:
            self.add(char, True)

    def double(self, char: str) -> None:
        if char == '"':
            self.state = "pre_value"
        elif char == "\\":
            self.state = "double_escape"
        else:
            self.add(char, True)

    def double_escape(self, char: str) -> None:
        self.state = "double"
        if char in '"\\`$':
            self.add(char, True)
        elif char not in "\n\r":
            self.add("\\" + char, True)

    def comment(self, char: str) -> None:
        if char == "\\":
            self.state = "comment_escape"
        elif char in "\n\r":
            self.state = "pre_key"

    def comment_escape(self, char: str) -> None:
        ends = char in "\n\r" and not self.comment_continues
        self.state = "pre_key" if ends else "comment"


def environment_file(text: str, comment_continues: bool = True) -> Dict[str, str]:
    """Return the variables of an ``EnvironmentFile=``; invalid lines are ignored as systemd ignores them.

    A comment line that ends in a backslash swallows the next line up to systemd 253 (``comment_continues``).
    """
    machine = _EnvironmentFile(comment_continues)
    for char in text:
        getattr(machine, machine.state)(char)
    if machine.state not in ("pre_key", "in_key", "comment", "comment_escape"):
        machine.push()
    return machine.result


def environment_line(name: str, value: str) -> str:
    """Return one line of an environment file that reads back as ``value``."""
    if re.fullmatch(r"[A-Za-z0-9._/+@,:=%~-]+", value):
        return f"{name}={value}\n"
    escaped = re.sub(r'(["\\`$])', r"\\\1", value)
    return f'{name}="{escaped}"\n'
