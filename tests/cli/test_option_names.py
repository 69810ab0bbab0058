"""One idea has one name, and one name takes the same kind of value, over all commands."""

from __future__ import annotations

from collections import defaultdict

import pytest
import rich_click as click
from every_command import command_at, leaves

from privagg.cli.main import COMMANDS

COMMANDS_BY_NAME = {" ".join(path): command_at(path)[0] for path in leaves()}

NAMES = {
    "--clients": {"--cohort", "--parties", "--num-clients", "--n-clients"},
    "--nodes": {"--sensors"},
    "--users": {"--respondents", "--num-users"},
    "--dim": {"--dimension", "--size", "--vector-length"},
    "--dropout": {"--drop-rate", "--dropout-rate"},
    "--epsilon": {"--eps", "--privacy-budget"},
    "--rounds": {"--num-rounds"},
    "--repeats": {"--repeat", "--repetitions", "--reps"},
    "--runs": {"--seeds", "--times", "--simulations"},
    "--trials": {"--samples-per-side"},
    "--seconds": {"--budget", "--timeout", "--time-limit"},
    "--unknown": {"--missing", "--missing-values", "--on-missing"},
    "--seed": {"--random-seed", "--random-state"},
    "--workers": {"--jobs", "--processes", "--threads"},
    "--out": {"--output", "--outfile", "-o"},
    "--report": {"--html"},
    "--plot": {"--figure", "--picture"},
    "--input": {"--infile", "--file"},
    "--confidence": {"--level", "--alpha"},
    "--post": {"--postprocess", "--post-processing"},
    "--prg": {"--cipher", "--suite"},
    "--part": {"--only", "--parts"},
}
"""The name of an idea, and names that it might be given by mistake."""

HOMONYMS = {
    "--clip": "a bound of numbers, a range of a target, a bound of gradients",
    "--columns": "columns of a table to take; bench field: of the matrices",
    "--corrupt": "a fraction of clients; of a sensor cluster a number of members",
    "--data": "a bundled table; audit gradient: the clients' examples",
    "--dropped": "bench flower: a number of nodes",
    "--interval": "half an interval of an estimate; rounds of --counts",
    "--loss": "frames lost; a loss function by name; one of one's own",
    "--model": "of two classes, by name; a function that makes one",
    "--noise": "the noise's name; its size",
    "--prior": "what fakes are drawn from; the probability of a label",
    "--input": "a file; a file or a bundled table",
    "--mechanism": "any name; one of those that bench locational times",
}
"""Names that do mean several things, each in commands of its own field."""


def options():
    for name, command in COMMANDS_BY_NAME.items():
        for param in command.params:
            if isinstance(param, click.Option):
                yield name, max(param.opts, key=len), param


def kind(param):
    name = type(param.type).__name__.replace("Range", "").replace("ParamType", "")
    words = "" if name in ("Choice", "Path") else param.metavar
    return name, words, param.nargs


def test_no_option_has_the_name_that_another_idea_has():
    flags = {flag for _, _, param in options() for flag in param.opts}
    for name, others in NAMES.items():
        assert name in flags
        assert flags & others == set(), name


def test_an_option_takes_the_same_kind_of_value_everywhere():
    kinds = defaultdict(lambda: defaultdict(list))
    for name, flag, param in options():
        if flag not in HOMONYMS:
            kinds[flag][kind(param)].append(name)
    assert {flag: dict(found) for flag, found in kinds.items() if len(found) > 1} == {}


def test_homonyms_are_still_options():
    assert set(HOMONYMS) <= {flag for _, flag, _ in options()}


def test_no_two_options_are_explained_in_the_same_words():
    said = defaultdict(set)
    for _, flag, param in options():
        words = (param.help or "").partition("  [")[0]
        if len(words.split()) > 3:
            said[words].add(flag)
    alike = {frozenset(flags) for flags in said.values() if len(flags) > 1}
    assert alike == {
        frozenset(pair) for pair in [("--latitude", "--longitude"), ("--threshold", "--neighbours")]
    }


@pytest.mark.parametrize("name", COMMANDS_BY_NAME)
def test_help_is_in_one_style(name):
    for param in COMMANDS_BY_NAME[name].params:
        if not isinstance(param, click.Option):
            continue
        assert param.help, param.opts
        assert param.help.rstrip().endswith((".", "]")), param.opts
        assert "repeat it" not in param.help, param.opts
        if param.multiple:
            assert "may be repeated" in param.help, param.opts
        shown = param.make_metavar(click.Context(COMMANDS_BY_NAME[name]))
        assert param.is_flag or not {"TEXT", "INTEGER", "RANGE"} & set(shown.split()), param.opts


@pytest.mark.parametrize("name", COMMANDS_BY_NAME)
def test_examples_come_first_and_parse(name):
    """Parse what stands before the first blank line of the help: no option is made up."""
    command = COMMANDS_BY_NAME[name]
    lines = command.help.partition("\b\n")[2].partition("\n\n")[0].splitlines()
    assert lines
    text = " ".join(lines).replace("eval", " ").replace('"$(', "").replace(')"', "")
    examples = [f"privagg {words}" for words in text.split("privagg ")[1:]]
    assert examples
    for example in examples:
        words = example.partition(" > ")[0].partition(" | ")[0].split()[1:]
        found, rest = command_at(words)
        assert found is command
        flags = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
        assert {word for word in rest if word.startswith("--")} <= flags


def test_groups_have_one_line_for_each_command():
    for entry in COMMANDS.values():
        for leaf in getattr(entry, "children", {}).values():
            assert leaf.summary.endswith(".")
            assert len(leaf.summary) < 100


@pytest.mark.parametrize("name", COMMANDS_BY_NAME)
def test_former_names_lead_to_names_of_today(name):
    command = COMMANDS_BY_NAME[name]
    flags = {flag for param in command.params for flag in param.opts}
    for former, today in getattr(command, "former_names", {}).items():
        assert former not in flags
        assert today in flags


def test_a_former_name_is_taken_in_a_line_and_in_a_file(run, capsys, tmp_path):
    line = ["bench", "secagg", "--clients", "4", "--dim", "2", "--repeats", "1"]
    assert run(*line, "--dropped", "2") == 2
    assert "--dropout" in capsys.readouterr().err
    assert run(*line, "--dropped=2") == 2
    assert "--dropout" in capsys.readouterr().err
    config = tmp_path / "x.toml"
    config.write_text("dropped = 2\n")
    assert run(*line, "--config", config) == 2
    assert "--dropout" in capsys.readouterr().err
    config.write_text("dropped = 0.1\ndropout = 0.1\n")
    assert run(*line, "--config", config) == 2
    assert "given twice" in capsys.readouterr().err
    assert run("bench", "secagg", "--help") == 0
    assert "--dropped" not in capsys.readouterr().out


def test_a_variable_is_named_after_its_option(run, capsys, monkeypatch):
    monkeypatch.setenv("PRIVAGG_DATA_SHOW_COLUMN", "no_such_column")
    assert run("data", "show", "adult") == 2
    assert "no_such_column" in capsys.readouterr().err
    monkeypatch.delenv("PRIVAGG_DATA_SHOW_COLUMN")
    monkeypatch.setenv("PRIVAGG_SIMULATE_MULTIDIM_INPUT", "no_such_table")
    assert run("simulate", "multidim") == 2
    assert "no_such_table" in capsys.readouterr().err
