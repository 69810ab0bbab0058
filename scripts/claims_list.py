"""The list of claims, ``docs/claims/*.toml``: one file for each area, and how one is decided."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "claims"

Value: TypeAlias = float | int | str | bool

PASSED = "passed"
"""The value of a claim that tests show."""

_REDUCERS: dict[str, Callable[[list[Any]], Value]] = {
    "max": max,
    "min": min,
    "sum": sum,
    "count": len,
    "mean": lambda values: sum(values) / len(values),
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One figure, or one property.

    Attributes
    ----------
    name : str
        What it is called in files and on the command line; unique.
    says : str
        The claim in words.
    source : str
        Who states it: a paper and where in it, or "ours".
    run : tuple of str
        Commands. The last part of each prints the JSON that is read; tests print none.
    value : str
        Where in the JSON the value is; empty where tests decide.
    stated : float, str, bool or None
        What the source states, or what was aimed at.
    compare : str
        How the value has to be to it: ``equal``, ``at least``, ``at most``, ``within 2 %``,
        ``within 0.01``.
    unit : str
        Of both.
    slow : bool
        Whether it takes more than some ten seconds; ``--fast`` leaves it out.
    because : str
        Why it does not hold, if it is known not to.
    """

    name: str
    says: str
    source: str
    run: tuple[str, ...]
    value: str = ""
    stated: Value | None = None
    compare: str = "equal"
    unit: str = ""
    slow: bool = False
    because: str = ""

    @property
    def tested(self) -> bool:
        """Whether tests decide."""
        return not self.value

    def holds(self, got: Value) -> bool:
        """Decide the claim.

        Parameters
        ----------
        got : float, str or bool
            The value of a run.
        """
        if self.tested:
            return got == PASSED
        if self.compare == "equal":
            return got == self.stated
        stated, number = _number(self.stated), _number(got)
        if self.compare == "at least":
            return number >= stated
        if self.compare == "at most":
            return number <= stated
        amount, percent = tolerance(self.compare)
        return abs(number - stated) <= (abs(stated) * amount / 100 if percent else amount)


@dataclass(frozen=True)
class Area:
    """The claims of one area.

    Attributes
    ----------
    name, title : str
        The file's name without its number, and the heading.
    pages : tuple of str
        Pages of the documentation that say more.
    about : str
        What a reader must know first.
    claims : tuple of Claim
        In their order.
    """

    name: str
    title: str
    pages: tuple[str, ...]
    about: str
    claims: tuple[Claim, ...]


def tolerance(compare: str) -> tuple[float, bool]:
    """Return the amount of ``within 0.1`` or ``within 2 %``, and whether it is in percent."""
    found = re.fullmatch(r"within ([0-9.e-]+)( %)?", compare)
    if found is None:
        raise ValueError(f"no comparison: {compare!r}")
    return float(found[1]), found[2] is not None


def areas(folder: Path = FOLDER) -> list[Area]:
    """Read the list, in the order of the files' names.

    Raises
    ------
    ValueError
        Naming the first claim that is not as it should be.
    """
    found, names = [], set()
    for path in sorted(folder.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        claims = tuple(_claim(entry) for entry in table.pop("claim"))
        for one in claims:
            if one.name in names:
                raise ValueError(f"two claims are called {one.name!r}")
            names.add(one.name)
        found.append(
            Area(
                path.stem.partition("-")[2],
                table.pop("title"),
                tuple(table.pop("pages", ())),
                table.pop("about", "").strip(),
                claims,
            )
        )
        if table:
            raise ValueError(f"{path.name}: unknown keys {sorted(table)}")
    return found


def _claim(entry: dict[str, Any]) -> Claim:
    run = entry.pop("run")
    claim = Claim(run=(run,) if isinstance(run, str) else tuple(run), **entry)
    has_value = claim.stated is not None and bool(claim.value)
    if claim.tested != all(part.startswith("pytest ") for part in claim.run):
        raise ValueError(f"{claim.name}: tests have no value, and all else has one")
    if has_value == claim.tested:
        raise ValueError(f"{claim.name}: a value needs what is stated, and the other way round")
    if claim.compare not in {"equal", "at least", "at most"}:
        tolerance(claim.compare)
    return claim


def parts(command: str) -> list[str]:
    """Return the commands that one line strings together."""
    return command.split(" && ")


def evaluate(expression: str, documents: Sequence[Any]) -> Value:
    """Return a value out of the JSON of one or several commands.

    Operands are numbers and paths, between them ``+``, ``-``, ``*`` or ``/``, from left to right.
    In a path ``[key=text;other=text]`` takes the one item of a list with these values, ``[*]`` all,
    and ``[a key with blanks]`` an entry; before it ``max:``, ``mean:`` or another reducer makes one
    value of them. Where there are several commands a path begins with ``[0]``, ``[1]``, the number
    of the command.

    Raises
    ------
    KeyError
        If a path leads nowhere.
    """
    root = list(documents) if len(documents) > 1 else documents[0]
    words = re.findall(r"(?:\[[^\]]*\]|[^\s\[])+", expression)
    result = _operand(words[0], root)
    for sign, word in zip(words[1::2], words[2::2], strict=True):
        left, right = _number(result), _number(_operand(word, root))
        match sign:
            case "+":
                result = left + right
            case "-":
                result = left - right
            case "*":
                result = left * right
            case "/":
                result = left / right
            case _:
                raise KeyError(f"{sign} in {expression}")
    return result


def _operand(word: str, root: Any) -> Value:
    try:
        return float(word)
    except ValueError:
        pass
    reducer, colon, rest = word.partition(":")
    if colon and reducer in _REDUCERS:
        return _REDUCERS[reducer](_walk(rest, root))
    (found,) = _walk(word, root)
    if not isinstance(found, float | int | str | bool):
        raise KeyError(f"{word} is no single value")
    return found


def _walk(path: str, root: Any) -> list[Any]:
    found = [root]
    for name, inner in re.findall(r"([^.\[\]]+)|\[([^\]]*)\]", path):
        if name:
            found = [item[name] for item in found]
        elif inner == "*":
            found = [
                item
                for items in found
                for item in (items.values() if isinstance(items, dict) else items)
            ]
        elif "=" in inner:
            wanted = dict(part.split("=", 1) for part in inner.split(";"))
            found = [
                item
                for items in found
                for item in items
                if all(_text(item[key]) == text for key, text in wanted.items())
            ]
            if not found:
                raise KeyError(f"nothing has {inner}")
        else:
            found = [
                items[inner] if isinstance(items, dict) else items[int(inner)] for items in found
            ]
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise KeyError(f"{value!r} is no number")
    return float(value)
