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
        "the index is copied among the data, and not before",
        "src/columns/copy.c",
        "           kind == SEGMENT_INDEX;",
        "           kind == SEGMENT_TABLE;",
        ("c:columns/copy",),
    ),
    Mutation(
        "slots become free while a file is copied",
        "src/columns/copy.c",
        "        rc = copy_all(copy, error);\n        leat_columns_grow_end(copy->c);",
        "        leat_columns_flush_end(copy->c);\n        rc = copy_all(copy, error);\n"
        "        leat_columns_flush_begin(copy->c, false, NULL);\n        leat_columns_grow_end(copy->c);",
        ("c:columns/copy",),
    ),
    Mutation(
        "a copy is published before it is on disk",
        "src/columns/copy.c",
        "if (!rc && leat_call_sync(copy->fd))",
        "if (!rc && copy->n == 0)",
        ("c:columns/copy",),
    ),
    Mutation(
        "halves of the steps of int8 are cut and not rounded",
        "src/columns/record.c",
        "float x = rintf(by <= 3e38f ? from[i] * by : 0);",
        "float x = truncf(by <= 3e38f ? from[i] * by : 0);",
        ("py:test_store.py::test_formats_round_as_pytorch_does",),
    ),
    Mutation(
        "a slot is free although a durable word on disk names it",
        "src/columns/slots.c",
        "        return !points_at(atomic_load(&place.entry->live), offset) &&\n"
        "               !points_at(atomic_load(&place.entry->durable), offset);",
        "        return !points_at(atomic_load(&place.entry->live), offset);",
        ("c:columns/columns",),
    ),
    Mutation(
        "a header with a wrong checksum is believed",
        "src/columns/header.c",
        "if (leat_get_u64(bytes + 16) != leat_hash64(bytes + CHECKED, HEADER_BYTES - CHECKED))",
        "if (!leat_get_u64(bytes + 16))",
        ("c:columns/faults",),
    ),
    Mutation(
        "columns of a sparse row are whatever a store's file says",
        "src/columns/record.c",
        "if (field->columns && at <= length && !leat_sparse_rises(",
        "if (field->columns && at < 0 && !leat_sparse_rises(",
        ("c:columns/columns",),
    ),
    Mutation(
        "a store is published before its header is on disk",
        "src/columns/file.c",
        "HEADER_BYTES + sizeof(struct shared)) || leat_call_sync(fd) ||",
        "HEADER_BYTES + sizeof(struct shared)) ||",
        ("c:columns/crash",),
    ),
    Mutation(
        "bytes that a loss of power left behind the end become a part of new segments",
        "src/columns/file.c",
        "if ((uint64_t)st.st_size > before << SEGMENT_SHIFT && leat_call_cut(c->fd, before << SEGMENT_SHIFT))",
        "if ((uint64_t)st.st_size > before << WINDOW_SHIFT && leat_call_cut(c->fd, before << SEGMENT_SHIFT))",
        ("c:columns/crash",),
    ),
    Mutation(
        "a row whose live record is not its own is listed by what stands there",
        "src/columns/list.c",
        "return header.stamp << PLACE_BITS == (w & ~PLACE_MASK);",
        "return header.stamp != 0;",
        ("c:columns/crash",),
    ),
    Mutation(
        "a flush after one that failed does not write again what that one lost",
        "src/columns/flush.c",
        "if (!rc && atomic_load(&c->unsynced))",
        "if (!rc && atomic_load(&c->unsynced) && !noted->n)",
        ("c:columns/faults",),
    ),
]
