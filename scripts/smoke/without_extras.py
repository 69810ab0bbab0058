"""Without extras: a round, a survey, and what asks for an extra says which."""

import numpy as np

from privagg.domain import Categorical
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.collection import Collector, Survey

vectors = np.random.default_rng(1).integers(0, 2**12, (6, 50))
params = secagg.Params.recommend(clients=6, dim=50, value_bits=12, dropout=0.2, min_cohort=3)
result = secagg.run(params, vectors, dropouts={4: "masked-input"})
assert np.array_equal(result.sum, np.delete(vectors, 4, axis=0).sum(axis=0))

survey = Survey.declare({"colour": Categorical(["red", "green", "blue"])}, epsilon=2.0)
collector = Collector(survey)
assert collector.receive(survey.randomize({"colour": ["red", "blue"] * 20})) == 40

try:
    from privagg.integrations.torch_responses import AggregateModule
except (UsageError, ModuleNotFoundError) as error:
    print(f"a sum of {result.count} inputs, a survey of 40; without torch: {error}")
else:
    raise AssertionError(f"{AggregateModule} was imported without its extra")
