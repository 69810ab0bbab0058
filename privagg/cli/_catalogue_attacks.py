"""Every attack, in rows; a test compares them with the modules and registries of the code."""

from __future__ import annotations

from privagg.cli._catalogue import Attack
from privagg.cli._catalogue_facts import facts

__all__ = ["attacks"]

_EXACT = "exact: what it names is determined; the rest may still be bounded or known from elsewhere"
_LOWER = "a lower bound: reports are at least so distinguishable, with the stated confidence"
_RATE = "how often it is right, beside chance; a low rate proves nothing"
_MORE = "better than the best guess, at p < 1e-4: the protocol leaks; no better proves nothing"
_SEEN = "what it recovers is seen; a failure proves nothing"
_LOG = "privagg audit linear --participation log.csv"
_TRANSCRIPT = "privagg audit secagg --transcript round.jsonl"
_GRADIENT = "privagg audit gradient --demo"
_SUM = "the gradient of a linear layer, of one client or summed, and the model"

# name: path, needs, proves, command
_SECAGG = {
    "coalitions": (
        "secagg:audit",
        "a round's transcript with payloads: what the server saw",
        "exact for each coalition tried: whose input it learns",
        _TRANSCRIPT,
    ),
    "deviations": (
        "secagg_replay:replay",
        "the same",
        "exact: a message that breaks the protocol, and whose it is",
        _TRANSCRIPT,
    ),
    "sybils": (
        "secagg_sybils:find_sybils",
        "the same, and a roster that one trusts",
        "exact: identities that are not on the roster",
        f"{_TRANSCRIPT} --roster roster.json",
    ),
}
_LINEAR = {
    "participation": ("linear:audit", "who took part in which rounds", _EXACT, _LOG),
    "smallest-coalition": ("linear_coalitions:smallest_coalition", "the same", _EXACT, _LOG),
    "isolating-pairs": ("linear_pairs:isolating_pairs", "the same", _EXACT, _LOG),
    "schedules": (
        "linear_schedules:compare_schedules",
        "numbers of clients and rounds",
        "when each schedule gives a client away",
        f"{_LOG} --schedules",
    ),
    "bounded-inputs": (
        "linear_ranges:feasible_ranges",
        "the log, the sums, and the range of inputs",
        "exact within a time limit: the range that each input must lie in",
        f"{_LOG} --sums sums.csv",
    ),
    "unknown-participation": (
        "linear_counts:participation_from_counts",
        "vectors of sums, and in how many rounds of an interval each client took part",
        "exact where it is unique: the log",
        "privagg audit linear --counts counts.csv --sums vectors.npy --interval 10",
    ),
    "secagg-views": (
        "linear_secagg:views_of_round",
        "a round's transcript",
        _EXACT,
        "",
    ),
    "sensor-views": (
        "linear_sensor:SensorViews",
        "what arrived where in a sensor network; colluders, broken links",
        _EXACT,
        "privagg audit linear --sensor-transcript net.jsonl",
    ),
}
_SENSOR = {
    "modulo": ("arithmetic:modulo_by_leader", "the leader, following the protocol"),
    "modulo-member": ("arithmetic:modulo_by_member", "a member, following it"),
    "division": ("arithmetic:division_by_leader", "a leader with a huge seed"),
    "tiny-seed": ("arithmetic:tiny_seed", "a leader with a tiny seed"),
    "crt": ("arithmetic:crt_eavesdropper", "an eavesdropper without keys"),
    "repeated-run": ("active:repeated_run", "a leader that claims a loss"),
    "split-view": ("active:split_view", "a leader with two stories, within the bound"),
    "phantom-members": ("active:phantom_members", "a leader that invents nodes"),
    "key-pool": ("keys:pool_eavesdropping", "all other nodes in range"),
    "collusion": ("arithmetic:collusion", "as many members as are withstood"),
    "extreme-sums": ("arithmetic:extreme_sums", "whoever knows the sum"),
    "split-view-beyond": ("active:split_view", "one colluder more than is withstood"),
    "collusion-beyond": ("arithmetic:collusion", "one colluder more than is withstood"),
}
_ORACLES = "privagg audit ldp --values 16 --epsilon 1"
_SURVEY = "privagg audit ldp --input adult --protocol"
_LDP = {
    "guess": ("guess:guess_success", "one report, and how frequent values are", _RATE, _ORACLES),
    "averaging": (
        "averaging:averaging_success",
        "several reports of one respondent's value",
        _RATE,
        "",
    ),
    "distinguish-oracle": (
        "distinguisher:distinguish_oracle",
        "reports of either of two values",
        _LOWER,
        _ORACLES,
    ),
    "distinguish-tuples": (
        "distinguisher:distinguish_tuples",
        "reports of either of two tuples, in a survey with fakes",
        _LOWER,
        f"{_SURVEY} rs+fd",
    ),
    "attribute-inference": (
        "attribute:infer_attributes",
        "a report with fakes",
        _RATE,
        f"{_SURVEY} rs+fd",
    ),
    "reidentification": (
        "reidentification:reidentify",
        "reports of one respondent in several smp surveys, and a table of people",
        _RATE,
        f"{_SURVEY} smp",
    ),
    "poisoning": (
        "poisoning:poisoning_gain",
        "a part of the respondents",
        "exact mean gain: how far estimates move",
        _ORACLES,
    ),
    "survey-poisoning": (
        "poisoning:survey_gain",
        "a part of the respondents of a survey",
        "exact mean gain: how far estimates move",
        f"{_SURVEY} smp",
    ),
}
_BAGS = "privagg audit responses --bags released.parquet"
_RESPONSES = {
    "label-posterior": (
        "responses_audit:audit",
        "released counts, memberships, features",
        "exact of disjoint and of few connected bags, else a floor: probabilities of labels",
        _BAGS,
    ),
    "determined-labels": (
        "responses_ranges:determine",
        "exact counts of overlapping bags",
        "exact: labels that the counts fix",
        _BAGS,
    ),
    "response-advantage": (
        "responses:response_advantage",
        "a noisy response of one row",
        "exact: how much better than by features alone a label is guessed",
        "",
    ),
}
_GRADIENTS = {
    "analytic": ("analytic:analytic", _SUM, "exact where one input alone activates a neuron"),
    "ica": ("ica:ica", _SUM, _SEEN),
    "relu_exact": (
        "relu_exact:relu_exact",
        f"{_SUM}, in front of a ReLU",
        "exact: a certificate comes with what it recovers",
    ),
    "cocktail_party": ("cocktail_party:cocktail_party", _SUM, _SEEN),
    "inverting_gradients": ("optimisation:inverting_gradients", "all gradients and labels", _SEEN),
    "dlg": ("optimisation:dlg", "all gradients", _SEEN),
    "feature_inversion": (
        "feature_inversion:invert_features",
        "embeddings, and the network in front of them",
        _SEEN,
    ),
    "feature_inversion+gm": (
        "feature_inversion:invert_features",
        "the same, and all gradients",
        _SEEN,
    ),
    "label-counts": ("labels:labels", "the gradient of the last layer", "beside the true counts"),
    "malicious-weights": (
        "malicious:detect",
        "the model that a client was sent",
        "a score: weights made to single out inputs; a low score proves nothing",
    ),
    "worst-case": (
        "worst_case:distinguish",
        "everything but whether one example took part",
        "a lower bound of epsilon, with the stated confidence",
    ),
}
_GRADIENTS_ONLY_IN_THE_LIBRARY = {
    "token-span": ("span:span_test", "the gradient of an attention layer", "which tokens fit"),
    "model-inconsistency": (
        "inconsistency:inconsistent_round",
        "a server that gives clients different models",
        "exact: the target's update alone, or the abort of rounds bound to a model",
    ),
}


