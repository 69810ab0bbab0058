"""Known ways in which secure aggregation goes wrong; behaviours cite them by number.

Not all are lies that a message can tell: of those it is said here where the package answers them.
"""

from __future__ import annotations

__all__ = ["PITFALLS"]

PITFALLS: dict[int, tuple[str, str]] = {
    1: (
        "The server gives clients different models, so that the sum is one client's gradient "
        "(Pasquini, Francati and Ateniese, CCS 2022).",
        "",
    ),
    2: (
        "One client is called a survivor and gone at once, and both kinds of its shares are given.",
        "",
    ),
    3: ("Repeated ids or answers count toward the threshold.", ""),
    4: ("The server chooses the threshold and the cohort, down to one client.", ""),
    5: (
        "Public keys are believed unsigned: man in the middle, Sybils (Boenisch et al., EuroS&P "
        "2023).",
        "",
    ),
    6: ("The mask stream is no cryptographic one, or its seed is short.", "`privagg.prg`"),
    7: ("Masks are not uniform modulo the modulus.", "`privagg.prg`"),
    8: ("Keys or masks are used in two rounds, or two masked inputs are given.", ""),
    9: (
        "A pseudorandom function is misused, so that one round's seed gives another's.",
        "`privagg.keys`",
    ),
    10: ("One key, or one derivation, serves two purposes.", ""),
    11: ("Clients deal or hand in wrong shares, unnoticed or ending the round.", ""),
    12: ("Ciphertexts, sets or signatures of another party or round are taken for these.", ""),
    13: (
        "Sums over many rounds, with changing cohorts, are differenced (So et al., AAAI 2023).",
        "outside one round: audit who takes part, or add noise",
    ),
    14: (
        "The sum itself tells whether someone is in it.",
        "outside the protocol: add noise",
    ),
    15: (
        "A model that all are given is made to leak inputs through the sum.",
        "outside the protocol: look at the model, clip, add noise",
    ),
    16: ("Sums wrap around the modulus silently.", ""),
    17: ("NaN or infinity is turned into a number.", "`privagg.encoding` refuses them"),
    18: (
        "Weights and metrics are sent in the clear beside the masked vector.",
        "weights are masked like the vector",
    ),
    19: ("Noise comes from a predictable seed.", "`privagg.entropy`"),
    20: ("Noise is short when clients leave.", "no noise is part of this protocol"),
    21: ("One client that leaves, or that lies, ends the round for all.", ""),
    22: (
        "The server chooses who is whose neighbour, and surrounds a client (Bell et al., CCS "
        "2020).",
        "",
    ),
    23: (
        "Secrets are written to logs or state.",
        "no secret is in a `repr`, and only `dump_state` gives state out",
    ),
    24: ("A client decrypts what it sent itself and gives it back in the clear.", ""),
}
"""Number to what goes wrong, and where it is answered if no behaviour can show it."""
