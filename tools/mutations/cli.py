"""Faults of cli: the command."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "an index beside a file fits a pattern with a star",
        "src/io/paths.c",
        "rc = leat_path_is_ours(found.gl_pathv[i]) ? LEAT_OK : push(",
        "rc = push(",
        ("py:test_cli_patterns.py",),
    ),
    Mutation(
        "a command that is ended leaves Python and its copy",
        "cli/tables.c",
        "    if (python > 0)\n        kill(python, SIGTERM);\n",
        "    _exit(CLI_EXIT_FAILED);\n",
        ("py:test_cli_tables.py::test_a_command_that_is_ended_ends_python_and_leaves_no_copy",),
    ),
    Mutation(
        "an output in a folder that is read is written",
        "cli/args.c",
        "out->at[i][n] == '/');",
        "!out->at[i][n]);",
        ("py:test_cli_read.py::test_no_output_replaces_what_a_pattern_or_a_folder_stands_for",),
    ),
    Mutation(
        "a shard of a manifest that is read is written",
        "cli/args.c",
        "    free(manifest);\n    return n == 1;",
        "    free(manifest);\n    return n > 2;",
        ("py:test_cli_read.py::test_no_value_replaces_a_shard_of_the_manifest_that_it_is_read_of",),
    ),
    Mutation(
        "a size that does not fit into 64 bits is another one",
        "cli/args.c",
        "if (!*end && number <= (UINT64_MAX >> 1) >> shift) {",
        "if (!*end) {",
        ("py:test_cli_help.py::test_a_wrong_size_is_answered_with_what_would_be_right",),
    ),
    Mutation(
        "an output that cannot be written is no failure",
        "cli/cat.c",
        "if (good && !rest)",
        "if (good || !rest)",
        ("py:test_cli_read.py::test_output_that_cannot_be_written_is_a_failure_that_is_told_once",),
    ),
    Mutation(
        "the first token beyond the vocabulary passes",
        "cli/verify.c",
        "if (token < vocabulary)",
        "if (token <= vocabulary)",
        ("py:test_cli_tokens.py::test_verify_finds_tokens_beyond_the_vocabulary",),
    ),
    Mutation(
        "arrays with gaps between their rows are written with these",
        "cli/array_file.c",
        "        index -= at[d] * array->strides[d];\n",
        "        index -= array->shape[d];\n",
        ("c:cli/replay",),
    ),
    Mutation(
        "quantiles are those of the number before",
        "cli/stats/numbers.c",
        "(size_t)(part * (double)(numbers->n - 1) + 0.5)",
        "(size_t)(part * (double)(numbers->n - 1))",
        ("py:test_cli_stats.py::test_each_distribution_has_the_quantiles_of_its_numbers",),
    ),
    Mutation(
        "an output named batch is overwritten by what is said of the batch",
        "cli/replay.c",
        'bool taken = may_meet(name, "batch");',
        "bool taken = false;",
        ("c:cli/replay", "py:test_cli_replay.py::test_no_output_is_written_over_another"),
    ),
    Mutation(
        "an output is written over one of a name that becomes the same",
        "cli/replay.c",
        "taken |= may_meet(name, replay->names[i]);",
        "taken |= false;",
        ("py:test_cli_replay.py::test_no_output_is_written_over_another",),
    ),
    Mutation(
        "a value that is stored decoded is written as bytes",
        "cli/cat.c",
        "(field->kind != LEAT_KIND_ARRAY && !value->decoded)",
        "field->kind != LEAT_KIND_ARRAY",
        ("c:cli/signals",),
    ),
    Mutation(
        "an event of a node with itself is pending by itself",
        "cli/stats/events.c",
        "        found += (uint64_t)(*src == *stamp) + (uint64_t)(*dst == *stamp);\n        *src = *dst = *stamp;\n",
        "        found += *src == *stamp;\n        *src = *stamp;\n        found += *dst == *stamp;\n"
        "        *dst = *stamp;\n",
        ("py:test_cli_events.py",),
    ),
]
