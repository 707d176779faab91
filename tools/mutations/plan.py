"""Faults of src/plan: which samples come when."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "the last batch of an epoch is counted where it is dropped",
        "src/plan/geometry.c",
        "(length % global && !(s->final && e->now.tail == LEAT_TAIL_DROP))",
        "(length % global != 0)",
        ("c:plan/batches",),
    ),
    Mutation(
        "a state forgets that a list selects from an order",
        "src/plan/entry_json.c",
        'int bad = list->selects && json_object_set_new(o, "selects", json_true());',
        "int bad = 0;",
        ("c:plan/rest",),
    ),
    Mutation(
        "a state of rows out of order is taken by another rank",
        "src/plan/received.c",
        "if (rank != p->rank || world != world_at(p, at))",
        "if (world != world_at(p, at))",
        ("c:engine/unordered",),
    ),
    Mutation(
        "the last row before a decision within an epoch comes again",
        "src/plan/rest.c",
        "for (uint64_t i = 0; i < had; i++)",
        "for (uint64_t i = 0; i + 1 < had; i++)",
        ("c:plan/rest",),
    ),
    Mutation(
        "a batch by length at a bucket's start is looked for in the bucket before",
        "src/plan/groups.c",
        "g->buckets[middle].first <= group",
        "g->buckets[middle].first < group",
        ("c:plan/groups",),
    ),
    Mutation(
        "what a source without a share was given too much still counts",
        "src/plan/mixture.c",
        "return sums[high] == sums[low] ? 0 : d->carry[low] - d->mean;",
        "return d->carry[low] - d->mean;",
        ("c:plan/mixtures",),
    ),
    Mutation(
        "rows of one order are those of the order before it",
        "src/plan/order.c",
        "    if (!c->pass_set || c->pass != pass || c->order != o || c->list)\n",
        "    if (!c->pass_set || c->pass != pass || c->list)\n",
        ("c:plan/orders",),
    ),
    Mutation(
        "selected rows of one order are those of the order before it",
        "src/plan/order.c",
        "c->order != o || c->list != list) {",
        "c->list != list) {",
        ("c:plan/orders",),
    ),
]
