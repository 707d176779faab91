"""Faults of src/port: one process makes batches for others."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "memory that is kept for others is used again",
        "src/port/lending.c",
        "if (l->kept[slot] || l->holders[slot])",
        "if (l->holders[slot])",
        ("c:port/lending",),
    ),
    Mutation(
        "a channel that may become shorter is mapped",
        "src/port/channel.c",
        "return seals >= 0 && (seals & F_SEAL_SHRINK);",
        "return seals >= 0;",
        ("py:test_port_hostile.py::test_memory_that_could_become_shorter_is_refused",),
    ),
    Mutation(
        "rows of any length that begin within a batch are others",
        "src/port/cut.c",
        "const uint64_t steps = output->ragged ? (uint64_t)from->offsets[first] : first;",
        "const uint64_t steps = first;",
        ("py:test_port_data.py::test_photos_with_targets_texts_and_numbers",),
    ),
    Mutation(
        "a broken row is told of with the number that it has in the port's batch",
        "src/engine/assemble.c",
        "note.row += begin - part->first;",
        "note.row += begin;",
        ("py:test_port_data.py::test_broken_photos_are_treated_as_a_loader_of_ones_own_does",),
    ),
    Mutation(
        "a reader gets again a batch that it holds, and may have written to",
        "src/port/shelf.c",
        "return place->used && leat_position_is(place->at, c->at) && place->kind != LEAT_SHELF_ASKED &&\n"
        "           !leat_loan_has(&c->loan, slot);",
        "return place->used && leat_position_is(place->at, c->at) && place->kind != LEAT_SHELF_ASKED;",
        ("c:port/port",),
    ),
    Mutation(
        "memory that a reader may still write to is taken from it",
        "src/port/message.c",
        "(seals & SEALS) != SEALS",
        "!(seals & SEALS)",
        ("py:test_port_hostile.py::test_samples_that_are_not_what_they_should_be_are_refused",),
    ),
    Mutation(
        "a port for its user alone is opened where a group may put another socket in its place",
        "src/port/folder.c",
        " && st.st_gid != group)",
        " && open && st.st_gid != group)",
        ("py:test_port_folder.py::test_a_folder_that_cannot_be_used_is_named_with_the_reason",),
    ),
    Mutation(
        "a relative folder of ports is another one when the working directory has changed",
        "src/port/folder.c",
        "if (rc || *path == '/' ||",
        "if (rc || *path ||",
        ("py:test_port_folder.py::test_a_relative_folder_is_where_it_was_when_the_working_directory_changes",),
    ),
    Mutation(
        "readers with keys of their own get the draws of others",
        "src/port/line.c",
        "while (l && (l->program != program || l->key != key || l->samples))",
        "while (l && (l->program != program || (l->key != key && !key) || l->samples))",
        ("py:test_port_outputs.py::test_another_key_gives_the_same_rows_with_other_draws",),
    ),
    Mutation(
        "a batch that a port says reaches beyond its memory is read",
        "src/port/published.c",
        "offset > memory_bytes || bytes > memory_bytes - offset || bytes",
        "offset > memory_bytes || bytes",
        ("c:port/port",),
    ),
    Mutation(
        "parts of a port's batch may lie behind its end",
        "src/port/published.c",
        " || at.end > bytes ||\n",
        " ||\n",
        ("c:port/port",),
    ),
    Mutation(
        "a broken row of a port's batch may lie behind its rows",
        "src/port/published.c",
        "out->errors[i].row >= h->rows || out->errors[i].text",
        "out->errors[i].text",
        ("c:port/port",),
    ),
    Mutation(
        "a reason of a port may begin behind its texts",
        "src/port/published.c",
        "out->errors[i].text >= h->n_texts ||",
        "out->errors[i].text > h->n_texts ||",
        ("c:port/port",),
    ),
    Mutation(
        "the last reason of a port may have no end",
        "src/port/published.c",
        " ||\n        (h->n_texts && from[at.end - 1]))",
        ")",
        ("c:port/port",),
    ),
    Mutation(
        "a port may say more rows than it delivers or leaves out",
        "src/port/published.c",
        "if (!h->failed && h->delivered + left_out != h->rows)",
        "if (!h->failed && h->delivered + left_out > h->rows)",
        ("c:port/port",),
    ),
]
