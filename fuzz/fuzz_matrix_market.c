/* Lines of a Matrix Market file, whether of a pattern by the first byte: entries lie in the matrix; and the file in two
 * pieces of whole lines gives the same. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "leat/stored.h"

enum { ROWS = 70000, COLUMNS = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Entries from `first` on. */
static int lines_of(const char *text, size_t bytes, bool pattern, uint64_t first, const struct leat_matrix_lines *to,
                    uint64_t *line, uint64_t *n)
{
    struct leat_matrix_lines m = *to;
    m.pattern = pattern;
    m.line = *line;
    m.rows += first;
    m.columns += first;
    m.values += first;
    const int rc = leat_matrix_lines(&m, text, bytes, n, NULL);
    *line = m.line;
    if (*n > *line)
        abort();
    for (uint64_t k = 0; k < *n; k++)
        if (m.rows[k] < 0 || m.rows[k] >= ROWS || m.columns[k] < 0 || m.columns[k] >= COLUMNS ||
            (pattern && !(m.values[k] > 0)))
            abort();
    return rc;
}

static struct leat_matrix_lines room_for(size_t lines)
{
    return (struct leat_matrix_lines){.path = "fuzz",
                                      .n_rows = ROWS,
                                      .n_columns = COLUMNS,
                                      .rows = leat_new_array(lines, sizeof(int32_t)),
                                      .columns = leat_new_array(lines, sizeof(int32_t)),
                                      .values = leat_new_array(lines, sizeof(double))};
}

static void release(struct leat_matrix_lines *m)
{
    leat_free(m->rows);
    leat_free(m->columns);
    leat_free(m->values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const char *text = (const char *)data + 1;
    const size_t bytes = size - 1;
    const bool pattern = *data & 1;
    size_t lines = 1, half = bytes / 2;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    for (; half && text[half - 1] != '\n'; half--)
        ;
    struct leat_matrix_lines a = room_for(lines), b = room_for(lines);
    uint64_t n, first, second = 0, line = 1, again = 1;
    const int rc = lines_of(text, bytes, pattern, 0, &a, &line, &n);
    int twice = lines_of(text, half, pattern, 0, &b, &again, &first);
    if (!twice)
        twice = lines_of(text + half, bytes - half, pattern, first, &b, &again, &second);
    if (rc != twice || line != again || n != first + second || memcmp(a.rows, b.rows, n * sizeof *a.rows) != 0 ||
        memcmp(a.columns, b.columns, n * sizeof *a.columns) != 0 ||
        memcmp(a.values, b.values, n * sizeof *a.values) != 0)
        abort();
    release(&a);
    release(&b);
    return 0;
}
