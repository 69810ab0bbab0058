"""The extra ``dask``: sums of reports are added by its workers."""

import dask
import numpy as np

from privagg.domain import Categorical
from privagg.protocols.collection import Collector, Survey

survey = Survey.declare({"colour": Categorical(["red", "green"])}, epsilon=2.0)


@dask.delayed
def count(seed: int) -> bytes:
    """Return the sums over one partition."""
    collector = Collector(survey)
    people = np.random.default_rng(seed).choice(["red", "green"], 50).tolist()
    collector.receive(survey.randomize({"colour": people}))
    return collector.state.encode()


total = Collector(survey)
for state in dask.compute(*map(count, range(4)), scheduler="threads"):
    total.merge(state)
assert total.users == 200
print("200 reports added over 4 partitions")