def attacks() -> list[Attack]:
    """Return every attack: on rounds, logs, sensor networks, reports, releases, gradients."""
    rows = [_row(name, *entry) for name, entry in (_SECAGG | _LINEAR | _RESPONSES).items()]
    sensor = [
        _row(name, f"sensor_{path}", needs, _MORE, f"privagg audit sensor --attack {name}")
        for name, (path, needs) in _SENSOR.items()
    ]
    ldp = [_row(name, f"ldp_{path}", *rest) for name, (path, *rest) in _LDP.items()]
    first = len(_SECAGG) + len(_LINEAR)
    gradients = []
    for name, (path, needs, proves) in _GRADIENTS.items():
        flag = "" if "-" in name else f" --attack {name}"
        gradients.append(_row(name, f"gradient.{path}", needs, proves, _GRADIENT + flag))
    for name, (path, needs, proves) in _GRADIENTS_ONLY_IN_THE_LIBRARY.items():
        gradients.append(_row(name, f"gradient.{path}", needs, proves, ""))
    return [*rows[:first], *sensor, *ldp, *rows[first:], *gradients]


def _row(name: str, path: str, needs: str, proves: str, command: str) -> Attack:
    path = f"privagg.attacks.{path}"
    found = facts(path)
    return Attack(
        name=name,
        summary=found.summary,
        path=path,
        needs=needs,
        proves=proves,
        command=command,
        source=found.source,
    )
