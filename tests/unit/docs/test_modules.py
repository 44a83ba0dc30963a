"""Every module's DOCUMENTATION says exactly what its argument spec takes."""

import importlib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
COLLECTION = "ansible_collections.fleet.mysqltune.plugins"
MODULES = sorted(path.stem for path in (ROOT / "library").glob("*.py"))


class Captured(Exception):
    pass


def _argument_spec(name, monkeypatch):
    module = importlib.import_module(f"{COLLECTION}.modules.{name}")
    if not hasattr(module, "AnsibleModule"):
        return importlib.import_module(f"{COLLECTION}.action.{name}").ARGUMENTS

    def capture(*args, **kwargs):
        raise Captured(kwargs.get("argument_spec", args[0] if args else None))

    monkeypatch.setattr(module, "AnsibleModule", capture)
    with pytest.raises(Captured) as captured:
        module.main()
    return captured.value.args[0]


def _comparable(options):
    """Reduce options to what both sides must agree on; Ansible's own defaults are filled in."""
    return {
        name: {
            "type": option.get("type", "str"),
            "elements": option.get("elements"),
            "required": option.get("required", False),
            "default": option.get("default"),
            "choices": list(option["choices"]) if option.get("choices") else None,
            "suboptions": _comparable(option.get("options", option.get("suboptions")) or {}),
        }
        for name, option in options.items()
    }


@pytest.mark.parametrize("name", MODULES)
def test_documentation_equals_the_argument_spec(name, monkeypatch):
    module = importlib.import_module(f"{COLLECTION}.modules.{name}")
    documented = yaml.safe_load(module.DOCUMENTATION)
    assert documented["module"] == name
    assert _comparable(documented["options"]) == _comparable(_argument_spec(name, monkeypatch))


@pytest.mark.parametrize("name", MODULES)
def test_every_module_has_examples_by_full_name_and_documented_results(name):
    module = importlib.import_module(f"{COLLECTION}.modules.{name}")
    tasks = yaml.safe_load(module.EXAMPLES)
    assert any(f"fleet.mysqltune.{name}" in task for task in tasks)
    for key, value in yaml.safe_load(module.RETURN).items():
        assert value["description"], key
