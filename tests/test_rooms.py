"""Every package of protocols has the same rooms, or says where it has what would be in them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from privagg import protocols

FOLDER = Path(protocols.__file__).parent
PACKAGES = sorted(path.parent.name for path in FOLDER.glob("[a-z]*/__init__.py"))
ROOMS = ("params", "messages", "rounds", "result", "planner")
"""Modules that are sought under these names in every package."""

NAMES = {"params": "Params", "rounds": "run", "result": "Result", "planner": "plan"}
"""What a package offers of each room that it has."""


def package(name):
    return importlib.import_module(f"privagg.protocols.{name}")


def rooms(name):
    return [room for room in ROOMS if (FOLDER / name / f"{room}.py").is_file()]


def test_there_are_packages():
    assert {"secagg", "sensor", "responses", "collection"} <= set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_room_is_there_or_the_package_says_where(name):
    there = rooms(name)
    told = package(name).__doc__
    assert [room for room in ROOMS if room not in there and f"``{room}``" not in told] == []


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_offers_the_common_names_of_its_rooms(name):
    module = package(name)
    for room in rooms(name):
        if room in NAMES:
            thing = getattr(module, NAMES[room])
            home = importlib.import_module(f"{module.__name__}.{room}")
            assert NAMES[room] in module.__all__
            assert NAMES[room] in home.__all__
            assert thing is getattr(home, NAMES[room])
            assert callable(thing)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_plan_is_what_plan_returns(name):
    if "planner" in rooms(name):
        planner = importlib.import_module(f"privagg.protocols.{name}.planner")
        returned = inspect.signature(planner.plan, eval_str=True).return_annotation
        assert returned is planner.Plan


@pytest.mark.parametrize("name", PACKAGES)
def test_what_a_package_refers_to_is_there(name):
    module = package(name)
    for reference in re.findall(r":(?:class|func|mod|meth|data|attr):`~?([\w.]+)`", module.__doc__):
        whole = reference if reference.startswith("privagg.") else f"{module.__name__}.{reference}"
        assert pkgutil.resolve_name(whole) is not None


def test_what_learns_from_responses_needs_scikit_learn_only_when_it_is_asked_for():
    code = """
import sys
from privagg.protocols import responses
print([name for name in ("sklearn", "torch") if name in sys.modules])
print(all(hasattr(responses, name) for name in responses.__all__), "sklearn" in sys.modules)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["[]", "True True"]
