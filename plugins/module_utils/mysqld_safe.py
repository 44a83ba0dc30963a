# SPDX-License-Identifier: GPL-3.0-or-later
"""Preload a library into mysqld alone, by one marked block in a mysqld_safe script. Pure: text to text.

All 314 distinct scripts that were looked at (3.23 to 9.7, all forks) start the server in one of three ways:

* ``A`` (3.23.22, 4.0.0) and ``B`` (3.23.28 to 5.1.10): one or two lines run ``$NOHUP_NICENESS $ledir/...``
  inside the only ``while true``. The block goes before that loop and lengthens ``NOHUP_NICENESS``.
* ``C`` (5.1.11 and later): one loop ``for i in "$ledir/$MYSQLD" ...`` puts the command together in
  ``cmd``. The block goes before it and lengthens ``cmd``.

Both put ``env LD_PRELOAD=...`` last before the server, behind nohup, nice and numactl, so that nothing but the
server loads the library, at each round of the restart loop, and its exit code passes through.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from .allocators import classify
from .preload_list import SAFE_PATH, split_preload
from .tunables import problem, words

BEGIN = "# BEGIN fleet.mysqltune: only the server preloads this library. Managed, edits are lost."
END = "# END fleet.mysqltune"
_BEGIN_MARK, _END_MARK = "# BEGIN fleet.mysqltune", "# END fleet.mysqltune"

_LOOP_C = re.compile(r'^\s*for\s+i\s+in\s+"\$ledir/\$MYSQLD"(?=\s|$)')
_LAUNCH_AB = re.compile(r"\$NOHUP_NICENESS\s+\$ledir/(\$MYSQLD|mysqld)\b")
_WHILE = re.compile(r"^while true\b")
_SHELL = re.compile(r"^#!\s*(?:\S*/)?(?:env\s+)?(?:\S*/)?(?:(?:ba|da|k|mk|a|z)?sh|@SHELL_PATH@)\b")
_TARGET = re.compile(r'^\s*(?:exec\s+)?(\S*(?:mysqld_safe|mariadbd-safe|safe_mysqld)\S*)\s.*"\$@"')

_VALUE = r"""(?:"[^"`\\\n]*"|'[^'\n]*'|[^\s"'`;|&()<>\\]+)"""
_ASSIGN = re.compile(
    rf"^\s*(?:export\s+)?LD_PRELOAD=(?P<value>{_VALUE})\s*(?:;\s*export\s+LD_PRELOAD\s*)?;?\s*(?:#.*)?$"
)
_FUNCTION = re.compile(r"^\w+\s*\(\)")
_EXPORT = re.compile(r"^\s*export\s+LD_PRELOAD\s*;?\s*(?:#.*)?$")
_WORD = re.compile(rf"(?P<env>\benv\s+)?(?<![\w$\{{])LD_PRELOAD=(?P<value>{_VALUE})\s+(?=\S)")
_NATIVE_SET = re.compile(rf"^(?P<head>\s*mysqld_ld_preload=)(?P<value>{_VALUE})\s*(?:#.*)?$")
_NATIVE_ADD = re.compile(rf"^\s*add_mysqld_ld_preload\s+(?P<value>{_VALUE})\s*(?:#.*)?$")
_NATIVE_EMPTY = re.compile(r"^\s*mysqld_ld_preload=\s*(?:#.*)?$")


class ScriptError(Exception):
    """The script cannot be changed safely. ``reason`` is one word, the text says what was found and the fix."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class HandEdit(NamedTuple):
    """A preload that somebody put in by hand: line number from 1, its text, the paths, the line without it.

    ``rest`` None means that the whole line goes. ``works`` False: it stands behind the start of the server.
    """

    line: int
    text: str
    paths: Tuple[str, ...]
    rest: Optional[str]
    works: bool


class Block(NamedTuple):
    """Our block: first and last line (index from 0), its library (None: none, or unreadable) and variables."""

    first: int
    last: int
    library: Optional[str]
    environment: Mapping[str, str] = {}


class Script(NamedTuple):
    """What ``inspect`` found. ``anchor`` is the index of the line before which the block belongs."""

    family: str
    sites: Tuple[int, ...]
    anchor: int
    block: Optional[Block]
    hand_edits: Tuple[HandEdit, ...]


