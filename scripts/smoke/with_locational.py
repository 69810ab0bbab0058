"""The extra ``locational``: regions that are hexagons, and points in them."""

from privagg.protocols.locational import Aggregator, Boolean, H3Cells, Params, Respondent

regions = H3Cells.covering(6, (44.9, -93.4, 45.1, -93.1))
params = Params(regions=regions, value=Boolean(), epsilon=4.0, mechanism="ss")
aggregator = Aggregator(params)
for number in range(20):
    aggregator.receive(Respondent(params).report(((45.0, -93.2), number % 2 == 0)).encode())
print(f"{len(aggregator.estimate().count)} regions counted")
