"""The tables in the roles' READMEs, the argument specs and the defaults agree."""

import importlib.util
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
SPECS = sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))


def _generate():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_readme_tables_are_fresh():
    assert _generate().stale() == []


def test_every_role_has_an_argument_spec():
    assert [p.parent.parent for p in SPECS] == sorted(p for p in (ROOT / "roles").iterdir() if p.is_dir())


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.parent.parent.name)
def test_argument_spec_equals_the_defaults(path):
    options = yaml.safe_load(path.read_text())["argument_specs"]["main"].get("options", {})
    defaults = yaml.safe_load((path.parent.parent / "defaults" / "main.yml").read_text()) or {}
    optional = {name: option.get("default") for name, option in options.items() if not option.get("required")}
    assert optional == defaults
