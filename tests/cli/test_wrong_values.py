"""Wrong values of every option: exit code 2, and words that help; never a traceback."""

from __future__ import annotations

import pytest
import rich_click as click
from every_command import RUNS, command_at, words_of

from privagg.cli.common import Command

HUGE = str(10**23)


def wrong_values(param):
    """Return values that `param` refuses before any work starts."""
    if isinstance(param.type, click.Choice):
        return ["no-such-name"]
    name = type(param.type).__name__
    if "Int" in name:
        return ["x", "1.5", HUGE]
    if "Float" in name:
        return ["x", "nan"]
    if isinstance(param.type, click.Path) and param.type.exists:
        return ["/no/such/file"]
    if isinstance(param.type, click.Path) and not param.type.dir_okay:
        return ["/no/such/folder/file.json"]
    return []


CASES = [
    (command, max(param.opts, key=len), value, param.nargs)
    for command in RUNS
    for param in command_at(command.split())[0].params
    if isinstance(param, click.Option) and not param.is_flag
    for value in wrong_values(param)
]


def test_there_are_many():
    assert len(CASES) > 400
    assert {command for command, *_ in CASES} == set(RUNS)


@pytest.mark.parametrize("command", RUNS)
def test_a_wrong_value_is_named_with_its_option_and_the_next_step(run, capsys, command, tmp_path):
    assert isinstance(command_at(command.split())[0], Command)
    for where, flag, value, count in CASES:
        if where != command:
            continue
        words = [*words_of(command, tmp_path), flag, *[value] * count]
        if command.startswith("ldp init") or "{d}" in RUNS[command][0]:
            words = [*command.split(), flag, *[value] * count]
            if value in ("nan", HUGE):
                continue  # without its files the command says first that they are missing
        assert run(*words) == 2, words
        streams = capsys.readouterr()
        assert streams.out == ""
        assert "Traceback" not in streams.err
        assert flag in streams.err, words
        assert value in streams.err.replace("1e+23", HUGE), words
        assert f"Help: privagg {command} --help" in streams.err


@pytest.mark.parametrize("command", RUNS)
def test_an_option_that_does_not_exist_is_answered(run, capsys, command):
    assert run(*command.split(), "--no-such-option") == 2
    err = capsys.readouterr().err
    assert "--no-such-option" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("simulate sensor --protocol cpda-feld", "'cpda-field'"),
        ("simulate secagg --clients 8 --dim 2 --prg chacha2", "'chacha20'"),
        ("audit ldp --values 3 --oracles olhh", "olh"),
        ("data show adul", "adult"),
        ("simulate secagg --clients 8 --dim 2 --dropuot 0", "--dropout"),
        ("schema simulate secag", "'simulate secagg'"),
    ],
)
def test_the_name_that_was_meant_is_suggested(run, capsys, line, meant):
    assert run(*line.split()) == 2
    err = capsys.readouterr().err
    assert "Did you mean" in err
    assert meant in err


@pytest.mark.parametrize(
    ("line", "flag"),
    [
        ("audit ldp --values 3 --columns a", "--columns"),
        ("audit ldp --values 3 --protocol smp", "--protocol"),
        ("audit ldp --values 3 --surveys 2", "--surveys"),
        ("audit ldp --input nursery --oracles grr", "--oracles"),
        ("audit ldp --values 3 --input nursery", "--values"),
        ("simulate sensor --protocol tag --slices 3", "--slices"),
        ("simulate secagg --clients 8 --dim 2 --delta 1e-6", "--delta"),
        ("simulate multidim --input adult --protocol smp --epsilon -1", "--epsilon"),
    ],
)
def test_what_has_no_effect_or_conflicts_is_refused(run, capsys, line, flag):
    assert run(*line.split()) == 2
    err = capsys.readouterr().err
    assert flag in err
    assert "Traceback" not in err
