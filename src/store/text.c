/*
 * Checks text without parsing it into anything: no allocation, no recursion. JSON is checked by an automaton whose
 * stack has one bit per level (object or array).
 */
#include "store/text.h"

#include <stdint.h>
#include <string.h>

#include "format/json_text.h"

enum { MAX_DEPTH = 512 };

struct walk {
    const char *p;
    size_t n, i;
};

static void skip_space(struct walk *w)
{
    while (w->i < w->n && (w->p[w->i] == ' ' || w->p[w->i] == '\t' || w->p[w->i] == '\n' || w->p[w->i] == '\r'))
        w->i++;
}

static bool is_digit(const struct walk *w)
{
    return w->i < w->n && w->p[w->i] >= '0' && w->p[w->i] <= '9';
}

static bool digits(struct walk *w)
{
    if (!is_digit(w))
        return false;
    while (is_digit(w))
        w->i++;
    return true;
}

static bool one_of(struct walk *w, const char *set)
{
    bool found = w->i < w->n && w->p[w->i] && strchr(set, w->p[w->i]);
    w->i += found;
    return found;
}

static bool number(struct walk *w)
{
    one_of(w, "-");
    if (!one_of(w, "0") && !digits(w))
        return false;
    if (one_of(w, ".") && !digits(w))
        return false;
    if (one_of(w, "eE")) {
        one_of(w, "+-");
        return digits(w);
    }
    return true;
}

static bool string(struct walk *w)
{
    if (!one_of(w, "\""))
        return false;
    while (w->i < w->n) {
        char c = w->p[w->i];
        if (c == '"') {
            w->i++;
            return true;
        }
        if ((unsigned char)c < 0x20)
            return false;
        w->i++;
        if (c != '\\')
            continue;
        if (one_of(w, "u")) {
            for (int k = 0; k < 4; k++)
                if (!one_of(w, "0123456789abcdefABCDEF"))
                    return false;
        } else if (!one_of(w, "\"\\/bfnrt")) {
            return false;
        }
    }
    return false;
}

static bool word(struct walk *w, const char *text)
{
    size_t k = strlen(text);
    if (w->n - w->i < k || memcmp(w->p + w->i, text, k))
        return false;
    w->i += k;
    return true;
}

static bool scalar(struct walk *w)
{
    if (w->i < w->n && w->p[w->i] == '"')
        return string(w);
    return word(w, "true") || word(w, "false") || word(w, "null") || number(w);
}

static bool member_name(struct walk *w)
{
    skip_space(w);
    if (!string(w))
        return false;
    skip_space(w);
    return one_of(w, ":");
}

static bool document(struct walk *w)
{
    uint8_t is_object[MAX_DEPTH];
    unsigned depth = 0;
    for (;;) {
        skip_space(w);
        bool object = one_of(w, "{"), array = !object && one_of(w, "[");
        if (object || array) { /* a value begins */
            if (depth == MAX_DEPTH)
                return false;
            is_object[depth++] = object;
            skip_space(w);
            if (!one_of(w, object ? "}" : "]")) {
                if (object && !member_name(w))
                    return false;
                continue;
            }
            depth--;
        } else if (!scalar(w)) {
            return false;
        }
        for (;;) { /* a value has ended */
            skip_space(w);
            if (!depth)
                return w->i == w->n;
            if (one_of(w, ",")) {
                if (is_object[depth - 1] && !member_name(w))
                    return false;
                break;
            }
            if (!one_of(w, is_object[depth - 1] ? "}" : "]"))
                return false;
            depth--;
        }
    }
}

size_t leat_json_check(const void *text, size_t n)
{
    size_t bad = leat_utf8_check(text, n);
    struct walk w = {text, n, 0};
    if (bad == n && document(&w))
        return n;
    if (bad < n)
        return bad;
    return w.i < n ? w.i : n ? n - 1 : 0;
}

bool leat_text_fits(enum leat_kind kind, const void *text, size_t n, size_t *bad)
{
    *bad = kind == LEAT_KIND_STR ? leat_utf8_check(text, n) : kind == LEAT_KIND_JSON ? leat_json_check(text, n) : n;
    return *bad == n && (n || kind != LEAT_KIND_JSON);
}
