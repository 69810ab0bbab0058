"""The extra ``flower``: the mod, the grid's settings and a round's parameters."""

from privagg import keys
from privagg.integrations.flower import Policy, Ranges, Roster, SecAggGrid, Settings, secagg_mod

roster = Roster(keys.Identity.generate().public for _ in range(5))
ranges = Ranges(clip=1.0, max_weight=10_000, metrics={"train_loss": 10.0})
mod = secagg_mod(ranges, Policy(min_cohort=4, max_corrupt=1, roster=roster))
settings = Settings(ranges=ranges, roster=roster, corrupt=0.2, dropout=0.2)
assert callable(mod)
assert callable(SecAggGrid)
print(f"threshold {settings.params(clients=5, dim=1000).threshold} of 5")
