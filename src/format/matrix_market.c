/* Entries of Matrix Market files (leat/stored.h). */
#include "leat/stored.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"

/* Of rows and columns, whose numbers from 0 on are int32. */
#define MOST (UINT64_C(1) << 31)

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static const char *skip(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

/* A number from 1 to `most`, and a blank or the end behind it; else NULL. */
static const char *place(const char *p, const char *end, uint64_t most, int32_t *out)
{
    uint64_t n = 0;
    const char *const begin = p;
    most = most < MOST ? most : MOST;
    for (; p < end && *p >= '0' && *p <= '9' && n <= most; p++)
        n = 10 * n + (uint64_t)(*p - '0');
    if (p == begin || n < 1 || n > most || (p < end && !is_blank(*p)))
        return NULL;
    *out = (int32_t)(n - 1);
    return skip(p, end);
}

static bool value(const char *p, const char *end, double *out)
{
    struct leat_number number;
    const size_t n = leat_number_read(p, (size_t)(end - p), LEAT_NUMBER_TEXT, &number);
    if (n)
        *out = number.value;
    return n && skip(p + n, end) == end;
}

int leat_matrix_lines(struct leat_matrix_lines *m, const char *text, size_t bytes, uint64_t *n,
                      struct leat_error *error)
{
    const char *p = text, *const end = text + bytes;
    uint64_t k = 0;
    for (*n = 0; p < end; m->line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p)), *const to = newline ? newline : end;
        const char *q = skip(p, to);
        const bool nothing = q == to || *p == '%';
        if (!nothing) {
            const char *column = place(q, to, m->n_rows, &m->rows[k]),
                       *rest = column ? place(column, to, m->n_columns, &m->columns[k]) : NULL;
            m->values[k] = 1;
            if (!rest || (m->pattern ? rest != to : !value(rest, to, &m->values[k])))
                return leat_fail_at(error, LEAT_E_CORRUPT, m->path, LEAT_NO_OFFSET,
                                    "%s, line %" PRIu64 ": \"%.*s\" is no entry: a row from 1 to %" PRIu64
                                    ", a column from 1 to %" PRIu64 "%s",
                                    m->path, m->line, (int)(to - p < 60 ? to - p : 60), p, m->n_rows, m->n_columns,
                                    m->pattern ? "" : ", a number");
            *n = ++k;
        }
        p = newline ? newline + 1 : end;
    }
    return LEAT_OK;
}