def inspect(text: str) -> Script:
    """Read a script; ``ScriptError`` with the counts if it is not of a kind that is understood."""
    lines = text.split("\n")
    block = find_block(lines)
    own = range(block.first, block.last + 1) if block else range(0)
    code = [("" if index in own or _comment(line) else line) for index, line in enumerate(lines)]
    if not _SHELL.match(lines[0]):
        raise ScriptError("not_a_script", f"its first line {lines[0][:60]!r} does not name a shell")
    if "\r" in text:
        raise ScriptError(
            "line_endings", "it has CR LF line endings, a shell cannot run it; convert it first"
        )
    family, sites, anchor = _family(code)
    return Script(family, sites, anchor, block, tuple(_hand_edits(code, sites, anchor)))


def _comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def find_block(lines: Sequence[str]) -> Optional[Block]:
    """Return our block in a script or an option file, None if there is none; ``ScriptError`` if it is damaged."""
    first = [index for index, line in enumerate(lines) if line.lstrip().startswith(_BEGIN_MARK)]
    last = [index for index, line in enumerate(lines) if line.lstrip().startswith(_END_MARK)]
    if not first and not last:
        return None
    if len(first) != 1 or len(last) != 1 or last[0] < first[0]:
        raise ScriptError(
            "damaged_block",
            f"our block is damaged: {len(first)} BEGIN and {len(last)} END lines of fleet.mysqltune. "
            "Remove what is left of it by hand",
        )
    inside = "\n".join(lines[first[0] : last[0]])
    found = re.search(rf"^\s*fleet_preload=({SAFE_PATH})$", inside, re.MULTILINE)
    variables = re.search(r'^\s*fleet_variables="([^"]*)"$', inside, re.MULTILINE)
    environment = dict(word.split("=", 1) for word in variables.group(1).split()) if variables else {}
    return Block(first[0], last[0], found.group(1) if found else None, environment)


def _family(code: Sequence[str]) -> Tuple[str, Tuple[int, ...], int]:
    """Return family, launch sites and the anchor, all as indexes; comments are blank in ``code``."""
    loops = tuple(index for index, line in enumerate(code) if _LOOP_C.match(line))
    launches = tuple(index for index, line in enumerate(code) if _LAUNCH_AB.search(line))
    whiles = [index for index, line in enumerate(code) if _WHILE.match(line)]
    if len(loops) == 1 and not launches:
        return "C", loops, loops[0]
    if not loops and 1 <= len(launches) <= 2 and len(whiles) == 1 and whiles[0] < launches[0]:
        old = any("exec $NOHUP_NICENESS" in code[index] for index in launches)
        return "A" if old else "B", launches, whiles[0]
    raise ScriptError(
        "not_understood",
        f'the place where it starts the server was not found: {len(loops)} loops over "$ledir/$MYSQLD" (1 is '
        f"right), {len(launches)} lines with $NOHUP_NICENESS $ledir/ (0, or 1 to 2 with one 'while true'), "
        f"{len(whiles)} 'while true'.{_wrapper_hint(code)}",
    )


def _wrapper_hint(code: Sequence[str]) -> str:
    targets = [match.group(1) for match in map(_TARGET.match, code) if match]
    return f" It is a wrapper of {targets[0]}: name that one as path" if len(targets) == 1 else ""


def _hand_edits(code: Sequence[str], sites: Sequence[int], anchor: int) -> List[HandEdit]:
    initialised = any(_NATIVE_EMPTY.match(line) for line in code)
    functions = _in_functions(code)
    edits = []
    for index, line in enumerate(code):
        found = _hand_edit(line, initialised)
        foreign = found is not None and _foreign(line, *found)
        if found and (foreign or index in functions) and _ASSIGN.match(line):
            _check_place(line, index in functions, index > anchor)
        if found and not foreign:
            edits.append(HandEdit(index + 1, line.strip(), found[0], found[1], index <= max(sites)))
    if edits and not any(edit.paths for edit in edits):
        return []
    return edits


