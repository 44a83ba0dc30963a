# SPDX-License-Identifier: GPL-3.0-or-later
"""A live lab for the tests: LAB_INVENTORY=inventory/lab/NAME.yml pytest tests/integration tests/faults [-m quick]"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
STATE = "/var/lib/fleet-mysqltune"
SAFE = "/usr/local/mysql/bin/mysqld_safe"
PID = "pgrep -x 'mariadbd|mysqld' | head -1"
SCRIPTS = f"{SAFE} /usr/bin/mariadbd-safe /usr/bin/mysqld_safe /etc/my.cnf"

# What puts a host back to the state in which the lab was built, without the product.
VIRGIN = rf"""
systemctl stop 'fleet-mysqltune-*' 2>/dev/null
rm -rf {STATE} /etc/fleet-mysqltune
rm -f /etc/systemd/system/*.d/zz-fleet-mysqltune.conf
rmdir /etc/systemd/system/m*.service.d 2>/dev/null
for script in $(grep -ls 'BEGIN fleet.mysqltune' {SCRIPTS}); do
  sed -i --follow-symlinks '/# BEGIN fleet.mysqltune/,/# END fleet.mysqltune/d' $script
done
systemctl daemon-reload
clean=yes pids=$(pgrep -x 'mariadbd|mysqld')
for pid in $pids; do
  if grep -qszE '^(LD_PRELOAD|MALLOC_.*|TCMALLOC_.*|MIMALLOC_.*)=' /proc/$pid/environ; then clean=no; fi
done
if [ -z "$pids" ] || [ $clean = no ] || [ -n "$RESTART" ]; then
  systemctl reset-failed $UNITS; systemctl restart $UNITS
fi
client=$(command -v mariadb || command -v mysql)
for socket in ${{SOCKETS:-""}}; do
  timeout 60 sh -c "until $client ${{socket:+--socket=$socket}} -e 'DO 1' 2>/dev/null; do sleep 0.1; done" || exit
done
"""
UNITS = {
    "safe12": "mysql",
    "sysv12": "mysql",
    "two12": "mariadb@a mariadb@b",
    "multi12": "mysqld_multi",
    "mysql9": "mysql",
    "mysql9safe": "mysqld-safe",
}
"""What starts the servers; elsewhere mariadb."""

SOCKETS = {
    "two12": "/run/mysqld/a.sock /run/mysqld/b.sock",
    "multi12": "/srv/mysql1/mysqld.sock /srv/mysql2/mysqld.sock",
}
"""Of hosts with several servers; elsewhere the client knows the socket."""

# Every file with its kind, mode, owner, target and bytes.
TREE = """
find %s -printf '%%p %%y %%m %%u %%g %%l\\n' 2>/dev/null | sort
find %s -type f -exec sha256sum {} + 2>/dev/null | sort -k 2
"""
BYTES = f"/etc/systemd /etc/fleet-mysqltune /etc/init.d /etc/mysql /etc/my.cnf {SCRIPTS}"


class Done(NamedTuple):
    """A command's end; ``said`` is its output on one line, because Ansible folds long messages."""

    rc: int
    out: str

    @property
    def said(self) -> str:
        return " ".join(self.out.split())

    def counted(self, host: str, what: str) -> int:
        """Return a number of the recap, such as ``changed``."""
        line = re.findall(rf"^{host}\s+: (.*)$", self.out, re.MULTILINE)[-1]
        return int(dict(word.split("=") for word in line.split())[what])


class Host:
    """A host of the lab, reached by ssh with the inventory's variables and without Ansible."""

    def __init__(self, name: str, variables: dict[str, Any], sockets: str) -> None:
        self.name = name
        self.address = str(variables["ansible_host"])
        self._ssh = [
            *("ssh", "-o", "BatchMode=yes", "-o", "ControlMaster=auto", "-o", "ControlPersist=300"),
            *("-o", f"ControlPath={sockets}/{name}", "-i", variables["ansible_ssh_private_key_file"]),
            *shlex.split(variables["ansible_ssh_common_args"]),
            f"{variables['ansible_user']}@{self.address}",
        ]

    def start(self, script: str, shell: str = "sh -s") -> subprocess.Popen[str]:
        """Start a script on the host; it comes through standard input, so that no argv shows it."""
        with tempfile.TemporaryFile("w+") as text:
            text.write(script)
            text.seek(0)
            return subprocess.Popen(
                [*self._ssh, shell], stdin=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )

    def sh(self, script: str, check: bool = True, timeout: float = 120) -> str:
        """Run a script on the host and return its output."""
        process = self.start(script)
        out, _ = process.communicate(timeout=timeout)
        assert process.returncode == 0 or not check, f"{self.name}: {script}\n{out}"
        return out.strip()

    def sql(self, statements: str) -> str:
        return self.sh(f"mariadb -NB <<'END'\n{statements}\nEND\n")

    def put(self, path: str, text: str, mode: str = "0600") -> None:
        self.sh(f"install -m {mode} /dev/stdin {path} <<'END'\n{text}\nEND\n")

    def copy(self, source: Path, path: str, mode: str = "0644") -> None:
        """Copy a file to the host, owned by root."""
        command = f"cat >{path}.new && chmod {mode} {path}.new && mv {path}.new {path}"
        with source.open("rb") as stream:
            subprocess.run([*self._ssh, command], stdin=stream, check=True, timeout=60)

    def tree(self, paths: str = f"/etc /usr/local/mysql/bin {STATE}") -> str:
        return self.sh(TREE % (paths, paths))

    def pid(self) -> str:
        return self.sh(PID)

    def pids(self) -> set[int]:
        return {int(pid) for pid in self.sh("pgrep -x 'mariadbd|mysqld'").split()}

    def effective(self, library: str = "libtcmalloc") -> bool:
        """Tell from the memory map whether the running server has the library."""
        return library in self.sh(f"cat /proc/$({PID})/maps")

    def touched(self) -> bool:
        """Tell whether anything of the product is on the host."""
        found = f"ls -d {STATE} /etc/fleet-mysqltune /etc/systemd/system/*.d/zz-fleet-mysqltune.conf"
        return bool(self.sh(f"{found} 2>/dev/null; grep -s 'BEGIN fleet.mysqltune' {SAFE}", check=False))

    def virgin(self, restart: bool = False) -> None:
        units, sockets = UNITS.get(self.name, "mariadb"), SOCKETS.get(self.name, "")
        self.sh(f"RESTART={'yes' if restart else ''} UNITS='{units}' SOCKETS='{sockets}'\n{VIRGIN}")

    def close(self) -> None:
        subprocess.run([*self._ssh[:-1], "-O", "exit", self._ssh[-1]], capture_output=True, check=False)


# Insert rows one by one, each a transaction, and note down those that the server has acknowledged.
WRITER = """
pkill -f ^sh./run/survivors.sh; timeout 30 sh -c 'while pgrep -f ^sh./run/survivors.sh; do sleep 0.05; done' >/dev/null
rm -f /run/survivors.*
mariadb -e "DROP DATABASE IF EXISTS survivors; CREATE DATABASE survivors;
  CREATE TABLE survivors.t (id int primary key, v char(32)) ENGINE=InnoDB"
cat >/run/survivors.sh <<'END'
while [ ! -e /run/survivors.stop ]; do
  i=$((i + 1))
  if mariadb -e "INSERT INTO survivors.t VALUES ($i, md5($i))" 2>/dev/null; then
    echo $i >>/run/survivors.acknowledged
  else
    sleep 0.05
  fi
done
touch /run/survivors.done
END
HOME=/root setsid nohup sh /run/survivors.sh </dev/null >/dev/null 2>&1 &
"""
LOST = """
touch /run/survivors.stop
timeout 60 sh -c 'until [ -e /run/survivors.done ]; do sleep 0.05; done'
mariadb -NB -e 'SELECT id FROM survivors.t WHERE BINARY v = BINARY md5(id)' | sort >/run/survivors.kept
sort /run/survivors.acknowledged | comm -23 - /run/survivors.kept
"""


class Survivors:
    """Rows written to a host's server while a test runs: what it acknowledged must be there in the end."""

    def __init__(self, host: Host) -> None:
        self._host = host
        host.sh(WRITER)
        until(self.count, 30, "the first row is acknowledged")

    def count(self) -> int:
        """Return how many rows the server has acknowledged."""
        return int(self._host.sh("cat /run/survivors.acknowledged 2>/dev/null | wc -l"))

    def lost(self) -> str:
        """Stop writing; return the rows, one per line, that were acknowledged and are gone or differ."""
        return self._host.sh(LOST)


class Lab:
    """The inventory, its hosts, and the playbooks."""

    def __init__(self, inventory: str, folder: Path) -> None:
        self.inventory = inventory
        self.reports = folder / "reports"  # with a directory for each playbook, for names of runs are reused
        self.reports.mkdir()
        self._sockets = tempfile.mkdtemp(prefix="lab")
        command = ["ansible-inventory", "-i", inventory, "--list"]
        listed = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
        self.hosts = {
            name: Host(name, variables, self._sockets)
            for name, variables in listed["_meta"]["hostvars"].items()
        }

    def command(self, playbook: str, limit: str, *options: str, **variables: Any) -> list[str]:
        """Return the command line of a playbook. Measurements and small waves are left out unless asked for."""
        defaults = {
            "tuning_benchmark": "none",
            "tuning_wave_sizes": ["100%"],
            "report_dir": tempfile.mkdtemp(dir=self.reports),
        }
        extra = json.dumps({**defaults, **variables})
        return ["ansible-playbook", "-i", self.inventory, playbook, "-l", limit, "-e", extra, *options]

    def play(self, playbook: str, limit: str, *options: str, **variables: Any) -> Done:
        """Run a playbook to its end."""
        done = subprocess.run(
            self.command(playbook, limit, *options, **variables),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        return Done(done.returncode, done.stdout)

    def start(self, playbook: str, limit: str, *options: str, **variables: Any) -> subprocess.Popen[str]:
        """Start a playbook in a process group of its own."""
        return subprocess.Popen(
            self.command(playbook, limit, *options, **variables),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def tune(self, limit: str, *options: str, **variables: Any) -> Done:
        return self.play("tune.yml", limit, *options, **variables)

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()


def kill_group(process: subprocess.Popen[str]) -> None:
    """SIGKILL a playbook with all its workers."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Poll until the condition is true and return its value; fail after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)


def inventory() -> str:
    """Return the path of the lab's inventory."""
    found = os.environ.get("LAB_INVENTORY")
    if not found:
        pytest.exit("set LAB_INVENTORY=inventory/lab/NAME.yml; ./run lab up makes one", returncode=4)
    return found


def servers_of_the_lab() -> list[str]:
    """Return the names of the hosts that have servers."""
    listed = yaml.safe_load((ROOT / inventory()).read_text())
    return list(listed["all"]["children"]["dbhosts"]["hosts"])


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    found = Lab(inventory(), tmp_path_factory.mktemp("lab"))
    yield found
    for host in found.hosts.values():
        if not host.name.startswith("plain"):
            host.virgin()
    found.close()


@pytest.fixture(scope="session")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that passes the flight test and ends the real server."""
    library = tmp_path_factory.mktemp("crash") / "libcrash.so"
    source = ROOT / "tests/faults/crash.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture
def deb12(lab: Lab) -> Host:
    """The server that systemd launches, as the lab was built."""
    lab.hosts["deb12"].virgin()
    return lab.hosts["deb12"]


@pytest.fixture
def deb13(lab: Lab) -> Host:
    lab.hosts["deb13"].virgin()
    return lab.hosts["deb13"]


@pytest.fixture
def safe12(lab: Lab) -> Host:
    """The server that mysqld_safe launches, as the lab was built."""
    lab.hosts["safe12"].virgin()
    return lab.hosts["safe12"]
