"""A directory that stands for the root of a host with systemd, and a systemctl that answers from it."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed


def libc_path() -> str:
    """Return a library that every host has and only root can replace."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split()[-1] for line in lines if re.search(r"/libc[.-]", line))


FRAGMENT = "/lib/systemd/system/mariadb.service"
LATER = "/etc/systemd/system/mariadb.service.d/zzz.conf"


class UnitHost:
    """``calls`` has what was run; ``main_pid`` and its ``environ`` are those of the running service."""

    def __init__(self, root: Path, unit: str = "mariadb.service", names: str = "") -> None:
        self.root, self.unit, self.names = root, unit, names or unit
        self.main_pid, self.version, self.calls = 0, 252, []
        self.known = True
        self.manager: set[str] = set()
        self.put(FRAGMENT, "[Service]\nExecStart=/usr/sbin/mariadbd\nUser=mysql\n")

    def put(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def text(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text()

    def has(self, path: str) -> bool:
        return (self.root / path.lstrip("/")).exists()

    def start(self, **environment: str) -> None:
        """Let the service run with this environment."""
        self.main_pid = 4242
        content = "".join(f"{name}={value}\0" for name, value in {"PATH": "/bin", **environment}.items())
        self.put("/proc/4242/environ", content)

    @property
    def proc(self) -> str:
        return str(self.root / "proc")

    def run(self, argv, **_options) -> Completed:
        self.calls.append(list(argv))
        if argv[1] == "--version":
            return Completed(0, f"systemd {self.version} (x)\n", "")
        if argv[1] == "daemon-reload":
            files = self.root / "etc/fleet-mysqltune"
            self.manager = (
                {f"/etc/fleet-mysqltune/{path.name}" for path in files.glob("*")} if files.is_dir() else set()
            )
            return Completed(0, "", "")
        if not self.known:
            return Completed(0, f"Id={argv[-1]}\nLoadState=not-found\nFragmentPath=\n", "")
        loaded = "".join(f"EnvironmentFiles={path} (ignore_errors=yes)\n" for path in self.manager)
        return Completed(
            0,
            f"Id={self.unit}\nNames={self.names}\nLoadState=loaded\nFragmentPath={FRAGMENT}\n"
            f"MainPID={self.main_pid}\nEnvironmentFiles=/run/x (ignore_errors=yes)\n{loaded}",
            "",
        )