def _check_place(line: str, in_function: bool, behind: bool) -> None:
    """Refuse a preload that our block would not see, so that it would be lost."""
    if in_function or behind:
        where = "stands inside a function" if in_function else "comes after the place of our block"
        raise ScriptError(
            "hand_edit",
            f"the hand-made line {line.strip()[:120]!r} {where}, too late to be merged. "
            "Move it to the top of the script",
        )


def _in_functions(code: Sequence[str]) -> Set[int]:
    """Return the indexes of the lines between a function's head and the brace at column 0 that ends it."""
    found: Set[int] = set()
    inside = False
    for index, line in enumerate(code):
        inside = (inside or bool(_FUNCTION.match(line))) and not line.startswith("}")
        if inside:
            found.add(index)
    return found


def hand_edits(text: str) -> List[HandEdit]:
    """Return the hand-made preloads of a script, whether the place where it starts the server is known or not."""
    lines = text.split("\n")
    return _hand_edits(["" if _comment(line) else line for line in lines], [len(lines)], len(lines))


def _foreign(line: str, paths: Sequence[str], rest: Optional[str]) -> bool:
    """Say whether the line preloads something that is no allocator: it stays, and our block merges it."""
    others = [path for path in paths if not classify(path)]
    in_a_command = rest is not None and not _NATIVE_SET.match(line)
    if others and (in_a_command or len(others) < len(paths)):
        raise ScriptError(
            "hand_edit",
            f"the hand-made line {line.strip()[:120]!r} preloads {', '.join(others)}, which is no allocator. "
            "Give it a line of its own (export LD_PRELOAD=...), so that it can be kept and merged",
        )
    return bool(others)


def _hand_edit(line: str, initialised: bool) -> Optional[Tuple[Tuple[str, ...], Optional[str]]]:
    """Return the paths and what remains of the line; None if the line has no literal preload."""
    whole = _ASSIGN.match(line) or _NATIVE_ADD.match(line)
    if whole:
        return _literal(whole.group("value"), line, None)
    if _EXPORT.match(line):
        return (), None
    native = _NATIVE_SET.match(line)
    if native:
        return _literal(native.group("value"), line, None if initialised else native.group("head"))
    word = _WORD.search(line)
    if word and not re.match(r"\s*(echo|printf|log_\w+)\b", line):
        return _literal(word.group("value"), line, line[: word.start()] + line[word.end() :])
    return None


def _literal(value: str, line: str, rest: Optional[str]) -> Optional[Tuple[Tuple[str, ...], Optional[str]]]:
    """Take the paths out of a value; references to the inherited variable may stand beside them."""
    words = split_preload(re.sub(r"\$(LD_PRELOAD\b|\{LD_PRELOAD(:[-+][^}]*)?\})", " ", value.strip("\"'")))
    if words and not any("$" in word for word in words):
        return tuple(words), rest
    if not words or not _ASSIGN.match(line):  # scripts have such lines themselves, in the middle of a command
        return None
    raise ScriptError(
        "hand_edit",
        f"the hand-made line {line.strip()[:120]!r} sets LD_PRELOAD in a way that is not understood. "
        "Take it out",
    )


def block(
    family: str, library: Optional[str], environment: Mapping[str, str] = {}, indent: str = ""
) -> List[str]:
    """Return the lines of our block. Nothing in it can fail, since some scripts run with ``set -e``."""
    variables = [f'  fleet_variables="{words(environment)}"'] if environment else []
    lines = [
        BEGIN,
        'if test "${dry_run:-0}" != 1',
        "then",
        *variables,
        *(_joined_preloads(family, library) if library else []),
        f"  {_lengthened(family, bool(environment), library is not None)}",
        "fi",
        END,
    ]
    return [indent + line for line in lines]


def _joined_preloads(family: str, library: str) -> List[str]:
    return [
        f"  fleet_preload={library}",
        f"  for fleet_other in {'$mysqld_ld_preload ' if family == 'C' else ''}$LD_PRELOAD",
        "  do",
        '    fleet_preload="$fleet_preload:$fleet_other"',
        "  done",
    ]


