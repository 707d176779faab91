/* Names that are not there: known.h. */
#include "base/known.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { LISTED = 200 }; /* bytes of the list in an error */

static const char *name_of_field(const void *of, size_t i)
{
    return ((const struct leat_field *)of)[i].name;
}

struct leat_known leat_known_fields(const struct leat_field *fields, size_t n)
{
    return (struct leat_known){name_of_field, fields, n};
}

static const char *text_at(const void *of, size_t i)
{
    return ((const char(*)[LEAT_FIELD_NAME])of)[i];
}

struct leat_known leat_known_texts(char (*texts)[LEAT_FIELD_NAME], size_t n)
{
    return (struct leat_known){text_at, texts, n};
}

unsigned leat_known_edits(const char *a, size_t n, const char *b, size_t m, unsigned most)
{
    unsigned row[NAME_MAX + 1];
    if (n > NAME_MAX || m > NAME_MAX || (n > m ? n - m : m - n) > most)
        return most + 1;
    for (size_t k = 0; k <= m; k++)
        row[k] = (unsigned)k;
    for (size_t i = 0; i < n; i++) {
        unsigned corner = row[0]++;
        for (size_t k = 0; k < m; k++) {
            const unsigned same = corner + (tolower((unsigned char)a[i]) != tolower((unsigned char)b[k])),
                           less = (row[k] < row[k + 1] ? row[k] : row[k + 1]) + 1;
            corner = row[k + 1];
            row[k + 1] = same < less ? same : less;
        }
    }
    return row[m] <= most ? row[m] : most + 1;
}

size_t leat_known_near(const struct leat_known *names, const char *name)
{
    const size_t n = strlen(name);
    size_t found = names->n;
    unsigned best = (unsigned)(n + 1) / 3 + 1;
    for (size_t i = 0; i < names->n; i++) {
        const char *other = names->at(names->of, i);
        const unsigned apart = leat_known_edits(name, n, other, strlen(other), best - 1);
        if (*other && apart < best) {
            best = apart;
            found = i;
        }
        if (!best)
            break;
    }
    return found;
}

int leat_fail_name(struct leat_error *error, int code, const struct leat_known *names, const char *name,
                   const char *format, ...)
{
    char list[LISTED + 2 * LEAT_FIELD_NAME] = "", text[sizeof error->message];
    size_t used = 0;
    va_list more;
    va_start(more, format);
    vsnprintf(text, sizeof text, format, more);
    va_end(more);
    for (size_t i = 0; i < names->n && used < sizeof list; i++)
        if (*names->at(names->of, i)) /* "": it cannot be a field */
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", names->at(names->of, i));
    leat_shorten(list, LISTED);
    leat_shorten(text, sizeof text - sizeof list - LEAT_FIELD_NAME - 40);
    const size_t near = leat_known_near(names, name);
    return near < names->n
               ? leat_fail(error, code, "%s: did you mean \"%s\"? It has %s", text, names->at(names->of, near), list)
               : leat_fail(error, code, "%s: it has %s", text, *list ? list : "none");
}
