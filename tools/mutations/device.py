"""Faults of src/device: rows that a card gathers, photos that it decodes."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "lanes are not shifted to the lines of the bus",
        "src/device/kernels/gather_rows.cu.h",
        "const u32 skew = a.shifted ? (u32)((u64)row & 127) / word : 0;",
        "const u32 skew = a.shifted ? (u32)((u64)row & 63) / word : 0;",
        ("c:device/rows",),
    ),
    Mutation(
        "the card reads behind its table",
        "src/device/kernels/gather_rows.cu.h",
        "const bool there = (u64)id < a.count;",
        "const bool there = (u64)id <= a.count;",
        ("c:device/rows", "py:test_device.py"),
    ),
    Mutation(
        "closing a table ends another one over the same memory",
        "src/device/pin.c",
        "if (pin && !--pin->users) {",
        "if (pin && (--pin->users, true)) {",
        ("c:device/rows",),
    ),
    Mutation(
        "a forked child uses its parent's card",
        "src/device/driver.c",
        "if (!loaded_by || loaded_by == getpid())",
        "if (loaded_by || !loaded_by)",
        ("c:device/rows",),
    ),
    Mutation(
        "a later id that is no row is named first",
        "src/device/gather.c",
        "while (i < known && !atomic_compare_exchange_weak(&s->bad, &known, i))",
        "while (i != known && !atomic_compare_exchange_weak(&s->bad, &known, i))",
        ("c:device/rows",),
    ),
    Mutation(
        "memory of which somebody else has pinned both ends is read in place",
        "src/device/pin.c",
        "bytes <= size - (at - begin)",
        "size",
        ("c:device/rows",),
    ),
    Mutation(
        "tables over the same pages are pinned side by side",
        "src/device/pin.c",
        "while ((known = find(begin, bytes)) && known->busy)",
        "while ((known = find(begin, bytes)) && false)",
        ("c:device/rows",),
    ),
    Mutation(
        "halves become odd where they lie in the middle",
        "src/device/kernels/gather_rows.cu.h",
        "rest + 0xfff + (rest >> 13 & 1)",
        "rest + 0x1000",
        ("c:device/rows",),
    ),
    Mutation(
        "a stage is written to while the card reads it",
        "src/device/rows.c",
        "(code = cuda->cuEventSynchronize(r->read[i])) || ",
        "",
        ("c:device/rows",),
    ),
    Mutation(
        "a forked child waits for its parent's threads",
        "src/device/threads.c",
        "threads.n_threads = threads.busy = 0;",
        "threads.busy = 0;",
        ("c:device/rows",),
    ),
    Mutation(
        "a card reads behind a row whose streams lie",
        "src/device/kernels/photo_rows.cu.h",
        "if (length < at->byte)",
        "if (length < at->nibble)",
        ("c:device/photo",),
    ),
    Mutation(
        "a card refuses a row for a block that nobody needs",
        "src/device/kernels/photo_rows.cu.h",
        "if (x >= plane->check0)",
        "if (x <= plane->check1)",
        ("c:device/photo",),
    ),
    Mutation(
        "a card doubles the samples at odd pixels as those at even ones",
        "src/device/kernels/photo_colours.cu.h",
        "(x & 1 ? 7 : 8)",
        "8",
        ("c:device/photo",),
    ),
    Mutation(
        "a card has no samples beside those of the box",
        "src/codec/jpeg/card_plan.c",
        "s.smooth_down, s.height",
        "false, s.height",
        ("c:device/photo",),
    ),
]
