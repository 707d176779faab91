"""Faults of src/io: files, servers, compressed files, the cache of blocks, mappings."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "a gzip file that was changed under its index is decoded without a word",
        "src/io/gzip.c",
        "if (rc || leat_hash64(to, (size_t)bytes) == p->hash)",
        "if (rc || bytes)",
        ("c:io/gzip",),
    ),
    Mutation(
        "bytes behind the end of a gzip file are passed over",
        "src/io/gzip.c",
        "            if (z->next_in[i])\n",
        "            if (z->next_in[i] == 0x1f)\n",
        ("c:io/gzip",),
    ),
    Mutation(
        "a block is evicted while bytes are copied from it",
        "src/io/blocks.c",
        "        previous = e->previous;\n        if (!e->pins)\n            drop(e);",
        "        previous = e->previous;\n        if (e->data)\n            drop(e);",
        ("c:io/blocks",),
    ),
    Mutation(
        "room that was promised to a file stays taken after it is closed",
        "src/io/blocks.c",
        "    cache.held -= f->held ? file->size : 0;\n",
        "",
        ("c:io/blocks",),
    ),
    Mutation(
        "a fault that is not of leat does not reach the handler that was there before",
        "src/io/guard.c",
        "kept[chaining ? 0 : place_of(n - 1)];",
        "kept[chaining ? 0 : place_of(n)];",
        ("c:io/guard",),
    ),
    Mutation(
        "after the last read of the queue is cancelled, new ones are queued behind it",
        "src/io/helpers.c",
        "        if (!(*p = e->next))\n            helpers.queue_end = p;\n",
        "        *p = e->next;\n",
        ("c:io/helpers",),
    ),
    Mutation(
        "a file of a folder that was rewritten at the same length is read as the one that was listed",
        "src/io/listed.c",
        "else if (!rc && ((*opened)->size != f->size || (*opened)->mtime_ns != f->mtime_ns)) {",
        "else if (!rc && (*opened)->size != f->size) {",
        ("c:format/folder", "c:data/folder_and_pack"),
    ),
    Mutation(
        "an object that has another ETag is read as the one that was opened",
        "src/io/http.c",
        "return (*f->etag && *a->etag && strcmp(f->etag, a->etag)) ||\n           (*f->modified",
        "return (*f->modified",
        ("py:test_http.py::test_an_object_that_was_replaced_is_changed_and_never_mixed",),
    ),
    Mutation(
        "a read that was cut short goes on at its begin",
        "src/io/local.c",
        "(off_t)(r->offset + done));\n        if (n > 0) {",
        "(off_t)r->offset);\n        if (n > 0) {",
        ("c:io/file",),
    ),
    Mutation(
        "a read that fails on a disk is tried again without a pause that grows",
        "src/io/file.c",
        "const uint64_t ms = (uint64_t)retry_after_ms << (tries - 1);",
        "const uint64_t ms = (uint64_t)retry_after_ms >> (tries - 1);",
        ("c:io/file",),
    ),
    Mutation(
        "a block of one repeated byte is passed as if it were as long as what it gives",
        "src/io/zstd.c",
        "*at += 3 + ((block >> 1 & 3) == 1 ? 1 : (uint64_t)(block >> 3));",
        "*at += 3 + (uint64_t)(block >> 3);",
        ("py:test_text.py::test_blocks_of_zstd_that_repeat_one_byte_are_read",),
    ),
    Mutation(
        "the checksum behind a frame of zstd is taken for the next frame",
        "src/io/zstd.c",
        "    *at += d & 4 ? 4 : 0;\n",
        "",
        ("py:test_text.py::test_frames_with_checksums_as_the_zstd_command_writes_them_are_read",),
    ),
    Mutation(
        "frames of zstd are listed where the next ones begin among the decoded bytes",
        "src/io/zstd.c",
        "        frames[i].out = s.total;\n        rc = scan_part(&s, file, frames[i].in, frames[i + 1].in, error);\n",
        "        rc = scan_part(&s, file, frames[i].in, frames[i + 1].in, error);\n        frames[i].out = s.total;\n",
        ("py:test_text.py::test_a_zst_of_many_frames_is_read_in_place",),
    ),
    Mutation(
        "a range from another place of the file is taken for the one that was asked for",
        "src/io/http.c",
        "(!a->ranged || a->first != r->offset || a->last - a->first != r->length - 1)",
        "(!a->ranged || a->last - a->first != r->length - 1)",
        ("py:test_http.py::test_another_range_than_was_asked_for_is_refused",),
    ),
]
