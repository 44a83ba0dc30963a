# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report of a run on the controller and show its table at the end of the play."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import jinja2
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.fleet.mysqltune.plugins.module_utils import report_table, report_view

PAGE = "report.html.j2"
TEMPLATES = Path(__file__).resolve().parents[2] / "roles" / "report" / "templates"
ARGUMENTS = {
    "run_id": {"type": "str", "required": True},
    "report_dir": {"type": "path", "default": "reports"},
    "hosts": {"type": "list", "elements": "dict", "required": True},
    "template": {"type": "str", "default": PAGE},
    "show": {"type": "bool", "default": True},
    "write": {"type": "bool", "default": True},
}


class ActionModule(ActionBase):
    """Return the paths of ``summary.json`` and ``report.html``; in check mode only the table is shown."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Gather the records, write both files, show the table."""
        super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        directory = Path(arguments["report_dir"]).absolute() / arguments["run_id"]
        shown = view(arguments["run_id"], arguments["hosts"])
        changed = arguments["write"] and not self._task.check_mode
        if changed:
            write_report(directory, shown, self._template_file(arguments["template"]))
        table = report_table.lines(shown)
        if changed:
            table.append(f"report: {directory / 'report.html'}")
        if arguments["show"]:
            for line in ["", *table]:
                Display().display(line)
        return {"changed": changed, "headline": shown["headline"], "table": table, **paths(directory)}

    def _template_file(self, name: str) -> Path:
        own = TEMPLATES / name
        return own if own.exists() else Path(self._find_needle("templates", name))


def view(run_id: str, hosts: Any) -> dict[str, Any]:
    """Return what the report of these hosts shows, as of now."""
    return report_view.view(run_id, plain(hosts), time.strftime("%Y-%m-%d %H:%M:%S %Z"))


def write_report(directory: Path, shown: dict[str, Any], template: Path = TEMPLATES / PAGE) -> None:
    """Write both files of a report."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        summary = json.dumps(report_view.summary(shown), indent=2, sort_keys=True)
        write(directory / "summary.json", summary + "\n")
        write(directory / "report.html", render(template, shown))
    except OSError as error:
        raise AnsibleActionFail(f"the report cannot be written to {directory}: {error.strerror}") from error


def paths(directory: Path) -> dict[str, str]:
    """Return where the two files of a report are."""
    return {"summary": str(directory / "summary.json"), "report": str(directory / "report.html")}


def plain(records: Any) -> list[dict[str, Any]]:
    """Return ordinary dicts and lists, whatever lazy containers the playbook handed over."""
    return list(json.loads(json.dumps([dict(record) for record in records], default=_plain_value)))


def _plain_value(value: Any) -> Any:
    return dict(value) if hasattr(value, "keys") else str(value)


def write(path: Path, text: str) -> None:
    """Write ``path`` in one step, so that a reader never sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def render(template: Path, shown: dict[str, Any]) -> str:
    """Render the page; every value is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(template.parent)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(number=number, seconds=seconds, percent=percent, share=share, curve=curve)
    return environment.get_template(template.name).render(
        shown, levels=report_view.LEVELS, blank=dict.fromkeys(report_view.FIGURES)
    )


def number(value: float | None, digits: int = 0) -> str:
    """Format a figure with thin spaces between thousands, a dash for none."""
    return "–" if value is None else f"{value:,.{digits}f}".replace(",", "\u202f")


def seconds(value: float | None) -> str:
    """Format a length of time."""
    return "–" if value is None else f"{value:.1f} s"


def percent(value: float | None) -> str:
    """Format a relative change with its sign."""
    return "–" if value is None else f"{value * 100:+.1f} %".replace("-", "−")


def share(value: float | None, top: float) -> str:
    """Return ``value`` as a CSS percentage of ``top``."""
    return f"{max(0.0, min(1.0, (value or 0) / top)) * 100:.2f}%" if top else "0%"


def curve(points: list[list[float]], top: float, width: int = 600, height: int = 60) -> str:
    """Return the points of an SVG polyline for (second, transactions/s) pairs."""
    if len(points) < 2 or not top:
        return ""
    first, last = points[0][0], points[-1][0]
    span = (last - first) or 1.0
    spots = [((x - first) / span * width, height - min(1.0, y / top) * (height - 2) - 1) for x, y in points]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
