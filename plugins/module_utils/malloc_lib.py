# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``malloc-lib`` option of a mysqld_safe script: would this script take a library, and our block for it. Pure.

Whether it would is predicted from the script's own text, because a value that it does not take keeps the server from
starting at all. What real scripts check (MySQL, Percona and MariaDB from 5.5 on):

* MySQL 5.5.53, 5.6.34, 5.7.16 and later: the directory has to be exactly one of four;
* Percona, beside that: the file that a link leads to has to be below a few directories;
* MariaDB 5.5.54 to 10.1.46: nothing from an option file while the data directory has a ``my.cnf``;
* older ones, and MariaDB since: any path that can be read.

A script adds up what all its option files say, so that a second ``malloc-lib`` is a second library.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .allocators import Problem
from .mysqld_safe import END, Block, ScriptError, find_block, without_block
from .option_file import parse

BEGIN = "# BEGIN fleet.mysqltune: mysqld_safe preloads this library. Managed, edits are lost."
SECTION = "mysqld_safe"

_OPTION = re.compile(r"^\s*--malloc(?:-|\[-_\]|\[_-\])lib=\*\)(?P<commands>.*)$")
_TAKEN = re.compile(r'set_malloc_lib "\$val"|check_executable_location "\$arg"|\w+=\d+|;;|')
_GROUPS = re.compile(r"print_defaults\b\S*\s+([^`)]*\bmysqld_safe\b[^`)]*)")
_CASE = re.compile(r"^\s*case\s+(?P<subject>.+?)\s+in\s*$")
_PATTERNS = re.compile(r"^\s*(?P<patterns>[^()]+)\)(\s|$)")
_TEST = re.compile(r"^\s*(?:if|elif|while|until|test|\[)\s|&&|\|\|")
_KNOWN_TESTS = re.compile(
    r'expr "\$malloc_lib" :|"\$malloc_lib" = tcmalloc|-z +"\$malloc_lib"|! -r "\$malloc_lib"|-r "\$tmp"|-n "\$where"'
    r'|command -v ldconfig|-z "\$libmalloc_path"|-f "\$f"'
)


class Rules(NamedTuple):
    """What a script asks of a malloc-lib.

    ``directories``: its directory has to be one of these, if there are any; ``below``: the file has to be below one of
    these, if there are any, and is looked at behind its links if ``follows``; ``guarded``: no option file counts while
    the data directory has a ``my.cnf``. ``odd`` is a part of the script that is not understood.
    """

    directories: Tuple[str, ...] = ()
    below: Tuple[str, ...] = ()
    follows: bool = False
    guarded: bool = False
    odd: Optional[str] = None


class Found(NamedTuple):
    """A malloc-lib in an option file; ``ours``: it stands in our block."""

    file: str
    library: str
    ours: bool


def accepts(
    text: str,
    library: str,
    resolve: Callable[[str], str] = str,
    basedir: Optional[str] = None,
    my_cnf_in_datadir: bool = False,
) -> Optional[Problem]:
    """Return why this script would not take ``library`` as malloc-lib of an option file, None if it would.

    ``resolve`` follows links, ``basedir`` is the server's. That the file can be read is for the caller to see.
    """
    asked = rules(text)
    if asked is None:
        return _refused("it does not know malloc-lib. Use the method patch")
    if asked.odd:
        return _refused(f"it treats malloc-lib in a way that is not understood ({asked.odd[:120]!r})")
    if not library.startswith("/"):
        return _refused(f"{library!r} is a word that it looks up by a list of its own. Name the file")
    if asked.directories and os.path.dirname(library) not in asked.directories:
        return _refused(f"it takes a malloc-lib only from {', '.join(asked.directories)}, not {library}")
    file = resolve(library) if asked.follows else library
    below = _places(asked.below, basedir)
    if asked.below and not file.startswith(tuple(below)):
        return _refused(f"it takes only files below {', '.join(below)} for a malloc-lib, not {file}")
    if asked.guarded and my_cnf_in_datadir:
        return _refused(
            "it takes no malloc-lib from an option file while my.cnf is in the data directory. Move that file to /etc"
        )
    return None


def _refused(words: str) -> Problem:
    return "whitelist", words


def _places(patterns: Sequence[str], basedir: Optional[str]) -> List[str]:
    """Return the directories of a script's patterns; those of the base directory only if it is known."""
    named = (re.sub(r"\$\{?\w*basedir\w*\}?", basedir or "$", one, flags=re.IGNORECASE) for one in patterns)
    return list(dict.fromkeys(one.rstrip("*") for one in named if "$" not in one))


def rules(text: str) -> Optional[Rules]:
    """Read what the script asks of a malloc-lib; None if it does not know the option."""
    code = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
    commands = _commands(code)
    setter, adder = _function(code, "set_malloc_lib"), _function(code, "add_mysqld_ld_preload")
    used = sum("mysqld_ld_preload_text" in line for line in code) > 1
    if not (setter and adder and used and "set_malloc_lib" in commands and SECTION in groups(text)):
        return None
    own = _cases([*setter, *adder])
    return Rules(
        directories=tuple(_passing(own, lambda subject: "dirname" in subject)),
        below=tuple(_passing(own, lambda subject: subject == '"$lib_to_add"')),
        follows=any("readlink -f" in line for line in adder),
        guarded="check_executable_location" in commands,
        odd=next(_odd(code, commands, setter, own), None),
    )


