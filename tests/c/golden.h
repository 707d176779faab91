/* tests/golden/plan-v1.txt: the hashes that hold the orders of plan version 1, read by the tests in C and in Python. */
#ifndef LEAT_TESTS_GOLDEN_H
#define LEAT_TESTS_GOLDEN_H

#include "test.h"

struct golden_line {
    char kind[16], name[24];
    uint64_t n, key, hash;
};

/* The next line of a kind; false at the end of the file, which is then closed. */
static inline bool golden_next(FILE *file, const char *kind, struct golden_line *out)
{
    char line[200];
    while (fgets(line, sizeof line, file)) {
        if (*line == '#')
            continue;
        assert_int_equal(sscanf(line, "%15s %23s %" SCNu64 " %" SCNu64 " %" SCNx64, out->kind, out->name, &out->n,
                                &out->key, &out->hash),
                         5);
        if (!strcmp(out->kind, kind))
            return true;
    }
    fclose(file);
    return false;
}

static inline FILE *golden_open(void)
{
    FILE *file = fopen(LEAT_GOLDEN "/plan-v1.txt", "r");
    assert_non_null(file);
    return file;
}

#endif
