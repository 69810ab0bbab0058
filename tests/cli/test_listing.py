"""``privagg list`` against the code: nothing is missing, nothing is made up."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
import rich_click as click

import privagg
from privagg import attacks, protocols
from privagg.attacks.gradient.audit import ATTACKS as GRADIENT_ATTACKS
from privagg.attacks.sensor import ATTACKS as SENSOR_ATTACKS
from privagg.cli import main
from privagg.cli._catalogue_attacks import attacks as attack_rows
from privagg.cli._catalogue_facts import facts
from privagg.cli._catalogue_mechanisms import mechanisms as mechanism_rows
from privagg.cli._catalogue_protocols import protocols as protocol_rows
from privagg.mechanisms import MECHANISMS, Mechanism
from privagg.mechanisms.collector import Collector
from privagg.mechanisms.distributed import KINDS
from privagg.protocols import lightsecagg, multidim, secagg, sensor
from privagg.protocols.lightsecagg.states import SEQUENCES
from privagg.protocols.locational import MECHANISMS as LOCATIONAL
from privagg.protocols.sensor.formation import STEPS

ROOT = Path(privagg.__file__).parent
PROTOCOLS = {row.name: row for row in protocol_rows()}
MECHANISM_ROWS = {row.name: row for row in mechanism_rows()}
ATTACKS = {row.name: row for row in attack_rows()}
ROWS = [*protocol_rows(), *mechanism_rows(), *attack_rows()]

# Modules of privagg.attacks that hold parts of attacks, and none of their own.
PARTS = {
    *("ldp", "ldp_arguments", "ldp_binomial", "ldp_classifiers"),
    *("linear_advice", "linear_exact", "linear_gain", "linear_log", "linear_sensor_cluster"),
    *("linear_solver", "linear_views"),
    *("secagg_coalitions", "secagg_compare", "secagg_exposure", "secagg_findings"),
    *("secagg_shadow", "secagg_shares"),
    *("sensor", "sensor_guessing", "sensor_views"),
    *("gradient.advice", "gradient.audit", "gradient.audit_result", "gradient.audit_run"),
    *("gradient.bounds", "gradient.certificate", "gradient.signs"),
    *("gradient.chance", "gradient.columns", "gradient.contrast", "gradient.factors"),
    *("gradient.filters", "gradient.matching", "gradient.metrics", "gradient.observation"),
    *("gradient.recovery", "gradient.torch_models", "gradient.truth", "gradient.unmixing"),
    *("gradient.verdicts", "gradient.views"),
}


def target(path):
    module, _, name = path.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_of_something_that_is_there(row):
    found = target(row.path)
    assert callable(found) or inspect.ismodule(found)
    assert row.summary
    if ":" in row.path:
        summary = facts(row.path).summary
        text = " ".join(inspect.getdoc(found).split()).replace("`", "")
        assert text.startswith(summary)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_command_of_a_row_is_one(row):
    if not row.command:
        return
    words = row.command.split()
    assert words.pop(0) == "privagg"
    context, group = click.Context(main.root), main.root
    while isinstance(group, click.Group) and words:
        _, group, words = group.resolve_command(context, words)
    if isinstance(group, click.Group):
        return
    flags = {flag for param in group.params for flag in (*param.opts, *param.secondary_opts)}
    options = {param.opts[0]: param for param in group.params}
    for word, value in zip(words, [*words, ""][1:], strict=True):
        if word.startswith("--"):
            assert word in flags
            if isinstance(options[word].type, click.Choice):
                assert value in options[word].type.choices


def test_names_are_told_apart():
    for rows in (protocol_rows(), mechanism_rows(), attack_rows()):
        assert len({row.name for row in rows}) == len(rows)


def test_every_package_of_protocols_is_listed():
    packages = {name for _, name, is_package in pkgutil.iter_modules(protocols.__path__)}
    listed = {row.path.partition(":")[0].split(".")[2] for row in protocol_rows()}
    assert listed == {name for name in packages if not name.startswith("_")}
    assert all(is_package for *_, is_package in pkgutil.iter_modules(protocols.__path__))


def test_protocols_are_those_of_the_enums():
    names = {*sensor.Protocol, *multidim.Protocol}
    assert {str(name) for name in names} <= set(PROTOCOLS)
    for name in sensor.Protocol:
        row = PROTOCOLS[name]
        params = sensor.Params(protocol=name, nodes=9, bound=9)
        assert row.secure == params.secure
        assert ("--allow-insecure" in row.command) == name.broken
        assert row.rounds == (STEPS if name.clustered else STEPS[-1:])


def test_threats_and_rounds_are_those_of_the_code():
    row = PROTOCOLS["bonawitz"]
    assert row.rounds == secagg.ROUNDS
    assert set(row.threats) == set(secagg.Threat)
    row = PROTOCOLS["lightsecagg"]
    assert row.rounds == lightsecagg.ROUNDS
    assert set(row.threats) == set(SEQUENCES)
    asynchronous = PROTOCOLS["lightsecagg-async"].rounds
    methods = {name.replace("_", "-") for name in dir(lightsecagg.AsyncClient)}
    assert set(asynchronous) <= methods


def test_pages_exist():
    docs = Path(__file__).resolve().parents[2]
    assert all((docs / row.page).is_file() for row in protocol_rows())


def concrete(kind):
    for one in kind.__subclasses__():
        yield from concrete(one)
        if one.__module__.startswith("privagg.") and isinstance(getattr(one, "name", None), str):
            yield one


def test_every_mechanism_is_listed_by_its_own_name():
    for name in ("privagg.mechanisms", "privagg.protocols.locational"):
        package = importlib.import_module(name)
        for _, module, _ in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{name}.{module}")
    kinds = {kind.name: kind for kind in concrete(Collector) if not inspect.isabstract(kind)}
    assert set(MECHANISMS) <= set(kinds) <= set(MECHANISM_ROWS)
    for name, kind in kinds.items():
        assert target(MECHANISM_ROWS[name].path) is kind
    others = {"exponential", *KINDS, "poisson-binomial"}
    assert set(MECHANISM_ROWS) - set(kinds) == others
    geo = {name for name in LOCATIONAL if name in MECHANISM_ROWS}
    assert {"planar-laplace", "region-exponential", "privset"} <= geo


def test_what_mechanisms_promise_is_what_their_classes_say():
    from privagg.domain import Categorical, Integers
    from privagg.mechanisms import make

    for name in MECHANISMS:
        row = MECHANISM_ROWS[name]
        domain = Categorical(["a", "b"]) if row.domain == "categories" else Integers(0, 4)
        if name == "rr":
            continue
        options = {"p": 0.6} if name == "ue" else {"g": 2} if name == "lh" else {}
        if name in ("l-grr", "l-osue", "l-sue", "loloha"):
            options = {"permanent": 2.0}
        if name == "gaussian":
            options = {"delta": 1e-3}
        mechanism = make(name, domain, 1.0, **options)
        assert isinstance(mechanism, Mechanism)
        assert (mechanism.delta > 0) == row.guarantee.startswith("(epsilon, delta)")
        assert "replaced by any other" in mechanism.guarantee


def test_every_attack_of_the_registries_is_listed():
    for name, attack in SENSOR_ATTACKS.items():
        assert ATTACKS[name].needs == attack.adversary
        if attack.run.__module__ != "privagg.attacks.sensor":
            assert target(ATTACKS[name].path) is attack.run
    assert set(GRADIENT_ATTACKS) <= set(ATTACKS)


def test_every_module_of_attacks_is_listed_or_a_part():
    base = Path(attacks.__path__[0])
    names = {
        ".".join(path.relative_to(base).with_suffix("").parts)
        for path in base.rglob("*.py")
        if path.stem != "__init__"
    }
    listed = {row.path.partition(":")[0].removeprefix("privagg.attacks.") for row in attack_rows()}
    assert listed | PARTS == names
    assert listed & PARTS == set()


def test_what_is_listed_is_a_public_name():
    for row in ROWS:
        module, _, name = row.path.partition(":")
        if name:
            assert name in importlib.import_module(module).__all__


@pytest.mark.parametrize("kind", ["protocols", "mechanisms", "attacks"])
def test_the_command_prints_the_rows(run, capsys, kind):
    assert run("list", kind, "--json") == 0
    found = json.loads(capsys.readouterr().out)[kind]
    rows = {"protocols": PROTOCOLS, "mechanisms": MECHANISM_ROWS, "attacks": ATTACKS}[kind]
    assert [one["name"] for one in found] == list(rows)
    assert run("list", kind) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in rows)


def test_listing_compiles_nothing_and_imports_no_protocol():
    code = """
import sys
from privagg.cli.main import run
assert run(["list", "attacks", "--quiet"]) == 0
heavy = {"numba", "torch", "pyarrow", "cryptography", "privagg.protocols", "privagg.attacks"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_facts_of_a_name_that_is_not_there():
    with pytest.raises(KeyError):
        facts("privagg.mechanisms.grr:NoSuchClass")
