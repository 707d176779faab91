"""Faults of python/leat/ports: what is attached to a port, and orders that follow others."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "an order that begins later is followed from its beginning",
        "python/leat/ports/order.py",
        'return given[0], check.integer("begin", given[1], 0)',
        'return given[0], 0 * check.integer("begin", given[1], 0)',
        ("py:test_port_order.py::test_an_order_that_begins_later_is_followed_from_there_on",),
    ),
    Mutation(
        "an id of 64 bits becomes a negative one",
        "python/leat/ports/order.py",
        "if found.dtype == np.uint64 and found.size and int(found.max()) >> 63:",
        "if found.dtype == np.uint64 and found.size and int(found.max()) >> 64:",
        (
            "py:test_port_order.py::test_what_is_no_order_is_refused",
            "py:test_port_order.py::test_ids_are_taken_as_users_have_them",
        ),
    ),
    Mutation(
        "a state that was taken after peeking leaves out the batch that was peeked at",
        "src/engine/reader.c",
        "        r->behind = stand_of(r);\n        go(r, &before);\n",
        "        r->behind = stand_of(r);\n",
        ("py:test_peek.py::test_what_is_attached_looks_ahead_like_a_loader",),
    ),
    Mutation(
        "a loader that gives rows in any order is served",
        "python/leat/sharing/served.py",
        'if not loader._options["in_order"]',
        'if loader._options["in_order"] is None',
        ("py:test_port.py::test_loaders_that_cannot_be_shared_are_refused_with_the_reason",),
    ),
    Mutation(
        "after a state was loaded a reader of a port gives the batch that it peeked at before",
        "src/port/attach.c",
        "    leat_reader_drop(&a->reader);\n    leat_reader_load(&a->reader);\n",
        "    leat_reader_load(&a->reader);\n",
        ("py:test_peek.py::test_what_a_reader_peeked_at_is_given_up_where_it_loads_a_state",),
    ),
    Mutation(
        "a port over a loader within an epoch begins at the beginning of the epoch",
        "python/leat/sharing/served.py",
        'if loader._share is None and (state["at"]["epoch"] or state["at"]["row"]):',
        'if loader._share is None and state["at"]["epoch"]:',
        ("py:test_port.py::test_a_port_begins_where_its_loader_stands",),
    ),
]
