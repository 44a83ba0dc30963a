# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server is to others: standalone, replica, primary, or a member of a cluster. Asked, never declared.

``STATEMENTS`` go to the server in one connection; those of another flavour or version fail there, which is no
error. ``understand`` is pure.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Union

from .sql import Row, SqlError

Answer = Union[List[Row], SqlError]

STATEMENTS = {
    "variables": "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_provider')",
    "status": "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_incoming_addresses')",
    "all_sources": "SHOW ALL SLAVES STATUS",
    "source": "SHOW REPLICA STATUS",
    "old_source": "SHOW SLAVE STATUS",
    "dumps": "SELECT HOST AS host FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'",
    "process": "SELECT COUNT(*) AS seen FROM information_schema.INNODB_CMP",
    "replicas": "SHOW REPLICA HOSTS",
    "old_replicas": "SHOW SLAVE HOSTS",
    "group": "SELECT MEMBER_HOST AS host, MEMBER_PORT AS port, MEMBER_STATE AS state "
    "FROM performance_schema.replication_group_members",
}
"""``process`` is only there to see whether the account has PROCESS: without it, dump threads stay unseen."""


def unknown(error: str) -> Dict[str, Any]:
    """Return the topology of a server that could not be asked."""
    return {"role": "unknown", "replica": False, "peers": [], "error": error}


def understand(answers: Dict[str, Answer]) -> Dict[str, Any]:
    """Return ``{role, replica, peers, error}`` from the answers to ``STATEMENTS``."""
    sources = _first(answers, "all_sources", "source", "old_source")
    if isinstance(sources, SqlError):
        return unknown(f"the replication status was refused: {sources.message}")
    dumps = answers["dumps"]
    if isinstance(dumps, SqlError) or not _sees_processes(answers["process"]):
        return unknown("the account lacks the PROCESS privilege, so connected replicas stay unseen")
    replicas = _replicas(answers, dumps)
    peers = [*map(_source, sources), *replicas]
    galera, group = _galera(answers), answers["group"]
    if galera is None and _is_hidden(group, answers):
        return unknown(
            "the account lacks the SELECT privilege on performance_schema.replication_group_members, "
            "so a group stays unseen"
        )
    for role, members in (("galera", galera), ("group_replication", _group(group))):
        if members is not None:
            return _topology(role, bool(sources), [*members, *peers])
    role = "primary" if replicas else "replica" if sources else "standalone"
    return _topology(role, bool(sources), peers)


def _topology(role: str, replica: bool, peers: Sequence[str]) -> Dict[str, Any]:
    return {"role": role, "replica": replica, "peers": list(dict.fromkeys(peers)), "error": None}


def _first(answers: Dict[str, Answer], *names: str) -> Answer:
    """Return the first answer that is not an error; of errors, one that is not about the wording."""
    for name in names:
        if not isinstance(answers[name], SqlError):
            return answers[name]
    errors = [answer for answer in (answers[name] for name in names) if isinstance(answer, SqlError)]
    return next((error for error in errors if error.kind == "access_denied"), errors[-1])


def _sees_processes(answer: Answer) -> bool:
    return not isinstance(answer, SqlError) and bool(answer) and answer[0]["seen"] != "0"


def _source(row: Row) -> str:
    host = row.get("Source_Host") or row.get("Master_Host") or "?"
    port = row.get("Source_Port") or row.get("Master_Port") or "?"
    return f"{host}:{port}"


def _replicas(answers: Dict[str, Answer], dumps: List[Row]) -> List[str]:
    """Return the connected replicas, by the name that they registered with, or by their address."""
    registered = _first(answers, "replicas", "old_replicas")
    rows = [] if isinstance(registered, SqlError) else registered
    named = [f"{row['Host']}:{row.get('Port', '?')}" for row in rows if row.get("Host")]
    addresses = [row["host"].rsplit(":", 1)[0] or "localhost" for row in dumps]
    if len(named) >= max(len(addresses), len(rows)):
        return named
    return addresses or [f"server id {row.get('Server_id') or row.get('Server_Id')}" for row in rows]


def _named(answer: Answer) -> Dict[str, str]:
    rows = [] if isinstance(answer, SqlError) else answer
    return {row["Variable_name"].lower(): row["Value"] for row in rows}


def _galera(answers: Dict[str, Answer]) -> Optional[List[str]]:
    variables = _named(answers["variables"])
    if variables.get("wsrep_on", "OFF").upper() not in ("ON", "1"):
        return None
    if variables.get("wsrep_provider", "none").lower() in ("none", ""):
        return None
    addresses = _named(answers["status"]).get("wsrep_incoming_addresses", "")
    return [address for address in addresses.split(",") if address not in ("", "AUTO")]


def _is_hidden(group: Answer, answers: Dict[str, Answer]) -> bool:
    """Whether there may be a group that the account must not see.

    MariaDB, which alone knows ``SHOW ALL SLAVES STATUS``, has no groups but denies access to any table.
    """
    mariadb = not isinstance(answers["all_sources"], SqlError)
    return isinstance(group, SqlError) and group.kind == "access_denied" and not mariadb


def _group(answer: Answer) -> Optional[List[str]]:
    rows = [] if isinstance(answer, SqlError) else answer
    members = [row for row in rows if row["host"] and row["state"] != "OFFLINE"]
    return [f"{row['host']}:{row['port']}" for row in members] or None
