"""Faults of src/fit: curves."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "points that only fill up the last register count",
        "src/fit/power_sums.c",
        "vec psi = choose(within, r, choose(r < zero, -delta, delta)) * real;",
        "vec psi = choose(within, r, choose(r < zero, -delta, delta));",
        ("c:fit/power_law",),
    ),
    Mutation(
        "the ends of a smoothed curve are those of its mirror image",
        "src/fit/smooth.c",
        "weigh(&w, (int64_t)at - (int64_t)middle, edge);",
        "weigh(&w, (int64_t)middle - (int64_t)at, edge);",
        ("c:fit/smooth",),
    ),
    Mutation(
        "a parameter at its upper bound never leaves it",
        "src/fit/power_law.c",
        "!(x[i] >= p->high[i] && g[i] <= 0);",
        "!(x[i] >= p->high[i]);",
        ("c:fit/power_law",),
    ),
]
