"""The identities of a simulated round: a pinned roster, and a folder of identity files."""

from __future__ import annotations

from pathlib import Path

from privagg import entropy as entropies
from privagg import keyfiles
from privagg.errors import UsageError
from privagg.keys import Identity
from privagg.protocols.secagg import Params, Roster, Signer

__all__ = ["of"]


def of(
    params: Params, roster_file: Path | None, folder: Path | None, seed: int | None
) -> tuple[list[Signer] | None, Roster | None]:
    """Return the identities in the roster's order, and the roster; None where nothing is signed.

    Parameters
    ----------
    params : Params
        The round.
    roster_file, folder : Path, optional
        Both or neither: what ``privagg keys roster`` wrote, and a folder with the identity file of
        everyone in it, under any name. New ones are made where they are left out.
    seed : int, optional
        What new ones are made from.

    Raises
    ------
    UsageError
        If only one is given, nothing is signed, the roster has another size, or an identity is
        missing or encrypted.
    """
    if roster_file is None and folder is None:
        return _new(params, seed) if params.signed else (None, None)
    if not params.signed:
        flag = "--roster" if roster_file is not None else "--identities"
        raise UsageError(
            flag,
            f"given where the threat model is {params.threat.value}",
            "a threat model in which messages are signed",
            "Choose --threat active or --threat semi-malicious.",
        )
    if roster_file is None or folder is None:
        lacks, has = ("--roster", "--identities") if folder else ("--identities", "--roster")
        raise UsageError(lacks, "nothing", f"a value beside {has}", "Leave out both for new ones.")
    return _read(roster_file, folder, params.clients)


def _new(params: Params, seed: int | None) -> tuple[list[Signer], Roster]:
    """Make them as the run itself would."""
    source = entropies.from_seed(seed)
    made = [Identity.generate(source.spawn(f"identity/{i}")) for i in range(params.clients)]
    return list(made), Roster(identity.public for identity in made)


def _read(roster_file: Path, folder: Path, clients: int) -> tuple[list[Signer], Roster]:
    roster = Roster.load(roster_file)
    if len(roster) != clients:
        raise UsageError("--roster", f"{len(roster)} identities", f"one for each of {clients}")
    found: dict[bytes, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and keyfiles.kind_of(path) in ("identity", "encrypted identity"):
            found[keyfiles.read_public(path)[0]] = path
    identities: list[Signer] = []
    for place, public in enumerate(roster.identities):
        if public not in found:
            raise UsageError(
                "--identities",
                f"no identity of client {place}, {public.hex()[:16]}...",
                f"the identity files of all {clients} clients in {folder}",
            )
        if keyfiles.kind_of(found[public]) != "identity":
            hint = "Simulations take identities without a passphrase; see `privagg keys new`."
            raise UsageError("--identities", f"{found[public].name}, encrypted", "plain ones", hint)
        identities.append(keyfiles.read_identity(found[public]))
    return identities, roster
