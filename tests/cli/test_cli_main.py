from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import rich_click as click

import privagg
from privagg.cli import main
from privagg.cli.lazy import Branch, LazyGroup, Leaf

HERE = Path(__file__).parent


def leaves(table, path=()):
    for name, entry in table.items():
        if isinstance(entry, Branch):
            yield from leaves(entry.children, (*path, name))
        else:
            yield (*path, name), entry


LEAVES = dict(leaves(main.COMMANDS))
BRANCHES = [(name,) for name, entry in main.COMMANDS.items() if isinstance(entry, Branch)]


@pytest.mark.parametrize(
    "args", [["--help"], ["-h"], ["--version"], *([*b, "-h"] for b in BRANCHES)]
)
def test_help_imports_nothing_heavy(args):
    code = f"""
import sys
from privagg.cli.main import run
assert run({args!r}) == 0
heavy = {{"numpy", "numba", "torch", "pyarrow", "matplotlib", "msgspec", "cryptography"}}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert done.stdout


def test_help_lists_the_commands_and_the_exit_codes(run, capsys):
    assert run("--help") == 0
    text = capsys.readouterr().out
    for name in main.COMMANDS:
        assert f" {name} " in text
    for line in ["0    good", "3    aborted", "5    an audit found a leak", "130  interrupted"]:
        assert line in text


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_loads_and_says_what_the_table_says(run, capsys, path):
    entry = LEAVES[path]
    assert run(*path, "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert entry.summary in text
    context = click.Context(main.root)
    group = main.root
    for name in path:
        _, found, _ = group.resolve_command(context, [name])
        group = found
    assert found.name == path[-1]
    assert found.get_short_help_str(limit=200).rstrip(".") == entry.summary.rstrip(".")


@pytest.mark.parametrize("path", [p for p in LEAVES if p != ("completion",)])
def test_every_command_has_the_common_options(run, path):
    context = click.Context(main.root)
    found = main.root
    for name in path:
        _, found, _ = found.resolve_command(context, [name])
    flags = {flag for param in found.params for flag in param.opts}
    assert {"--config", "--json", "--out", "--quiet"} <= flags


def test_version(run, capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"privagg {privagg.__version__}\n"


def test_without_a_command_there_is_help_on_stderr_and_a_usage_error(run, capsys):
    assert run() == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "Commands" in streams.err


@pytest.mark.parametrize(
    ("args", "suggestion"),
    [
        (["docter"], "Did you mean 'doctor'?"),
        (["data", "lst"], "Did you mean 'list'?"),
        (["probe", "--treshold", "3"], "--threshold"),
        (["xyzzy"], "doctor"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest(run, capsys, args, suggestion):
    assert run(*args) == 2
    streams = capsys.readouterr()
    assert suggestion in streams.err
    assert "privagg" in streams.err
    assert streams.out == ""


def test_commands_are_imported_once_and_only_when_they_run():
    table = {
        "a": Leaf("privagg.cli.completion:command", "A."),
        "b": Leaf("no_such_module:command", "B."),
        "c": Leaf("privagg.cli.lazy:Leaf", "C."),
    }
    group = LazyGroup(name="g", table=table)
    context = click.Context(group)
    assert group.list_commands(context) == ["a", "b", "c"]
    assert group.get_command(context, "b").get_short_help_str() == "B."
    first = group.resolve_command(context, ["a"])[1]
    assert group.resolve_command(context, ["a"])[1] is first
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            group.resolve_command(context, ["b"])
    with pytest.raises(TypeError, match="no click command"):
        group.resolve_command(context, ["c"])


@pytest.mark.parametrize(
    ("fail", "code"),
    [
        ("usage", 2),
        ("capacity", 2),
        ("abort", 3),
        ("peer", 4),
        ("leak", 5),
        ("interrupt", 130),
        ("base", 1),
        ("bug", 1),
        ("end", 1),
        ("os", 1),
        ("nan", 2),
    ],
)
def test_exit_codes(run, capsys, fail, code):
    assert run("probe", "--fail", fail) == code
    streams = capsys.readouterr()
    assert ("Traceback" in streams.err) == (fail in ("bug", "end"))
    assert (streams.out == "") == (fail != "leak")


def test_success_is_silent_but_for_the_result(run, capsys):
    assert run("probe", "--quiet") == 0
    streams = capsys.readouterr()
    assert streams.err == ""
    assert streams.out.startswith("A probe\n")
    assert streams.out.endswith("Done.\n")


def test_an_error_names_the_option_the_value_and_the_next_step(run, capsys):
    run("probe", "--fail", "usage")
    text = capsys.readouterr().err
    assert (
        "privagg probe: usage error: --threshold: found 1; allowed: at least 2. Raise it." in text
    )
    assert "Help: privagg probe --help" in text
    run("probe", "--fail", "capacity")
    assert "--value-bits: found 60" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fail", "expected"),
    [
        (
            "usage",
            {
                "type": "UsageError",
                "exit_code": 2,
                "argument": "threshold",
                "found": "1",
                "allowed": "at least 2",
                "hint": "Raise it.",
            },
        ),
        ("capacity", {"type": "CapacityError", "argument": "value_bits"}),
        (
            "peer",
            {
                "type": "PeerError",
                "exit_code": 4,
                "peer": 3,
                "round": "share-keys",
                "reason": "key repeated",
            },
        ),
        (
            "abort",
            {
                "type": "Abort",
                "exit_code": 3,
                "reason": "survivors of masked-input",
                "alive": 4,
                "needed": 7,
            },
        ),
        ("interrupt", {"type": "Interrupted", "exit_code": 130}),
        ("bug", {"type": "Unexpected", "exit_code": 1, "message": "division by zero"}),
        ("os", {"type": "OSError", "exit_code": 1}),
    ],
)
def test_with_json_an_error_is_an_object_on_stdout(run, capsys, fail, expected):
    run("probe", "--json", "--fail", fail)
    streams = capsys.readouterr()
    whole = json.loads(streams.out)
    assert list(whole) == ["schema_version", "command", "privagg", "error"]
    assert whole["command"] == "probe"
    assert expected.items() <= whole["error"].items()
    assert streams.err.splitlines()[-1]


@pytest.mark.parametrize(
    "args", [["probe", "--no-such", "--json"], ["probe", "--rate", "x", "--json"]]
)
def test_with_json_a_mistake_on_the_command_line_is_an_object_too(run, capsys, args):
    assert run(*args) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["type"], error["exit_code"]) == ("UsageError", 2)


def test_strings_in_errors_cannot_steer_the_terminal(run, capsys, monkeypatch):
    assert run("probe", "--threshold", "\x1b[31m2") == 2
    assert "\x1b" not in capsys.readouterr().err


def test_tracebacks_on_request(run, capsys, monkeypatch):
    monkeypatch.setenv("PRIVAGG_TRACEBACK", "1")
    assert run("probe", "--fail", "peer") == 4
    assert "Traceback" in capsys.readouterr().err


PROBE = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from conftest import probe
from privagg.cli import main
main.root.add_command(probe)
"""


