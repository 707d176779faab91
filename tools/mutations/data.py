"""Faults of src/data: views, joined and zipped data sets, clauses."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "borders of a split are rounded down",
        "src/data/selection.c",
        "double border = floor(sum * (double)count + 0.5);",
        "double border = floor(sum * (double)count);",
        ("c:data/views",),
    ),
    Mutation(
        "any list of the right length is taken for that of a run",
        "src/data/view.c",
        "if (n != length || strcmp(hash, wanted) != 0)",
        "if (n != length)",
        ("py:test_cli_replay.py::test_a_long_selection_is_given_beside_the_state",),
    ),
    Mutation(
        "the last character of a range is not in it",
        "src/data/query_like.c",
        "seen |= c >= before && c <= c2;",
        "seen |= c >= before && c < c2;",
        ("c:data/query_like",),
    ),
    Mutation(
        "views that are joined get ids of each other",
        "src/data/join.c",
        "i * base->count);",
        "i * datasets[i]->count);",
        ("c:data/views",),
    ),
    Mutation(
        "a shorter data set is zipped with a longer one",
        "src/data/zip.c",
        "if (part->count == first->count)",
        "if (part->count <= first->count)",
        ("py:test_made.py::test_what_cannot_be_zipped_says_why",),
    ),
    Mutation(
        "runs that overlap are taken for ascending ones",
        "src/data/selection.c",
        "s->runs[i - 1].begin + (s->runs[i].at - s->runs[i - 1].at);",
        "s->runs[i - 1].begin;",
        ("c:data/views",),
    ),
    Mutation(
        "ranges that have one value in common have none",
        "src/data/query_ranges.c",
        "            if (low <= high)\n",
        "            if (low < high)\n",
        ("c:data/query_ranges",),
    ),
    Mutation(
        "a zipped sample gets the id of the one behind it",
        "src/data/read.c",
        "    ref->id = id;\n",
        "    ref->id = ref->id < 0 ? id : ref->id;\n",
        ("c:data/views", "c:data/windows"),
    ),
    Mutation(
        "the last window of a record is moved too little",
        "src/data/windows.c",
        "        begin = n - w->length;\n",
        "        begin = n - w->length - 1;\n",
        ("c:data/windows",),
    ),
    Mutation(
        "a window that would begin behind its record is counted",
        "src/data/windows.c",
        "w->stride < n - steps * w->stride",
        "w->stride <= n - steps * w->stride",
        ("c:data/windows",),
    ),
    Mutation(
        "the bytes behind a part of a value are not read to verify it",
        "src/data/read.c",
        "        e->after = e->length - begin - length;\n    }\n    e->offset",
        "        e->after = 0;\n    }\n    e->offset",
        ("py:test_windows.py",),
    ),
    Mutation(
        "the function that notes truths is taken in a clause, too",
        "src/data/query_sql.c",
        "(!strcmp(b, TRUTH) && !s->truths++)",
        "!strcmp(b, TRUTH)",
        ("c:data/query",),
    ),
    Mutation(
        "upper is that of the build of SQLite",
        "src/data/query_sql.c",
        '(s->db, "upper", 1,',
        '(s->db, "up", 1,',
        ("c:data/query",),
    ),
    Mutation(
        "rows for which a clause is unknown are taken for those where it is false",
        "src/data/query_sql.c",
        "        return LEAT_UNKNOWN;\n    case SQLITE_INTEGER:",
        "        return LEAT_FALSE;\n    case SQLITE_INTEGER:",
        ("c:data/query_leaf",),
    ),
]
