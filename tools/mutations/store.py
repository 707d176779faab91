"""Faults of src/store: leat's own files."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "a writer finishes a file that lacks a group",
        "src/store/writer.c",
        "    if (!rc && w->status) {\n        rc = w->status;\n",
        "    if (!rc && w->status == LEAT_E_NOMEM) {\n        rc = w->status;\n",
        ("c:store/store_files",),
    ),
    Mutation(
        "a manifest may name files in other folders",
        "src/store/manifest.c",
        "return file && *file && !strchr(file, '/') && strcmp",
        "return file && *file && strcmp",
        ("c:store/store_files",),
    ),
    Mutation(
        "bytes between the columns and the directory of a group may be anything",
        "src/store/check.c",
        "    if (!is_zero(p, columns_end, shape->directory_at))\n",
        "    if (columns_end > shape->directory_at)\n",
        ("c:store/store_damage",),
    ),
    Mutation(
        "the codes of texts are taken without their checksum",
        "src/store/codes_read.c",
        "    if (leat_hash64(bytes, (size_t)x->length) == x->checksum &&\n        leat_store_codes_get(",
        "    if (leat_store_codes_get(",
        ("c:store/store_codes",),
    ),
    Mutation(
        "a value may reach beyond the payloads of its group",
        "src/store/layout.c",
        "return r->length <= room && r->info.rows_length <= room - r->length && ",
        "return r->info.rows_length <= room && ",
        ("c:store/store_damage",),
    ),
    Mutation(
        "a page of a column is marked as good before it was verified",
        "src/store/access.c",
        "        if (rc || checksum != expected) {\n",
        "        bit_set(&s->pages_good[field], number);\n        if (rc || checksum != expected) {\n",
        ("c:store/store_damage",),
    ),
    Mutation(
        "a file may say that it has more samples than its groups",
        "src/store/reader.c",
        " != s->sections_at || row != s->summary.count)",
        " != s->sections_at || row > s->summary.count)",
        ("c:store/store_damage",),
    ),
    Mutation(
        "a file gets its name before it is on disk",
        "src/store/part.c",
        "(off_t)part->bytes) || fsync(part->fd)) {",
        "(off_t)part->bytes)) {",
        ("c:store/store_crash",),
    ),
    Mutation(
        "a file that the disk did not take gets its name",
        "src/store/part.c",
        "(off_t)part->bytes) || fsync(part->fd)) {",
        "(off_t)part->bytes) || (fsync(part->fd) && false)) {",
        ("c:store/store_crash",),
    ),
    Mutation(
        "shards get their names before their manifest is on disk",
        "src/store/target.c",
        "if (!rc && fsync(t->main.fd)) {",
        "if (!rc && false) {",
        ("c:store/store_crash",),
    ),
    Mutation(
        "a manifest has its name before the names of its shards are on disk",
        "src/store/target.c",
        "rc = publish_shards(t, error);\n        if (!rc)\n",
        "rc = publish_shards(t, error);\n        if (false)\n",
        ("c:store/store_crash",),
    ),
    Mutation(
        "a file of the length of a shard is taken for it",
        "src/store/target.c",
        "== sizeof last &&\n                leat_get_u64(last) == shard->footer;",
        "== sizeof last;",
        ("c:store/store_crash",),
    ),
    Mutation(
        "a file that ends as a shard is taken for it",
        "src/store/target.c",
        "(uint64_t)st.st_size == shard->bytes && st.st_size >= LEAT_STORE_FOOTER",
        "st.st_size >= LEAT_STORE_FOOTER",
        ("c:store/store_crash",),
    ),
    Mutation(
        "the last page of a group's values is not verified",
        "src/store/check.c",
        "for (uint64_t page = 0; page < n; page++)",
        "for (uint64_t page = 0; page + 1 < n; page++)",
        ("c:store/store_pages",),
    ),
]