def test_control_c_ends_with_130_and_without_a_traceback():
    code = (
        PROBE
        + """
import click, time
@main.root.command()
def wait():
    print("ready", file=sys.stderr, flush=True)
    time.sleep(60)
main.main()
"""
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "wait"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts what is in its background with Ctrl-C ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert "interrupted" in err


@pytest.mark.parametrize("args", [["data", "list"], ["--help"], ["data", "list", "--json"]])
def test_a_reader_that_goes_away_is_no_traceback(args):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "privagg", *args],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_an_error_and_no_traceback():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "privagg", "data", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_utf8_gets_escapes_and_not_an_error(shell):
    done = shell("data", "show", "adult", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "\\u2022 Source" in done.stdout


def test_the_module_and_the_entry_point_are_the_same_command(shell):
    done = shell("--version")
    assert done.stdout == f"privagg {privagg.__version__}\n"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(run, capsys, name):
    assert run("completion", name) == 0
    text = capsys.readouterr().out
    assert "_PRIVAGG_COMPLETE" in text
    assert f"{name}_complete" in text


def test_completion_completes_commands_options_and_data_sets(shell):
    def complete(*words):
        line = " ".join(["privagg", *words])
        environment = {
            "_PRIVAGG_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words)),
        }
        done = shell(env=environment)
        return {row.partition(",")[2] for row in done.stdout.splitlines()}

    assert complete("da") == {"data"}
    assert complete("data", "s") == {"show"}
    assert complete("data", "show", "--co") == {"--column", "--config"}
    assert complete("data", "show", "adu") == {"adult"}
