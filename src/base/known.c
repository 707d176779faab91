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
    unsigned rows[3][NAME_MAX + 1]; /* of the present letter of `a`, the one before, and the one before that */
    if (n > NAME_MAX || m > NAME_MAX || (n > m ? n - m : m - n) > most)
        return most + 1;
    for (size_t k = 0; k <= m; k++)
        rows[0][k] = (unsigned)k;
    for (size_t i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t k = 1; k <= m; k++) {
            const int here = tolower((unsigned char)a[i - 1]), there = tolower((unsigned char)b[k - 1]);
            const unsigned same = above[k - 1] + (here != there),
                           less = (row[k - 1] < above[k] ? row[k - 1] : above[k]) + 1;
            row[k] = same < less ? same : less;
            if (i > 1 && k > 1 && here == tolower((unsigned char)b[k - 2]) &&
                there == tolower((unsigned char)a[i - 2]) && before[k - 2] + 1 < row[k])
                row[k] = before[k - 2] + 1;
        }
    }
    return rows[n % 3][m] <= most ? rows[n % 3][m] : most + 1;
}

/* Whether a name has the word in it, from where a part of the name begins: `threads` of `num-threads`, `HorizontalFlip`
 * of `RandomHorizontalFlip`. */
static bool is_part(const char *word, const char *name)
{
    for (const char *at = name; (at = strcasestr(at, word)); at++)
        if (at == name || !isalnum((unsigned char)at[-1]) ||
            (isupper((unsigned char)*at) && islower((unsigned char)at[-1])))
            return true;
    return false;
}

size_t leat_known_near(const struct leat_known *names, const char *name)
{
    const size_t n = strlen(name);
    size_t found = names->n;
    unsigned best = (unsigned)(n + 1) / 3 + 1;
    for (size_t i = 0; i < names->n && best; i++) {
        const char *other = names->at(names->of, i);
        const unsigned apart = leat_known_edits(name, n, other, strlen(other), best - 1);
        if (*other && apart < best) {
            best = apart;
            found = i;
        }
    }
    for (size_t i = 0; found == names->n && n >= 3 && i < names->n; i++)
        if (is_part(name, names->at(names->of, i)))
            return i;
    return found;
}

static const char *listed_at(const void *of, size_t i)
{
    return ((const char *const *)of)[i];
}

const char *leat_nearest(const char *word, const char *const *names, size_t n)
{
    const struct leat_known known = {listed_at, names, n};
    const size_t near = leat_known_near(&known, word);
    return near < n ? names[near] : NULL;
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
