"""Faults of src/engine: batches in flight, threads, memory, consumers, states."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "a batch is removed from the window without moving those before it",
        "src/engine/window.c",
        "    for (; i; i--)\n        w->ring[(w->head + i) % LEAT_MAX_WINDOW] = leat_window_at(w, i - 1);\n",
        "    if (i)\n        w->ring[(w->head + i) % LEAT_MAX_WINDOW] = leat_window_at(w, 0);\n",
        ("c:engine/unordered",),
    ),
    Mutation(
        "a loader that was idle catches up on time that it did not use",
        "src/engine/scheduler.c",
        "        if (c->vtime < s->vclock)\n            c->vtime = s->vclock;\n",
        "",
        ("c:engine/loader",),
    ),
    Mutation(
        "a timer that is not the first is not stopped",
        "src/engine/scheduler.c",
        "    while (*p && *p != timer)\n        p = &(*p)->next;\n    if (*p)\n",
        "    if (*p == timer)\n",
        ("c:engine/reads",),
    ),
    Mutation(
        "a row that fails a second time is noted twice",
        "src/engine/policy.c",
        "    if (find_note(j, row))\n        return true;\n",
        "",
        ("c:engine/policy",),
    ),
    Mutation(
        "a state out of order lacks the last row that was received",
        "src/engine/unordered.c",
        "out->n_bits = i + 1;",
        "out->n_bits = i;",
        ("c:engine/unordered",),
    ),
    Mutation(
        "the state of a consumer of another order is taken",
        "src/engine/consumer.c",
        "    if (strcmp(print, fingerprint) || strcmp(hash, order))\n",
        "    if (strcmp(print, fingerprint))\n",
        ("py:test_consumers.py::test_what_cannot_be_is_an_error_that_says_why",),
    ),
    Mutation(
        "a decision may concern rows that were handed out",
        "src/engine/control.c",
        "if ((c->started || c->loaded) && leat_position_precedes(d.at, c->at))",
        "if (c->loaded && leat_position_precedes(d.at, c->at))",
        ("py:test_mixture_reports.py::test_weights_of_a_batch_that_was_handed_out_are_refused",),
    ),
    Mutation(
        "rows of padding are said to be real",
        "src/engine/job.c",
        "to->valid[first + i] = j->rows[i].valid;",
        "to->valid[first + i] = true;",
        ("py:test_split.py::test_padding_is_in_the_part_that_it_pads",),
    ),
    Mutation(
        "a substitute keeps the id of the sample that it stands in for",
        "src/engine/job.c",
        "            j->target.ids[row] = j->refs[i].id;\n",
        "",
        ("c:engine/policy",),
    ),
    Mutation(
        "pages of a free extent that joins another are not counted any more",
        "src/engine/region.c",
        "            before->dirty += after->dirty;\n",
        "",
        ("c:engine/region",),
    ),
    Mutation(
        "rows that are kept through a change of the batch size have keys of others",
        "src/engine/kept.c",
        "from->keys + begin, n",
        "from->keys + first, n",
        ("c:engine/kept",),
    ),
    Mutation(
        "reasons of broken rows are lost when their batch is used again",
        "src/engine/batch.c",
        "    for (size_t i = 0; i < b->n_broken; i++)\n        leat_free(b->broken[i].reason);\n    b->n_broken = 0;\n",
        "    b->n_broken = 0;\n",
        ("c:engine/policy",),
    ),
    Mutation(
        "a batch that was peeked at comes twice",
        "src/engine/peek.c",
        "    if (b)\n        go(c, &c->behind_peeked);\n",
        "",
        ("c:engine/peek",),
    ),
]
