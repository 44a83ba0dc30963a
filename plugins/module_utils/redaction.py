# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be shown of a text: the values of names that sound like secrets are masked."""

from __future__ import annotations

import re

MASK = "********"
_NAME = r"[\w-]*(?:PASSWORD|PASSWD|TOKEN|SECRET|_PWD)[\w-]*"
_WORD = r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s;&|])+"""
_QUOTED_WHOLE = re.compile(rf"""(?P<quote>["'])(?P<name>{_NAME}=)(?:\\.|(?!(?P=quote)).)+""", re.I | re.S)
_ASSIGNED = re.compile(rf"""(?P<name>(?<![\w"'-]){_NAME}=){_WORD}""", re.I | re.S)
_ARGUMENT = re.compile(rf"(?P<name>(?<![\w-])--{_NAME}[ \t]+)(?![-;&|]){_WORD}", re.I | re.S)


def redacted(text: str) -> str:
    """Mask the values in ``NAME=value``, ``--name=value`` and ``--name value``, quoted or not."""
    text = _QUOTED_WHOLE.sub(rf"\g<quote>\g<name>{MASK}", text)
    return _ARGUMENT.sub(rf"\g<name>{MASK}", _ASSIGNED.sub(rf"\g<name>{MASK}", text))
