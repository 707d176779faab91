"""Faults of src/columns: stores of rows."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "durable words are set before their records are on disk",
        "src/columns/flush.c",
        "if (!rc && !(rc = sync_now(c, error)) && !(rc = leat_guarded(make_durable, noted, error)) &&",
        "if (!rc && !(rc = leat_guarded(make_durable, noted, error)) &&",
        ("c:columns/crash",),
    ),
    Mutation(
        "a sweep frees slots that durable words name",
        "src/columns/slots.c",
        "(!leat_columns_look(&entry->live, &live, NULL) && !points_at(live, offset) &&\n"
        "                      !leat_columns_look(&entry->durable, &durable, NULL) && !points_at(durable, offset));",
        "(!leat_columns_look(&entry->live, &live, NULL) && !points_at(live, offset) &&\n"
        "                      !leat_columns_look(&entry->durable, &durable, NULL));",
        ("c:columns/crash", "c:columns/columns"),
    ),
    Mutation(
        "a row is handed out although its checksum is wrong",
        "src/columns/gather.c",
        "if (leat_columns_checksum(&header, leat_hash64(copy, header.length)) != header.checksum)",
        "if (leat_columns_checksum(&header, leat_hash64(copy, header.length)) == 0)",
        ("c:columns/faults",),
    ),
    Mutation(
        "rows behind one that could not be written are visible",
        "src/columns/write.c",
        "for (; job->done < job->n && job->rows[job->done].written; job->done++) {",
        "for (; job->done < job->n; job->done++) {",
        ("c:columns/put",),
    ),
    Mutation(
        "a new part of the index is named before it is on disk",
        "src/columns/index.c",
        "if ((rc = leat_columns_grow(c, is, 1, &segment, error)) || (!anew && (rc = leat_columns_keep(c, error))) ||",
        "if ((rc = leat_columns_grow(c, is, 1, &segment, error)) ||",
        ("c:columns/crash",),
    ),
    Mutation(
        "halves of the steps of int8 are cut and not rounded",
        "src/columns/record.c",
        "float x = rintf(by <= 3e38f ? from[i] * by : 0);",
        "float x = truncf(by <= 3e38f ? from[i] * by : 0);",
        ("py:test_store.py::test_formats_round_as_pytorch_does",),
    ),
]
