"""Every command, run once: its JSON against the published schema, and what goes where."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os

import jsonschema
import pytest
from every_command import (
    ALONE,
    NOT_QUIET,
    RUNS,
    command_at,
    leaves,
    one_object,
    prepare,
    words_of,
)
from strict_schemas import check, closed

from privagg import __version__
from privagg.cli import main
from privagg.cli.schema import DIALECT, commands, schema_of
from privagg.errors import Abort, PeerError, UsageError

QUICK = [
    *("simulate secagg", "plan secagg", "plan ldp", "ldp init", "keys show", "audit linear"),
    *("list protocols", "data list", "data show", "doctor", "schema"),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return, by command, the folder's run of it: exit code, stdout, stderr."""
    folder = tmp_path_factory.mktemp("every")
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name[:8] == "PRIVAGG_"}
    found = {}

    def run(words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main.run(words)
        return code, out.getvalue(), err.getvalue()

    assert prepare(folder, lambda words: run(words)[0]) is None
    for command in RUNS:
        found[command] = run([*words_of(command, folder), "--json", "--quiet"])
    os.environ.update(kept)
    return folder, found


def test_every_command_is_run_here():
    """A new command needs a line in every_command.py, and a schema."""
    names = {" ".join(path) for path in leaves() if path not in ALONE}
    assert set(RUNS) == names
    assert set(commands()) == names


@pytest.mark.parametrize("command", RUNS)
def test_the_result_is_what_the_schema_says(results, command):
    code, out, err = results[1][command]
    assert code == RUNS[command][1], err
    data = one_object(out)
    check(command, data)
    assert list(data)[:3] == ["schema_version", "command", "privagg"]
    assert data["privagg"] == __version__
    jsonschema.validate(data, schema_of(command), cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("command", RUNS)
def test_quiet_says_nothing_but_warnings(results, command):
    err = results[1][command][2]
    lines = [line for line in err.splitlines() if not line.startswith("Warning: ")]
    assert lines == []
    assert command in NOT_QUIET or not err


@pytest.mark.parametrize("command", RUNS)
def test_commands_with_a_seed_say_whether_they_were_seeded(results, command):
    words = words_of(command, "")
    found, _ = command_at(words)
    if any("--seed" in param.opts for param in found.params):
        assert one_object(results[1][command][1])["insecure_seed"] is ("--seed" in words)


@pytest.mark.parametrize("command", QUICK)
def test_without_json_stdout_is_the_result_and_notes_are_elsewhere(results, run, capsys, command):
    folder = results[0]
    words = words_of(command, folder)
    assert run(*words) == RUNS[command][1]
    loud = capsys.readouterr()
    assert run(*words, "--quiet") == RUNS[command][1]
    quiet = capsys.readouterr()
    assert loud.out
    for line in loud.err.splitlines():
        assert line not in loud.out
    if command not in ("simulate secagg", "doctor"):  # they have times in them
        assert quiet.out == loud.out


@pytest.mark.parametrize("command", RUNS)
def test_a_mistake_is_an_object_of_the_schema_too(run, capsys, command):
    assert run(*command.split(), "--no-such-option", "--json") == 2
    data = one_object(capsys.readouterr().out)
    check(command, data)
    assert (data["error"]["type"], data["error"]["exit_code"]) == ("UsageError", 2)


@pytest.mark.parametrize(
    ("error", "code", "fields"),
    [
        (UsageError("--x", 1, "2", "Take 2."), 2, {"argument", "found", "allowed", "hint"}),
        (PeerError("server", "unmasking", "lied"), 4, {"peer", "round", "reason"}),
        (PeerError(3, "unmasking", "lied"), 4, {"peer", "round", "reason"}),
        (Abort("too few", 1, 2), 3, {"reason", "alive", "needed"}),
        (KeyboardInterrupt(), 130, set()),
        (OSError(28, "No space left on device", "x"), 1, set()),
        (ZeroDivisionError("division by zero"), 1, set()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_error_is_an_object_of_the_schema(
    run, capsys, monkeypatch, error, code, fields
):
    from privagg import datasets

    def fail():
        raise error

    monkeypatch.setattr(datasets, "names", fail)
    assert run("data", "list", "--json") == code
    data = one_object(capsys.readouterr().out)
    check("data list", data)
    assert set(data["error"]) == {"type", "message", "exit_code"} | fields


def test_a_mistake_before_any_command_names_none(run, capsys):
    assert run("simulat", "--json") == 2
    data = one_object(capsys.readouterr().out)
    assert data["command"] is None
    assert data["error"]["message"].count("Did you mean 'simulate'?") == 1


# The schemas themselves.


@pytest.mark.parametrize("command", RUNS)
def test_a_schema_is_one_and_refuses_what_is_wrong(results, command):
    schema = schema_of(command)
    assert schema["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(schema)
    data = one_object(results[1][command][1])
    for key in data:
        broken = copy.deepcopy(data)
        del broken[key]
        required = {one for kind in closed(schema)["anyOf"][:-1] for one in kind["required"]}
        if key in required and len(schema["anyOf"]) == 2:
            with pytest.raises(AssertionError):
                check(command, broken)
    with pytest.raises(AssertionError):
        check(command, {**data, "undeclared": 1})


def test_schema_prints_what_a_program_can_use(run, capsys, tmp_path):
    assert run("schema", "data", "show") == 0
    assert json.loads(capsys.readouterr().out) == schema_of("data show")
    assert run("schema", "data", "show", "--json") == 0
    assert one_object(capsys.readouterr().out)["schema"] == schema_of("data show")
    assert run("schema", "--json") == 0
    assert one_object(capsys.readouterr().out)["commands"] == list(commands())
    assert run("schema", "data", "shw") == 2
    assert "Did you mean 'data show'?" in capsys.readouterr().err
