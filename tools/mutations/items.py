"""Faults of the formats that are folders of items: MDS, LitData."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "a shard may lie above its folder",
        "src/format/items.c",
        "        if (!strncmp(p, \"..\", 2) && (!p[2] || p[2] == '/'))\n            return false;\n",
        "",
        ("py:test_mds.py::test_a_folder_that_lies_is_an_error",),
    ),
    Mutation(
        "hashes of files are computed and not compared",
        "src/format/items_index.c",
        "if (digests[i] && !rc && strcmp(text, f->hashes[i].text) != 0)",
        "if (digests[i] && !rc && !text[0])",
        ("c:format/items", "py:test_mds.py"),
    ),
    Mutation(
        "leat verify ends with the first shard that is damaged",
        "src/format/their_file.c",
        "if (leat_source_is_fault(rc))",
        "if (leat_source_is_fault(rc) && !faults)",
        ("py:test_mds.py::test_verify_names_every_damaged_shard",),
    ),
    Mutation(
        "leat verify takes frames of zstd for ones with checksums",
        "src/io/zstd.c",
        "*(w->summed ? summed : unsummed) = true;",
        "*summed = true;",
        (
            "py:test_tar.py::test_verify_says_whether_frames_of_zstd_have_checksums",
            "py:test_litdata.py::test_verify_needs_no_block_and_says_whether_frames_have_checksums",
        ),
    ),
    Mutation(
        "a compressed file that does not stay open is never looked at again",
        "src/format/their_file.c",
        ": check_path(f, error);\n",
        ": LEAT_OK;\n",
        ("py:test_mds.py::test_a_compressed_shard_that_does_not_stay_open_and_changes_is_noticed",),
    ),
    Mutation(
        "a file that stays open is never looked at again",
        "src/io/file.c",
        "now.size == file->size && now.mtime_ns == file->mtime_ns",
        "now.size == file->size",
        (
            "py:test_tfrecord.py::test_a_file_that_stays_open_is_looked_at_before_it_is_read",
            "py:test_tar.py::test_a_tar_that_is_cut_or_changed_is_an_error",
        ),
    ),
    Mutation(
        "files stay open without a bound",
        "src/io/handles.c",
        "        if (n >= most)\n            return false;\n",
        "        if (!most)\n            return false;\n",
        ("py:test_tar.py::test_tars_stay_open_as_far_as_the_process_has_room",),
    ),
    Mutation(
        "samples may overlap",
        "src/format/items_index.c",
        "if (m->offsets[i] < before || m->offsets[i] > most)",
        "if (m->offsets[i] > most)",
        ("py:test_mds.py::test_a_folder_that_lies_is_an_error",),
    ),
    Mutation(
        "an array of another shape is delivered as one of its field",
        "src/format/items_index.c",
        "if (m->numbers[i * m->n_headed + headed] != best)",
        "if (m->numbers[i * m->n_headed + headed] == UINT16_MAX)",
        ("py:test_mds.py::test_an_array_of_another_shape_breaks_its_sample_only",),
    ),
    Mutation(
        "an index is taken after a shard has changed",
        "src/format/items_index.c",
        "if (k->size != t->files[i].is.size || k->mtime_ns != t->files[i].is.mtime_ns || k->frame > x->n_frames ||",
        "if (k->frame > x->n_frames ||",
        ("py:test_mds.py::test_the_index_is_kept_and_made_anew_when_a_shard_changes",),
    ),
    Mutation(
        "a sample may claim to decode to any size",
        "src/format/items_index.c",
        "|| bytes > LEAT_ITEMS_DECODED))",
        "|| false))",
        ("py:test_litdata.py::test_frames_that_claim_too_much_are_refused",),
    ),
    Mutation(
        "the size of a leaf of fixed size is not compared",
        "src/format/items_index.c",
        "if ((c->fixed && length != c->fixed) || length > end - bodies - used)",
        "if (length > end - bodies - used)",
        ("py:test_litdata.py::test_a_folder_that_lies_is_an_error",),
    ),
    Mutation(
        "rows of tokens go beyond their chunk",
        "src/format/litdata.c",
        "f->samples = tokens / r->block;",
        "f->samples = tokens / r->block + 1;",
        ("py:test_litdata.py::test_tokens_are_rows_of_a_block",),
    ),
]
