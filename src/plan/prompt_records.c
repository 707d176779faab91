/*
 * Where the records of a file of prompts end: lines of JSON, or of CSV, whose records may have lines within quotes.
 *
 * Quotes of CSV need no more than a count: a quote within a quoted value is written twice, so a line end is within a
 * value if an odd number of quotes stands before it.
 */
#include <string.h>

#include "leat/prompts.h"

uint64_t leat_prompts_records(const void *bytes, uint64_t n, bool csv, bool *quoted, uint64_t *ends)
{
    const uint8_t *at = bytes, *end = at + n, *begin = at;
    uint64_t count = 0;
    while (at < end) {
        const uint8_t *line = memchr(at, '\n', (size_t)(end - at)), *stop = line ? line : end;
        for (const uint8_t *q = at; csv && (q = memchr(q, '"', (size_t)(stop - q))); q++)
            *quoted = !*quoted;
        if (line && !(csv && *quoted))
            ends[count++] = (uint64_t)(line + 1 - begin);
        at = line ? line + 1 : end;
    }
    return count;
}
