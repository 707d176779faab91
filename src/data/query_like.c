/*
 * LIKE and GLOB. SQLite's own go back at each wildcard, which takes time exponential in the number of them, and cannot
 * be stopped. As each element of a pattern matches one character, it is enough to go back to the last wildcard: at most
 * length of text times length of pattern steps, with a look now and then at whether to stop.
 *
 * The results are SQLite's: LIKE ignores case in ASCII only, both work on characters of UTF-8, and a NUL ends a text.
 */
#include "data/query_like.h"

#include <string.h>

#define MOST_PATTERN 50000 /* bytes: SQLite's default */
#define STEPS_BETWEEN_LOOKS 100000

struct style {
    uint32_t all, one, escape, set; /* wildcards; 0: there is none of this kind */
    bool fold;
};

static uint32_t next(const uint8_t **at)
{
    const uint8_t *z = *at;
    uint32_t c = *z++;
    if (c >= 0xc0) {
        c = c < 0xe0   ? c & 0x1f
            : c < 0xf0 ? c & 0x0f
            : c < 0xf8 ? c & 0x07
            : c < 0xfc ? c & 0x03
            : c < 0xfe ? c & 1
                       : 0;
        while ((*z & 0xc0) == 0x80)
            c = (c << 6) + (*z++ & 0x3f);
        if (c < 0x80 || (c & 0xfffff800) == 0xd800 || (c & 0xfffffffe) == 0xfffe)
            c = 0xfffd;
    }
    *at = z;
    return c;
}

static uint32_t lower(uint32_t c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* The end of the '[' of a set. Moves *at behind its ']'; false as well if it has none. */
static bool in_set(const uint8_t **at, uint32_t c)
{
    uint32_t before = 0, c2 = next(at);
    bool seen = false, invert = false;
    if (c2 == '^') {
        invert = true;
        c2 = next(at);
    }
    if (c2 == ']') {
        seen = c == ']';
        c2 = next(at);
    }
    while (c2 && c2 != ']') {
        if (c2 == '-' && **at != ']' && **at != 0 && before > 0) {
            c2 = next(at);
            seen |= c >= before && c <= c2;
            before = 0;
        } else {
            seen |= c == c2;
            before = c2;
        }
        c2 = next(at);
    }
    return c2 && seen != invert;
}

/* Whether the element at *at, no wildcard of many, matches `c`. Moves *at behind it if it does. */
static bool element(const struct style *s, const uint8_t **at, uint32_t c)
{
    uint32_t p = next(at);
    if (p && p == s->set)
        return in_set(at, c);
    if (p && p == s->escape) {
        p = next(at);
        if (!p)
            return false;
    } else if (p && p == s->one) {
        return true;
    }
    return p == c || (s->fold && p < 0x80 && c < 0x80 && lower(p) == lower(c));
}

/* 1, 0, or -1: it is to stop. */
static int match(const struct style *s, const uint8_t *pattern, const uint8_t *text, const struct leat_query_look *look)
{
    const uint8_t *back_pattern = NULL, *back_text = NULL; /* behind the last wildcard; the next possible end */
    unsigned steps = 0;
    for (;;) {
        if (++steps >= STEPS_BETWEEN_LOOKS) {
            if (look->look(look->user))
                return -1;
            steps = 0;
        }
        const uint8_t *p = pattern, *t = text;
        if (*p && s->all && next(&p) == s->all) {
            back_pattern = pattern = p;
            back_text = text;
            if (!*pattern)
                return 1;
            continue;
        }
        if (!*text)
            return !*pattern;
        p = pattern;
        const uint32_t c = next(&t);
        if (*p && element(s, &p, c)) {
            pattern = p;
            text = t;
        } else if (back_pattern) {
            next(&back_text);
            text = back_text;
            pattern = back_pattern;
        } else {
            return 0;
        }
    }
}

static void run(sqlite3_context *context, int argc, sqlite3_value **argv, struct style style)
{
    const struct leat_query_look *look = sqlite3_user_data(context);
    if (sqlite3_value_bytes(argv[0]) > MOST_PATTERN) {
        sqlite3_result_error(context, "LIKE or GLOB pattern too complex", -1);
        return;
    }
    if (argc == 3) {
        const uint8_t *escape = sqlite3_value_text(argv[2]);
        if (!escape)
            return;
        const uint8_t *end = escape;
        style.escape = next(&end);
        if (!style.escape || *end) {
            sqlite3_result_error(context, "ESCAPE expression must be a single character", -1);
            return;
        }
        style.all = style.all == style.escape ? 0 : style.all;
        style.one = style.one == style.escape ? 0 : style.one;
    }
    const uint8_t *pattern = sqlite3_value_text(argv[0]), *text = sqlite3_value_text(argv[1]);
    if (!pattern || !text)
        return;
    const int found = match(&style, pattern, text, look);
    if (found < 0)
        sqlite3_result_error_code(context, SQLITE_INTERRUPT);
    else
        sqlite3_result_int(context, found);
}

static void like(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    run(context, argc, argv, (struct style){.all = '%', .one = '_', .fold = true});
}

static void glob(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    run(context, argc, argv, (struct style){.all = '*', .one = '?', .set = '['});
}

int leat_query_like_add(sqlite3 *db, struct leat_query_look *look)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int rc = sqlite3_create_function_v2(db, "like", 2, flags, look, like, NULL, NULL, NULL);
    if (!rc)
        rc = sqlite3_create_function_v2(db, "like", 3, flags, look, like, NULL, NULL, NULL);
    if (!rc)
        rc = sqlite3_create_function_v2(db, "glob", 2, flags, look, glob, NULL, NULL, NULL);
    return rc;
}
