"""With ``PRIVAGG_JIT=0`` all mechanisms make the same reports and the same sums, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from ldp_oracles import SMALL

CODE = """
import hashlib, json, sys
import numpy as np
from privagg._jit import JIT
from privagg.domain import Categorical, Floats
from privagg.entropy import from_seed
from privagg.mechanisms import MECHANISMS, ExponentialMechanism, NumericMechanism, make

found = {"jit": JIT}
for name in MECHANISMS:
    for k, epsilon, n in ((3, 0.7, 700), (70, 2.0, 3001), (300, 4.0, 900)):
        options = json.loads(sys.argv[1]) if name in ("cms", "hcms") else {}
        numeric = issubclass(MECHANISMS[name], NumericMechanism)
        domain = Floats(0, 1, steps=k - 1) if numeric else Categorical(range(k))
        mechanism = make(name, domain, epsilon, **options)
        codes = np.random.default_rng(1).integers(0, k, n)
        reports = mechanism.randomize_codes(codes, from_seed(5))
        state = mechanism.aggregate(reports)
        found_of = mechanism.estimate(state)
        estimate = [found_of.raw] if numeric else found_of.values.round(12).tolist()
        data = reports.encode() + state.encode() + json.dumps(estimate).encode()
        found[f"{name} {k}"] = hashlib.sha256(data).hexdigest()
found["exponential"] = [
    ExponentialMechanism(1.0).choose(np.arange(20), from_seed(seed)) for seed in range(20)
]
print(json.dumps(found))
"""


def run(jit):
    environment = {**os.environ, "PRIVAGG_JIT": jit}
    command = [sys.executable, "-c", CODE, json.dumps(SMALL)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_same_reports_without_compilation():
    compiled, plain = run("1"), run("0")
    assert (compiled.pop("jit"), plain.pop("jit")) == (True, False)
    assert len(compiled) > 50
    assert compiled == plain
