"""Faults of src/base: permutations, numbers in text, references of processes, errors."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "two letters that have changed places are two edits",
        "src/base/known.c",
        "row[k] = before[k - 2] + 1;",
        ";",
        ("py:test_cli_help.py::test_a_mistyped_word_is_answered_with_the_one_that_was_meant",),
    ),
    Mutation(
        "the last name that is near enough is meant, not the nearest",
        "src/base/known.c",
        "            best = apart;\n            found = i;",
        "            found = i;",
        ("py:test_chosen_fields.py::test_a_field_that_is_not_there_is_answered_with_the_one_that_is_meant",),
    ),
    Mutation(
        "of four numbers at once, one that is the size itself stays",
        "src/base/permute.c",
        "if (values[j] >= p.n)",
        "if (values[j] > p.n)",
        ("c:base/permute",),
    ),
    Mutation(
        "a decimal number of 17 to 19 digits is rounded twice",
        "src/base/number.c",
        "significant <= EXACT_DIGITS && mantissa <= UINT64_C(1) << 53 && power",
        "significant <= EXACT_DIGITS && power",
        ("c:format/json_text", "c:format/text_scan", "c:format/values"),
    ),
    Mutation(
        "a process that leaves keeps the rows that its first one went on in",
        "src/base/holders.c",
        "        return;\n    leat_holder_leave(further(row));\n    clear(row);",
        "        return;\n    clear(row);",
        ("c:base/holders",),
    ),
    Mutation(
        "halves are rounded up and not to even",
        "src/base/elementary.c",
        "if (rest > 0.5 || (rest == 0.5 && (down & 1)))",
        "if (rest >= 0.5)",
        ("c:op/draws",),
    ),
    Mutation(
        "boxes that reach out of their image are not counted where counts are joined",
        "src/base/boxes.c",
        "    to->cut += from->cut;\n",
        "",
        ("py:test_box_formats.py",),
    ),
    Mutation(
        "the rest of a password with an @ in it is shown",
        "src/base/error.c",
        "const char *at = memrchr(p, '@', host);",
        "const char *at = memchr(p, '@', host);",
        ("c:base/error",),
    ),
]
