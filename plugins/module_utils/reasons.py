# SPDX-License-Identifier: GPL-3.0-or-later
"""The reason codes: why an evidence level was not reached, or why a server was left alone; and what to do about it."""

from __future__ import annotations

from typing import Dict

REASONS: Dict[str, str] = {
    "apparmor": "AppArmor confines the daemon and denies the library: allow it in the daemon's profile",
    "bad_value": "A variable has a value that cannot be: the message names it",
    "crash": "The server ended at its start, or within the settle period: choose another library or version",
    "deleted": "The library was replaced or removed under the process: tune.yml restarts the server on the new file",
    "elf_class": "A 32-bit library for a 64-bit daemon, or the other way round: install the right one",
    "elf_machine": "The library is built for another processor: install the right one",
    "galera": "A member of a Galera cluster is not restarted without tuning_include_cluster_members",
    "group_replication": "A member of group replication is not restarted without tuning_include_cluster_members",
    "hang": "The server did not answer in time: choose another library, or raise activate_timeout if it was only slow",
    "internal": "The transaction broke off by a fault of its own and put everything back: report it with program.log",
    "interrupted": "A run was killed half way: the next tune.yml, or rollback.yml, ends it",
    "launcher_mismatch": "What launches the server would not honour the delivery, or would not start it again",
    "lease_held": "Another run is at work on this host: wait for its end",
    "linked_allocator": "The daemon is linked with an allocator: set allocator_name to linked to accept it",
    "no_answer": "The server does not answer queries before its restart: find out why first",
    "no_mysqld": "No server runs on this host and no unit would start one: take it out of the group",
    "not_bound": "The library is mapped, and malloc or free resolve elsewhere: it is no allocator, or exports neither",
    "not_built": "The allocator could not be built from its source: the message has the words of the tool that failed",
    "not_elf": "The file is no shared library: name one",
    "not_found": "The library is not there: install it, or correct the path",
    "not_loadable": "ld.so cannot load the library: its words are in the message",
    "not_mapped": "The kernel refused to map the library: look at noexec mounts and limits of address space",
    "not_restarted": "The launcher ended and the old process still runs: look at the launcher's words",
    "not_testable": "The daemon cannot be tried on this host: the message says why",
    "overridden": "A file of somebody else's sets LD_PRELOAD after ours: take it out there",
    "page_size": "The library is built for smaller pages than this kernel has: install a build for them",
    "primary": "Others replicate from this server: it is not restarted without tuning_include_primaries",
    "restore_failed": "Something could not be put back: look at the host now, the message says what",
    "second_allocator": "Another allocator is preloaded or bound as well: remove one of the two",
    "secure_exec": "ld.so drops the preloads of a program with a file capability or a set-user-ID bit: see getcap, setcap -r",
    "selinux": "SELinux confines the daemon and denies the library: correct the file's label or the policy",
    "stale_process": "The process was started before the files were changed: tune.yml restarts it once",
    "stopped": "The server does not run, and stays stopped",
    "topology_unknown": "Whether others depend on the server could not be asked by SQL: give it an account",
    "unreadable": "The server's user cannot read the library: see the modes on its path, and the unit's sandbox",
    "unsafe_path": "Others than root could replace the library: correct mode or owner of the part that is named",
    "whitelist": "mysqld_safe does not take this library as malloc-lib: use allocator_delivery mysqld_safe, or another file",
}


def advice(code: str) -> str:
    """Return what a code means and what to do, as a sentence; empty for a word that is not in the table."""
    return f"{REASONS[code]}." if code in REASONS else ""
