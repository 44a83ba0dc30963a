# SPDX-License-Identifier: GPL-3.0-or-later
"""From an archive to an allocator in place: look at it, build it if that has not been done, prove it, install or pack it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any, ContextManager, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .built import library, read_mark, tree
from .host_facts import distribution
from .packed import install_deb, is_packed, kept, pack, take_out
from .source_archive import Source, SourceError, check_holds, check_sha256, recognise
from .source_build import Workshop, bench, build, is_built, missing_tools, options, place, prove


class Order(NamedTuple):
    """What to make: ``form`` is ``prefix`` or ``deb``; with ``pack_only`` it is packed and not installed."""

    path: str
    allocator: str
    sha256: str = ""
    form: str = "prefix"
    pack_only: bool = False
    tool_packages: Mapping[str, Mapping[str, str]] = {}


class Made(NamedTuple):
    """What was made, or would be."""

    changed: bool
    library: str
    project: str
    version: str
    packed: Optional[str]
    missing: Sequence[str] = ()
    family: Optional[str] = None
    packages: Sequence[str] = ()


def make(order: Order, shop: Workshop, check: bool = False) -> Made:
    """Make the allocator unless it is there; ``check`` only tells. ``SourceError`` says why it cannot be done."""
    if not os.path.isfile(order.path):
        raise SourceError(f"{order.path} is not there. Give a source archive")
    if is_packed(order.path):
        return _unpacked(order, shop, check)
    source = recognise(order.path)
    check_sha256(order.path, source.sha256, order.sha256)
    check_holds(order.path, source, order.allocator)
    wanted = options(source, order.allocator, os.uname().machine)
    packed = (
        kept(shop.prefix, order.form, order.allocator, source.sha256, wanted) if order.pack_only else None
    )
    there = bool(packed) if order.pack_only else is_built(shop.prefix, source, order.allocator)
    if there:
        return _made(order, shop, source, False, packed)
    missing = missing_tools(source)
    family, packages = tool_packages(missing, order, shop)
    if check:
        return _made(order, shop, source, True)._replace(missing=missing, family=family, packages=packages)
    if missing:
        raise SourceError(
            f"{source.project} {source.version} cannot be built here without {', '.join(missing)}. Install "
            f"{' '.join(packages or missing)}, or name a host that has them as allocator_source_host"
        )
    with bench(shop) as work:
        finished = build(order.path, source, order.allocator, work, shop)
        packed = _finish(order, shop, finished, prove(finished, order.allocator, shop))
    return _made(order, shop, source, True, packed)


def tool_packages(missing: List[str], order: Order, shop: Workshop) -> Tuple[Optional[str], List[str]]:
    """Return the family of this host's system and the packages that bring these programs there."""
    with contextlib.suppress(OSError), open(
        os.path.join(shop.root, "etc/os-release"), encoding="utf-8"
    ) as stream:
        system = distribution(stream.read())
        family = next((name for name in (system["id"], *system["like"]) if name in order.tool_packages), None)
        known = order.tool_packages[family] if family else {}
        return family, sorted({known[tool] for tool in missing if tool in known})
    return None, []


def _finish(order: Order, shop: Workshop, finished: str, mark: Dict[str, Any]) -> Optional[str]:
    """Install or pack a proved tree; return the packed file, if there is one."""
    if order.form == "prefix" and not order.pack_only:
        place(finished, shop.prefix, mark)
        return None
    packed = pack(finished, mark, order.form, shop)
    if not order.pack_only:
        install_deb(packed, shop)
    return packed


def _made(order: Order, shop: Workshop, source: Source, changed: bool, packed: Optional[str] = None) -> Made:
    directory = tree(shop.prefix, order.allocator, source.version)
    path = library(shop.prefix, order.allocator, source.version, source.number)
    mark = read_mark(directory)
    if mark.get("source_sha256") == source.sha256:
        path = os.path.join(directory, str(mark["library"]))
    return Made(changed, path, source.project, source.version, packed)


def _unpacked(order: Order, shop: Workshop, check: bool) -> Made:
    """Install what was packed on another host."""
    room: ContextManager[str] = tempfile.TemporaryDirectory() if check else bench(shop)
    with room as work:
        finished = take_out(order.path, work, shop)
        mark = read_mark(finished)
        if mark.get("allocator") != order.allocator:
            raise SourceError(
                f"{order.path} holds {mark.get('allocator') or 'nothing built here'}, not {order.allocator}"
            )
        if order.sha256 and mark.get("source_sha256") != order.sha256:
            raise SourceError(
                f"{order.path} was built from another archive than the one asked for. Build it again"
            )
        target = tree(shop.prefix, order.allocator, str(mark["version"]))
        changed = read_mark(target) != mark or not os.path.isfile(os.path.join(target, mark["library"]))
        if changed and not check:
            shop.alive()
            prove(finished, order.allocator, shop)
            if order.form == "deb":
                install_deb(order.path, shop)
            else:
                place(finished, shop.prefix, mark)
        path = os.path.join(target, str(mark["library"]))
        return Made(changed, path, str(mark["project"]), str(mark["version"]), None)
