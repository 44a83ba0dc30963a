"""A host's /sys, /proc and /etc as trees of files, with the programs that set things at boot."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.fleet.mysqltune.plugins.module_utils.boot_settings import (
    SETTINGS,
    Roots,
    running_value,
)

ENABLED = "sys/kernel/mm/transparent_hugepage/enabled"
OURS_THP = "etc/tmpfiles.d/fleet-mysqltune-thp.conf"
OURS_SYSCTL = "etc/sysctl.d/60-fleet-mysqltune.conf"
KERNEL = {
    ENABLED: "[always] madvise never\n",
    "proc/sys/vm/overcommit_memory": "0\n",
    "proc/sys/vm/swappiness": "60\n",
}
PROGRAMS = ("usr/bin/systemd-tmpfiles", "usr/lib/systemd/systemd-sysctl")


class MemoryHost:
    """The trees below ``root``; ``roots`` names them as the module's parameters do."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.roots = Roots(*(str(root / name) for name in ("sys", "proc", "etc")))
        for path, text in {**KERNEL, **dict.fromkeys(PROGRAMS, "")}.items():
            self.put(path, text)

    def put(self, path: str, text: str) -> str:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return str(file)

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def has(self, path: str) -> bool:
        return (self.root / path).exists()

    def values(self) -> list[str | None]:
        return [running_value(name, self.roots) for name in SETTINGS]

    def tree(self) -> dict[str, str]:
        return {str(path): path.read_text() for path in sorted(self.root.rglob("*")) if path.is_file()}
