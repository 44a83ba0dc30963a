"""Flight tests with small programs and libraries that behave as bad ones do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.fleet.mysqltune.plugins.module_utils import probe as p
from ansible_collections.fleet.mysqltune.plugins.module_utils import probe_helpers, probe_process
from ansible_collections.fleet.mysqltune.plugins.module_utils.command import Completed
from programs import Programs
from programs import programs as programs  # a fixture
from unit_host import UnitHost

DAEMON = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    if (getenv("TEST_FAILS")) { fputs("no such mode\\n", stderr); return 2; }
    for (long n = 0; n < LINES; n++) { free(malloc(n)); puts("a line of help"); }
    return 0;
}
"""
CONSTRUCTOR = (
    "#include <signal.h>\n#include <unistd.h>\n__attribute__((constructor)) static void c(void) {{ {} }}\n"
)
BAD = {"crash": "raise(SIGSEGV);", "spin": "for (;;);", "sleep": "for (;;) sleep(1000);", "quit": "_exit(3);"}


@pytest.fixture
def daemon(programs: Programs) -> str:
    return programs.compile("stubd", DAEMON, "-DLINES=100000")


def test_an_allocator_that_works_is_effective_and_nothing_stays_behind(programs, daemon):
    library = programs.library("libmimalloc.so.2")
    result = p.probe(p.Subject(daemon, library), systemd=False)
    assert (result.level, result.reason, result.method) == ("effective", None, "direct")
    assert result.bound == {"malloc": library, "free": library}
    assert "Not tested" in result.message
    assert running(daemon) == []


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [
        ("crash", "crash", "is killed by SIGSEGV"),
        ("quit", "crash", "exit code 3"),
        ("spin", "hang", "hangs at its start"),
        ("sleep", "hang", "hangs at its start"),
    ],
)
def test_a_library_that_breaks_the_start_is_told_from_one_that_works(programs, daemon, kind, reason, words):
    library = programs.library(f"lib{kind}.so", CONSTRUCTOR.format(BAD[kind]))
    result = p.probe(p.Subject(daemon, library, timeout=0.5), systemd=False)
    assert (result.level, result.reason) == ("intended", reason)
    assert words in result.message
    assert library in result.message
    assert running(daemon) == []


def test_a_library_without_malloc_is_mapped_but_not_bound(programs, daemon):
    library = programs.library("libidle.so", "int nothing;")
    result = p.probe(p.Subject(daemon, library), systemd=False)
    assert (result.level, result.reason, result.mapped) == ("mapped", "not_bound", [library])


def test_a_missing_library_is_told_in_the_loaders_words(daemon):
    result = p.probe(p.Subject(daemon, "/usr/lib/libfleet_none.so.4"), systemd=False)
    assert (result.level, result.reason) == ("delivered", "not_found")
    assert "cannot open shared object file" in result.message


def test_a_daemon_that_fails_without_the_library_too_says_nothing_about_it(programs, daemon):
    library = programs.library("libmimalloc.so.2")
    result = p.probe(p.Subject(daemon, library, environment={"TEST_FAILS": "1"}), systemd=False)
    assert (result.level, result.reason) == ("intended", "not_testable")
    assert "no such mode" in result.message


def test_a_daemon_that_prints_nothing_to_stand_still_at_is_not_testable(programs):
    daemon = programs.compile("shortd", DAEMON, "-DLINES=0")
    result = p.probe(p.Subject(daemon, programs.library("libmimalloc.so.2")), systemd=False)
    assert result.reason == "not_testable"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("(cannot open shared object file)", "not_found"),
        ("(wrong ELF class: ELFCLASS32)", "elf_class"),
        ("(invalid ELF header)", "not_elf"),
        ("(failed to map segment from shared object)", "not_mapped"),
        ("", "secure_exec"),
    ],
)
def test_the_loaders_complaints_are_understood(said, reason):
    line = (
        f"ERROR: ld.so: object '/x.so' from LD_PRELOAD cannot be preloaded {said}".rstrip() + ": ignored.\n"
    )
    found = p.loader_problem(f"noise\n{line}", "/x.so")
    assert found is not None
    assert found[0] == reason
    assert p.loader_problem(line, "/y.so") is None