def _lengthened(family: str, variables: bool, preload: bool) -> str:
    """Return the line that lengthens the command: ``env`` with what the server alone is to have."""
    name = "cmd" if family == "C" else "NOHUP_NICENESS"
    command = f"${name} env{' $fleet_variables' if variables else ''}"
    if not preload:
        return f'{name}="{command}"'
    if family == "C":
        return f'{name}="{command} LD_PRELOAD="`shell_quote_string "$fleet_preload"`'
    return f'{name}="{command} LD_PRELOAD=$fleet_preload"'


def patched(
    text: str,
    library: Optional[str],
    resolve: Callable[[str], str] = str,
    environment: Mapping[str, str] = {},
) -> str:
    """Return the script with ``library`` and ``environment`` given to the server, idempotent.

    A working hand-made preload of the same library is left as it is if it is all that is wanted; others go, our
    block takes their place. ``resolve`` says when two paths are the same file. ``ScriptError`` if the script is not
    understood, or for what cannot be handed over.
    """
    _check(library, environment)
    script = inspect(text)
    if library and not environment and adopted(script, library, resolve):
        return _without_block(text, script.block)
    clean = _without_hand_edits(_without_block(text, script.block))
    lines, anchor = clean.split("\n"), inspect(clean).anchor
    indent = lines[anchor][: len(lines[anchor]) - len(lines[anchor].lstrip())]
    lines[anchor:anchor] = block(script.family, library, environment, indent)
    return "\n".join(lines)


def _check(library: Optional[str], environment: Mapping[str, str]) -> None:
    if library and not re.fullmatch(SAFE_PATH, library):
        raise ScriptError("unsafe_path", f"the path {library!r} has characters that LD_PRELOAD cannot hold")
    for name, value in environment.items():
        found = problem(name, value)
        if found:
            raise ScriptError("invalid_environment", found)


def adopted(script: Script, library: str, resolve: Callable[[str], str] = str) -> bool:
    """Say whether a hand-made preload does what is wanted: this library, no other, before the start."""
    edits = [edit for edit in script.hand_edits if edit.paths]
    same = all(resolve(path) == resolve(library) for edit in edits for path in edit.paths)
    return bool(edits) and same and any(edit.works for edit in edits)


def unpatched(text: str) -> str:
    """Return the script without our block and without hand-made preloads; exact bytes otherwise.

    A script that is not understood gives back our block; without one it is a ``ScriptError``.
    """
    own = find_block(text.split("\n"))
    try:
        return _without_hand_edits(_without_block(text, own))
    except ScriptError:
        if own is None:
            raise
        return _without_block(text, own)


def without_block(text: str) -> str:
    """Return the script without our block alone: what others wrote stays."""
    return _without_block(text, find_block(text.split("\n")))


def _without_block(text: str, own: Optional[Block]) -> str:
    if own is None:
        return text
    lines = text.split("\n")
    del lines[own.first : own.last + 1]
    return "\n".join(lines)


def _without_hand_edits(text: str) -> str:
    lines = text.split("\n")
    for edit in reversed(inspect(text).hand_edits):
        lines[edit.line - 1 : edit.line] = [] if edit.rest is None else [edit.rest]
    return "\n".join(lines)


def configured_preload(text: str) -> Dict[str, Any]:
    """Return ``{paths, managed, adopted, variables, own_variables}``: what the script gives the server, and whether by our block.

    A script shows no variables but ours.
    """
    try:
        script = inspect(text)
    except ScriptError:
        managed = _BEGIN_MARK in text
        return {"paths": [], "managed": managed, "adopted": False, "variables": {}, "own_variables": {}}
    by_hand = [path for edit in script.hand_edits if edit.works for path in edit.paths]
    ours = [script.block.library] if script.block and script.block.library else []
    environment = dict(script.block.environment) if script.block else {}
    return {
        "paths": list(dict.fromkeys(ours + by_hand)),
        "managed": script.block is not None,
        "adopted": bool(by_hand),
        "variables": environment,
        "own_variables": environment,
    }


def interpreter(text: str) -> List[str]:
    """Return the command of the script's own shell; /bin/sh if the first line is an unfilled template."""
    words = text.split("\n", 1)[0][2:].split()
    if not words or words[0].startswith("@"):
        return ["/bin/sh"]
    return words[:2] if words[0].endswith("/env") else words[:1]