def groups(text: str) -> List[str]:
    """Return the sections of option files that the script reads, beside the server's."""
    words = [word for match in _GROUPS.finditer(text) for word in match.group(1).split()]
    return [word for word in dict.fromkeys(words) if word[0] not in "-$"]


def _commands(code: Sequence[str]) -> str:
    """Return what the script does with the option, empty if it does not know it."""
    for index, line in enumerate(code):
        match = _OPTION.match(line)
        if match:
            after = [match.group("commands"), *code[index + 1 :]]
            end = next((number for number, more in enumerate(after) if ";;" in more), 0)
            return "\n".join(after[: end + 1]).partition(";;")[0]
    return ""


def _function(code: Sequence[str], name: str) -> List[str]:
    """Return the lines between a function's head and the brace that ends it."""
    head = re.compile(rf"^{name}\s*\(\)")
    first = next((index for index, line in enumerate(code) if head.match(line)), None)
    if first is None:
        return []
    last = next((index for index in range(first, len(code)) if code[index].startswith("}")), first)
    return list(code[first + 1 : last])


Case = Tuple[str, List[str]]
"""What a ``case`` looks at, and all its patterns."""


def _cases(lines: Sequence[str]) -> List[Case]:
    found: List[Case] = []
    inside: List[Case] = []
    for line in lines:
        opened, patterns = _CASE.match(line), _PATTERNS.match(line)
        if opened:
            inside.append((opened.group("subject"), []))
            found.append(inside[-1])
        elif line.strip().startswith("esac"):
            inside = inside[:-1]
        elif inside and patterns:
            inside[-1][1].extend(one.strip() for one in patterns.group("patterns").split("|"))
    return found


def _passing(cases: Sequence[Case], looks_at: Callable[[str], bool]) -> Iterator[str]:
    """Yield the patterns of absolute paths; what matches none of them is refused."""
    for subject, patterns in cases:
        if looks_at(subject):
            yield from (one for one in patterns if one.startswith(("/", "$")))


def _odd(code: Sequence[str], commands: str, setter: Sequence[str], cases: Sequence[Case]) -> Iterator[str]:
    """Yield what may decide about the library in a way that is not known."""
    yield from (part for part in re.split(r"\n|;", commands) if not _TAKEN.fullmatch(part.strip()))
    yield from (line.strip() for line in setter if _TEST.search(line) and not _KNOWN_TESTS.search(line))
    for subject, patterns in cases:
        if subject == '"$malloc_lib"' and set(patterns) != {"/*", "*"}:
            yield f"case {subject}: {', '.join(patterns)}"
    yield from (line.strip() for line in code if re.match(r'\s*set_malloc_lib\s+"?\w', line))


def block(library: str) -> List[str]:
    """Return the lines of our block in an option file."""
    return [BEGIN, f"[{SECTION}]", f"malloc-lib={library}", END]


def with_block(text: str, library: str) -> str:
    """Return an option file with our block at its end, in the place of an earlier one."""
    lines = without_block(text).split("\n")
    at = len(lines) - 1 if lines[-1] == "" else len(lines)
    lines[at:at] = block(library)
    return "\n".join(lines)


def libraries(file: str, text: str, sections: Sequence[str]) -> List[Found]:
    """Return the libraries that the sections of an option file name, ours first."""
    own = _own(text)
    lines = text.split("\n")[own.first : own.last + 1] if own else []
    inside, others = _values("\n".join(lines), sections), _values(text, sections)
    for library in inside:
        others.remove(library)
    return [*(Found(file, library, True) for library in inside), *(Found(file, one, False) for one in others)]


def _own(text: str) -> Optional[Block]:
    """Return our block, None if it is damaged: what is in it is then taken for somebody else's."""
    try:
        return find_block(text.split("\n"))
    except ScriptError:
        return None


def _values(text: str, sections: Sequence[str]) -> List[str]:
    said = (one for one in parse(text) if one.section in sections and one.name == "malloc-lib")
    return [one.value for one in said if one.value]


def found(script: str, files: Mapping[str, str]) -> List[Found]:
    """Return each malloc-lib that this script would take from the texts of its option files."""
    sections = groups(script) if rules(script) else []
    return [one for file, text in files.items() for one in libraries(file, text, sections)]


def configured_preload(script: str, files: Mapping[str, str]) -> Dict[str, Any]:
    """Return ``{paths, managed, adopted, malloc_libs}``: what the option files let this script preload.

    ``managed``: our block is in one of them, whether the script takes it or not.
    """
    seen = found(script, files)
    return {
        "paths": list(dict.fromkeys(one.library for one in sorted(seen, key=lambda one: not one.ours))),
        "managed": any(_own(text) for text in files.values()),
        "adopted": any(not one.ours for one in seen),
        "malloc_libs": [one._asdict() for one in seen],
    }