def running(text: str) -> list[int]:
    """Return the pids whose command line contains ``text``."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words and words[0] == text.encode():
            found.append(int(entry.name))
    return found


def wait_for(condition, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("kind", ["sleep", "spin"])
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_probe_leaves_no_process_behind(programs, daemon, kind, signal_number):
    library = programs.library(f"lib{kind}.so", CONSTRUCTOR.format(BAD[kind]))
    code = (
        "from ansible_collections.fleet.mysqltune.plugins.module_utils import probe as p\n"
        f"p.probe(p.Subject({daemon!r}, {library!r}, timeout=60.0), systemd=False)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as prober:
        assert wait_for(lambda: running(daemon))
        prober.send_signal(signal_number)
    assert wait_for(lambda: not running(daemon))


def test_the_child_is_another_user_if_asked_and_we_are_root():
    user = "nobody" if os.geteuid() == 0 else None
    process = probe_process.DirectProcess(["yes"], {}, user, 5)
    try:
        assert process.stands(5)
        status = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process.kill()
    uid = next(line.split()[1] for line in status.splitlines() if line.startswith("Uid:"))
    assert uid == ("65534" if user else str(os.geteuid()))


def test_an_unknown_user_and_a_program_that_cannot_be_started_are_named():
    with pytest.raises(OSError, match="no-such-program cannot be started"):
        probe_process.DirectProcess(["/no-such-program"], {}, None, 5)
    if os.geteuid() == 0:
        with pytest.raises(OSError, match="no user 'no-such-user'"):
            probe_process.DirectProcess(["yes"], {}, "no-such-user", 5)


SYSTEMD_RUN = """#!/bin/sh
printf '%s\\n' "$@" > "$0.argv"
for word in "$@"; do
  case "$word" in
    --property=NoExecPaths=*) echo "Unknown assignment: NoExecPaths=/tmp" >&2; exit 1 ;;
    --setenv=*) export "${word#--setenv=}" ;;
    --) break ;;
  esac
