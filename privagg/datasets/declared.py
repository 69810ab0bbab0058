"""What is declared of the bundled tables' columns: ranges, a box around points, parents of states.

A survey needs these before anyone answers. They are what the sources document or what is commonly
known, never read off the rows.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BOXES", "DIVISIONS", "RANGES", "STATE_CODES"]

BOXES: Mapping[str, tuple[float, float, float, float]] = {
    "stops2017": (44.885, -93.335, 45.055, -93.19),
}
"""Around the points of a table: south, west, north, east in degrees. Of Minneapolis: the city."""

RANGES: Mapping[tuple[str, str], tuple[int, int]] = {
    ("adult", "age"): (17, 90),
    ("adult", "hours_per_week"): (1, 99),
    ("income2000", "education_years"): (0, 20),
    ("voters2016", "age"): (18, 110),
    ("voters2016", "income_bracket"): (1, 12),
}
"""The range of a column of integers."""

_DIVISIONS: Mapping[str, tuple[str, ...]] = {
    "New England": (
        *("Connecticut", "Maine", "Massachusetts", "New Hampshire", "Rhode Island", "Vermont"),
    ),
    "Middle Atlantic": ("New Jersey", "New York", "Pennsylvania"),
    "East North Central": ("Illinois", "Indiana", "Michigan", "Ohio", "Wisconsin"),
    "West North Central": (
        *("Iowa", "Kansas", "Minnesota", "Missouri", "Nebraska", "North Dakota", "South Dakota"),
    ),
    "South Atlantic": (
        *("Delaware", "District of Columbia", "Florida", "Georgia", "Maryland", "North Carolina"),
        *("South Carolina", "Virginia", "West Virginia"),
    ),
    "East South Central": ("Alabama", "Kentucky", "Mississippi", "Tennessee"),
    "West South Central": ("Arkansas", "Louisiana", "Oklahoma", "Texas"),
    "Mountain": (
        *("Arizona", "Colorado", "Idaho", "Montana", "Nevada", "New Mexico", "Utah", "Wyoming"),
    ),
    "Pacific": ("Alaska", "California", "Hawaii", "Oregon", "Washington"),
}

DIVISIONS: Mapping[str, str] = {
    state: division for division, states in _DIVISIONS.items() for state in states
}
"""The division of the US Census Bureau that each state is in (with the District of Columbia)."""

_CODES = """
AL Alabama, AK Alaska, AZ Arizona, AR Arkansas, CA California, CO Colorado, CT Connecticut,
DE Delaware, DC District of Columbia, FL Florida, GA Georgia, HI Hawaii, ID Idaho, IL Illinois,
IN Indiana, IA Iowa, KS Kansas, KY Kentucky, LA Louisiana, ME Maine, MD Maryland,
MA Massachusetts, MI Michigan, MN Minnesota, MS Mississippi, MO Missouri, MT Montana,
NE Nebraska, NV Nevada, NH New Hampshire, NJ New Jersey, NM New Mexico, NY New York,
NC North Carolina, ND North Dakota, OH Ohio, OK Oklahoma, OR Oregon, PA Pennsylvania,
PR Puerto Rico, RI Rhode Island, SC South Carolina, SD South Dakota, TN Tennessee, TX Texas,
UT Utah, VT Vermont, VA Virginia, WA Washington, WV West Virginia, WI Wisconsin, WY Wyoming
"""

STATE_CODES: Mapping[str, str] = {
    name: code
    for code, name in (one.strip().split(" ", 1) for one in _CODES.replace("\n", " ").split(","))
}
"""The postal code of each state, of the District of Columbia and of Puerto Rico, by name."""
