"""Faults of src/worker: the board, from which processes take rows, and the memory that they share."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "a unit of a worker that has died is queued, but lies before the hint",
        "src/worker/board.c",
        "                atomic_store(&e->hint, (atomic_load(&e->hint) | COUNT_MASK) + 1);\n",
        "",
        ("c:worker/board",),
    ),
    Mutation(
        "a row that ends workers is tried for ever",
        "src/worker/board.c",
        "    return !f->kills[row];",
        "    return false;",
        ("c:worker/board",),
    ),
    Mutation(
        "rows of a batch that got its place late go where nothing is",
        "src/worker/take.c",
        "memcpy(out->batch.buffers, e->placed, sizeof e->placed);",
        "memcpy(out->batch.buffers, batch->buffers, sizeof e->placed);",
        ("c:worker/board",),
    ),
    Mutation(
        "messages of the last worker are not counted",
        "src/worker/pool.c",
        "for (unsigned i = 0; i < p->n; i++)",
        "for (unsigned i = 0; i + 1 < p->n; i++)",
        ("c:worker/board",),
    ),
    Mutation(
        "a slot of the parent is given back to the memory of its child",
        "src/worker/share.c",
        "if (own.open && slot->generation == own.generation)",
        "if (own.open)",
        ("c:worker/share",),
    ),
    Mutation(
        "memory shared with workers is not in the ledger of the process",
        "src/worker/share.c",
        "        leat_ledger_take(LEAT_OF_WORKERS, slot->bytes);\n",
        "        leat_ledger_take(LEAT_OF_WORKERS, 0);\n",
        ("c:worker/share",),
    ),
]