done
while [ "$1" != -- ]; do shift; done
shift
echo "Running as unit: x.service" >&2
echo $$ > "$0.pid"
exec "$@"
"""


class SystemdHost(UnitHost):
    """A host whose ``systemd-run`` is a stub that runs the program at once."""

    def __init__(self, root: Path, shown: str = "") -> None:
        super().__init__(root)
        self.shown = shown
        self.put("/bin/systemd-run", SYSTEMD_RUN)
        (root / "bin/systemd-run").chmod(0o755)

    def run(self, argv, **options) -> Completed:
        if argv[:3] == ["systemctl", "show", "-p"] and argv[3] == "MainPID":
            pid = self.root / "bin/systemd-run.pid"
            return Completed(0, f"MainPID={pid.read_text().strip() if pid.exists() else 0}\n", "")
        if argv[:2] == ["systemctl", "show"] and argv[3].startswith(("User,", "ExecCondition")):
            return Completed(0, self.shown, "")
        if argv[:2] == ["systemctl", "kill"]:
            os.kill(int(self.text("/bin/systemd-run.pid")), signal.SIGKILL)
        return super().run(argv, **options)

    @property
    def argv(self) -> list[str]:
        return self.text("/bin/systemd-run.argv").splitlines()


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = SystemdHost(
        tmp_path / "root", "User=mysql\nLimitNOFILE=100\nNoExecPaths=/tmp\nProtectHome=no\nRootDirectory=\n"
    )
    monkeypatch.setenv("PATH", f"{made.root}/bin:{os.environ['PATH']}")
    return made


def test_in_a_unit_its_properties_are_cloned_and_those_that_are_not_known_left_out(programs, daemon, host):
    library = programs.library("libmimalloc.so.2")
    result = p.probe(
        p.Subject(daemon, library, unit="mariadb"), run=host.run, systemd=True, root=str(host.root)
    )
    assert (result.level, result.method) == ("effective", "systemd")
    options = host.argv[: host.argv.index("--")]
    assert "--property=User=mysql" in options
    assert "--property=LimitNOFILE=100" in options
    assert f"--setenv=LD_PRELOAD={library}" in options
    assert not any(
        "NoExecPaths" in word or "ProtectHome" in word or "RootDirectory" in word for word in options
    )
    assert any(word.startswith("--property=RuntimeMaxSec=") for word in options)
    assert running(daemon) == []


def test_a_systemd_that_cannot_run_it_at_all_is_replaced_by_a_child_of_ours(programs, daemon, host):
    host.put(
        "/bin/systemd-run", "#!/bin/sh\necho \"systemd-run: unrecognized option '--pipe'\" >&2; exit 1\n"
    )
    library = programs.library("libmimalloc.so.2")
    result = p.probe(p.Subject(daemon, library), run=host.run, systemd=True, root=str(host.root))
    assert (result.level, result.method) == ("effective", "direct")


def test_secrets_of_the_unit_do_not_reach_a_command_line(programs, daemon, host):
    host.put(
        "/etc/systemd/system/mariadb.service.d/a.conf",
        "[Service]\nEnvironment=PASSWORD=hush MALLOC_CONF=x:1\n",
    )
    p.probe(
        p.Subject(daemon, programs.library("libmimalloc.so.2"), unit="mariadb"),
        run=host.run,
        systemd=True,
        root=str(host.root),
    )
    assert [word for word in host.argv if "MALLOC" in word] == ["--setenv=MALLOC_CONF=x:1"]
    assert not any("hush" in word for word in host.argv)


def test_foreign_preloads_of_the_unit_fly_too(programs, daemon, host):
    idle, library = programs.library("libidle.so", "int nothing;"), programs.library("libmimalloc.so.2")
    host.put("/etc/systemd/system/mariadb.service.d/a.conf", f"[Service]\nEnvironment=LD_PRELOAD={idle}\n")
    result = p.probe(
        p.Subject(daemon, library, unit="mariadb"), run=host.run, systemd=True, root=str(host.root)
    )
    assert (result.level, result.preload) == ("effective", [idle, library])


def test_helpers_are_started_by_their_interpreter_alone(programs, daemon, host, tmp_path):
    helper = tmp_path / "helper"
    helper.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    helper.chmod(0o755)
    host.shown += (
        f"ExecStartPre={{ path={helper} ; argv[]={helper} ; }}\nExecStart={{ path={daemon} ; argv[]=x ; }}\n"
    )
    library = programs.library("libmimalloc.so.2")
    result = p.probe(
        p.Subject(daemon, library, unit="mariadb"), run=host.run, systemd=True, root=str(host.root)
    )
    assert [(helper["path"], helper["ok"]) for helper in result.helpers] == [
        (str(helper), True),
        ("/bin/sh", True),
    ]
    assert not (tmp_path / "was-run").exists()


def test_a_library_that_breaks_a_helper_is_not_effective(programs, daemon, host):
    source = CONSTRUCTOR.format('if (access("/proc/self/exe", 0) || !is_daemon()) raise(SIGABRT);').replace(
        "__attr",
        '#include <string.h>\nstatic int is_daemon(void) { char b[999] = ""; readlink("/proc/self/exe", b, 998);'
        ' return strstr(b, "stubd") != 0; }\n__attr',
        1,
    )
    from programs import ALLOCATOR

    library = programs.library("libmimalloc.so.2", ALLOCATOR + source)
    result = p.probe(
        p.Subject(daemon, library, unit="mariadb"), run=host.run, systemd=True, root=str(host.root)
    )
    assert (result.level, result.reason) == ("intended", "crash")
    assert "/bin/sh of mariadb does not start" in result.message


@pytest.mark.parametrize(
    ("first", "command"),
    [
        ("#!/bin/bash -e", ["/bin/bash", "-c", ":"]),
        ("#!/usr/bin/env python3", ["python3", "-c", "pass"]),
        ("#!/usr/bin/perl", ["/usr/bin/perl", "-e", "1"]),
        ("\x7fELF", []),
    ],
)
def test_what_starts_an_interpreter_and_does_nothing(tmp_path, first, command):
    (tmp_path / "helper").write_text(f"{first}\n")
    assert probe_helpers.harmless(str(tmp_path / "helper"))[1] == command
