"""Faults of src/feedback: the table of what was reported, and selections."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "of two values of one step the one that is entered last stays",
        "src/feedback/table.c",
        "(now < had || (now == had && !(value > mark->value)))",
        "now < had",
        ("c:feedback/table",),
    ),
    Mutation(
        "an id that two samples share is found for one of them",
        "src/feedback/table.c",
        "if (f->sorted[i].id == f->sorted[i - 1].id)",
        "if (f->sorted[i].id < f->sorted[i - 1].id)",
        ("c:feedback/table",),
    ),
    Mutation(
        "-0 is selected after 0",
        "src/feedback/select.c",
        "const float value = value_at(v, i) + 0.0F;",
        "const float value = value_at(v, i);",
        ("c:feedback/select",),
    ),
]
