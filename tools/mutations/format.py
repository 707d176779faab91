"""Faults of src/format: folders, lists of annotations, texts and other formats that are read in place."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "a link to a folder itself is one of its classes",
        "src/format/listing.c",
        "fstat(inner, &st) || (st.st_dev == s->root_device && st.st_ino == s->root_inode))) {",
        "fstat(inner, &st))) {",
        ("c:format/folder",),
    ),
    Mutation(
        "bytes behind the last sample of an IDX file are passed over",
        "src/format/idx.c",
        "if (x->total <= most && (x->gzip || x->total == size))",
        "if (x->total <= most)",
        ("c:format/idx",),
    ),
    Mutation(
        "a line that begins where a chunk does is lost",
        "src/format/text_scan.c",
        "p->at = first ? first - 1 : 0;",
        "p->at = first;",
        ("c:format/text_scan",),
    ),
    Mutation(
        "a damaged column of an index is taken",
        "src/format/text_index_file.c",
        "    if (rc || h.hash == p->hash)\n",
        "    if (rc || p->hash)\n",
        ("py:test_jsonl.py::test_a_damaged_index_is_made_again",),
    ),
    Mutation(
        "coordinates in pixels are taken for shares of the image",
        "src/format/yolo.c",
        "if (!(v[i] >= -0.01 && v[i] <= 1.01))",
        "if (!(v[i] >= -0.01))",
        ("py:test_sidecars.py::test_a_line_of_yolo_that_is_wrong_is_counted_and_named",),
    ),
    Mutation(
        "a quote behind a backslash ends its text",
        "src/format/json_text.c",
        "            i += c == '\\\\';\n",
        "",
        ("py:test_coco.py::test_the_layout_of_the_text_does_not_matter",),
    ),
    Mutation(
        "the fingerprint of a folder has no lengths",
        "src/format/fingerprint.c",
        "    leat_fingerprint_value(sample, length);\n",
        "    (void)length;\n",
        ("c:format/fingerprint",),
    ),
    Mutation(
        "masks behind a photo without one go with other photos",
        "src/format/masks.c",
        "            files[n] = masks->files[mask];\n",
        "            files[i] = masks->files[mask];\n",
        ("py:test_semantic.py::test_photos_without_a_mask_and_masks_without_a_photo_are_counted_and_named",),
    ),
    Mutation(
        "a file of annotations that cannot be opened is one without objects",
        "src/format/sidecars.c",
        "return rc == LEAT_E_NOT_FOUND ? LEAT_OK : rc;",
        "return LEAT_OK;",
        ("py:test_sidecars.py::test_a_file_that_cannot_be_opened_is_an_error_and_not_no_objects",),
    ),
    Mutation(
        "an area that is no number is one that is missing",
        "src/format/coco_values.c",
        "        return NO_AREA;\n",
        "        return GOOD;\n",
        ("py:test_annotation_values.py::test_drawn_values_are_those_of_the_file_or_are_counted",),
    ),
    Mutation(
        "a flag of VOC that is neither 0 nor 1 is 0 without a word",
        "src/format/voc.c",
        "    if (number != 0 && number != 1)\n",
        "    if (0)\n",
        ("py:test_annotation_values.py::test_drawn_flags_of_voc_are_those_of_the_file_or_are_counted",),
    ),
    Mutation(
        "the EXIF at the end of a long file is not looked for",
        "src/format/photo_sizes.c",
        "        if (file->size <= LONGEST)\n",
        "        if (0)\n",
        ("py:test_photo_sizes.py::test_a_header_at_the_end_of_a_long_file_is_found",),
    ),
    Mutation(
        "instances whose mask is a fault are counted as those without one, too",
        "src/format/coco.c",
        "    if (!one->shape_bytes && !one->maskless)\n",
        "    if (!one->shape_bytes)\n",
        ("py:test_annotation_values.py::test_drawn_values_are_those_of_the_file_or_are_counted",),
    ),
]
