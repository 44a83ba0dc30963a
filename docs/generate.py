#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the generated tables of the docs: variables, reason codes, packages; with --check only compare."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
MARKS = re.compile(r"(<!-- variables: begin -->\n).*?(<!-- variables: end -->)", re.DOTALL)
REASONS = re.compile(r"(<!-- reasons: begin -->\n).*?(<!-- reasons: end -->)", re.DOTALL)
PACKAGES = re.compile(r"(<!-- packages: begin -->\n).*?(<!-- packages: end -->)", re.DOTALL)
MARKUP = re.compile(r"\b[A-Z]\(([^)]*)\)")


def table(options: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown table of one role's variables, in the order of the argument spec."""
    rows = ["| variable | type | default | meaning |", "|---|---|---|---|"]
    for name, option in options.items():
        description = option["description"]
        words = description if isinstance(description, str) else " ".join(description)
        meaning = MARKUP.sub(r"`\1`", words).replace("|", "\\|")
        default = yaml.safe_dump(option.get("default"), default_flow_style=True).removesuffix("...\n").strip()
        shown = "required" if option.get("required") else f"`{default}`"
        rows.append(f"| `{name}` | {option.get('type', 'str')} | {shown} | {meaning} |")
    return "\n".join(rows) + "\n"


def refreshed(readme: Path) -> str:
    """Return the text of a role's README with its table as it has to be."""
    spec = yaml.safe_load((readme.parent / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options = spec["argument_specs"]["main"].get("options", {})
    text, count = MARKS.subn(lambda m: m[1] + table(options) + m[2], readme.read_text(encoding="utf-8"))
    if count != 1:
        raise SystemExit(
            f"{readme}: needs exactly one pair of 'variables: begin' and 'variables: end' marks."
        )
    return text


def data(name: str) -> Any:
    """Return a module of plugins/module_utils that is data only, loaded from its file."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"plugins/module_utils/{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def with_reasons(page: Path) -> str:
    """Return the text of the page about faults with its table of reason codes as it has to be."""
    rows = [f"| `{code}` | {words} |" for code, words in sorted(data("reasons").REASONS.items())]
    written = "\n".join(["| code | meaning, and what to do |", "|---|---|", *rows]) + "\n"
    return REASONS.sub(lambda m: m[1] + written + m[2], page.read_text(encoding="utf-8"))


def with_packages(page: Path) -> str:
    """Return the text of the page about allocators with its table of packages as it has to be."""
    rows = ["| system | allocator | package | library | checked |", "|---|---|---|---|---|"]
    for (system, release), packages in data("packages").PACKAGES.items():
        for allocator, found in packages.items():
            library = found.library.format(machine="MACHINE", bits="BITS")
            checked = "yes" if found.checked else f"no: {found.source}"
            rows.append(f"| {system} {release} | `{allocator}` | `{found.name}` | `{library}` | {checked} |")
    written = "\n".join(rows) + "\n"
    return PACKAGES.sub(lambda m: m[1] + written + m[2], page.read_text(encoding="utf-8"))


def texts() -> dict[Path, str]:
    """Return every page with generated tables, and its text as it has to be."""
    specs = sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))
    readmes = [spec.parent.parent / "README.md" for spec in specs]
    faults, allocators = ROOT / "docs/faults.md", ROOT / "docs/allocators.md"
    pages = {faults: with_reasons(faults), allocators: with_packages(allocators)}
    return {**{readme: refreshed(readme) for readme in readmes}, **pages}


def stale() -> list[Path]:
    """Return the pages whose tables differ from what they are made from."""
    return [path for path, text in texts().items() if text != path.read_text(encoding="utf-8")]


if __name__ == "__main__":
    for path in stale():
        print(path.relative_to(ROOT))
        if "--check" in sys.argv:
            raise SystemExit("Run docs/generate.py to refresh the tables.")
        path.write_text(texts()[path], encoding="utf-8")
