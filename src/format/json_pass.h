/*
 * The walker itself: json_text.h. Each function takes where something begins and returns what is behind it; NULL: a
 * fault. All are in a header, so that the place stays in a register and values are never in memory: of records of short
 * values that is a sixth of the time. Strings are most of the bytes of others, so they are looked at 16 at a time.
 *
 * In a file, a value that the end of the buffer cuts is looked at again once more bytes are there:
 *
 *     | read before |  value that is cut |        ->       | value, and what follows |
 *     begin         p                  end                 begin, p
 */
#ifndef LEAT_FORMAT_JSON_PASS_H
#define LEAT_FORMAT_JSON_PASS_H

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/number.h"
#include "format/json_text.h"
#include "leat/leat.h"

typedef int8_t bytes16 __attribute__((vector_size(16)));
typedef uint64_t words2 __attribute__((vector_size(16)));

#define LEAT_JSON_LONGEST_NUMBER 1024 /* in a file */

static inline const uint8_t *none(struct leat_json *j, enum leat_json_fault fault, const uint8_t *at)
{
    leat_json_fail(j, fault, at);
    return NULL;
}

static inline const uint8_t *pass_space(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p <= ' ' && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    return p;
}

/* The next byte that is no white space, from p on; the end: there is none, or a fault. */
static inline const uint8_t *look(struct leat_json *j, const uint8_t *p)
{
    p = pass_space(p, j->end);
    return p < j->end ? p : leat_json_look_further(j);
}

/* ---- strings --------------------------------------------------------------------------------- */

/* The first byte from p on that is a quote, a backslash, a control character or, if `plain`, not ASCII; or `end`. */
LEAT_INLINE const uint8_t *pass_text(const uint8_t *p, const uint8_t *end, bool plain)
{
    while (end - p >= 16) {
        bytes16 v;
        memcpy(&v, p, sizeof v);
        /* Signed: below 32 are control characters and what is not ASCII. */
        const words2 found = (words2)((plain ? v < 32 : (v & (int8_t)0xe0) == 0) | (v == '"') | (v == '\\'));
        if (found[0])
            return p + __builtin_ctzll(found[0]) / 8;
        if (found[1])
            return p + 8 + __builtin_ctzll(found[1]) / 8;
        p += 16;
    }
    while (p < end && *p >= 32 && !(plain && *p >= 0x80) && *p != '"' && *p != '\\')
        p++;
    return p;
}

static inline int hex4(const uint8_t *p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        const uint8_t c = p[i], lower = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value << 4 | (c - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value << 4 | (lower - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* The character that an escape of the backslash and this one stands for; 0: it is none. */
static inline uint8_t short_escape(uint8_t c)
{
    static const uint8_t of[256] = {
        ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'};
    return of[c];
}

/* Bytes of the escape at p, 0: none; *code gets its character. */
static inline size_t escape(const uint8_t *p, const uint8_t *end, uint32_t *code, enum leat_json_fault *what)
{
    *what = LEAT_FAULT_ESCAPE;
    if (end - p < 2)
        return 0;
    if ((*code = short_escape(p[1])))
        return 2;
    const int high = p[1] == 'u' && end - p >= 6 ? hex4(p + 2) : -1;
    if (high < 0)
        return 0;
    *code = (uint32_t)high;
    if (high < 0xd800 || high >= 0xe000)
        return 6;
    *what = LEAT_FAULT_SURROGATE;
    const int low = high < 0xdc00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8) : -1;
    if (low < 0xdc00 || low >= 0xe000)
        return 0;
    *code = 0x10000 + (uint32_t)((high - 0xd800) << 10 | (low - 0xdc00));
    return 12;
}

/* Bytes of the character at p, which is not ASCII; 0: it is not UTF-8. */
static inline size_t utf8_bytes(const uint8_t *p, const uint8_t *end)
{
    const uint8_t c = *p;
    const size_t n = c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (!n || (size_t)(end - p) < n || (p[1] & 0xc0) != 0x80)
        return 0;
    if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] >= 0xa0) || (c == 0xf0 && p[1] < 0x90) ||
        (c == 0xf4 && p[1] >= 0x90))
        return 0;
    if ((n > 2 && (p[2] & 0xc0) != 0x80) || (n > 3 && (p[3] & 0xc0) != 0x80))
        return 0;
    return n;
}

/* Behind the string whose opening quote is at p; its text is [p + 1, returned - 1). NULL: a fault. */
static inline const uint8_t *pass_string(struct leat_json *j, const uint8_t *p, bool *escaped)
{
    const uint8_t *const end = j->end;
    enum leat_json_fault what;
    uint32_t code;
    size_t n;
    *escaped = false;
    for (p++;;) {
        p = j->is_utf8 ? pass_text(p, end, false) : pass_text(p, end, true);
        if (p == end)
            return none(j, LEAT_FAULT_END, p);
        if (*p == '"')
            return p + 1;
        if (*p == '\\') {
            *escaped = true;
            if (end - p >= 2 && short_escape(p[1])) { /* of most texts all: line breaks, quotes */
                p += 2;
                continue;
            }
            n = escape(p, end, &code, &what);
            n = !n && j->any_value && what == LEAT_FAULT_SURROGATE ? 6 : n;
            if (!n || (!code && j->file))
                return none(j, what, p);
            p += n;
        } else if (*p < 32) {
            return none(j, LEAT_FAULT_CONTROL, p);
        } else {
            for (; p < end && *p >= 0x80; p += n) /* characters that are not ASCII come together */
                if (!(n = utf8_bytes(p, end)))
                    return none(j, LEAT_FAULT_UTF8, p);
        }
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static inline const uint8_t *pass_word(struct leat_json *j, const uint8_t *p, const char *word)
{
    const size_t n = strlen(word);
    return (size_t)(j->end - p) >= n && !memcmp(p, word, n) ? p + n : none(j, LEAT_FAULT_WORD, p);
}

/* An integer beyond int64_t that uint64_t holds. */
static inline bool read_unsigned(const uint8_t *p, size_t n, uint64_t *out)
{
    uint64_t value = 0;
    if (n > 20)
        return false;
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9' || !leat_mul_u64(value, 10, &value) || !leat_add_u64(value, p[i] - '0', &value))
            return false;
    *out = value;
    return true;
}

static inline const uint8_t *pass_number(struct leat_json *j, const uint8_t *p, struct leat_json_value *v)
{
    struct leat_number found;
    const bool minus = *p == '-';
    const size_t n = leat_number_read((const char *)p, (size_t)(j->end - p), LEAT_NUMBER_JSON, &found);
    if (!n || (n >= LEAT_JSON_LONGEST_NUMBER && j->file))
        return none(j, n ? LEAT_FAULT_LONG_NUMBER : LEAT_FAULT_NUMBER, p);
    v->rounded = found.value;
    if (found.is_whole) {
        v->type = LEAT_JSON_INT;
        v->number.i = found.whole;
        return p + n;
    }
    v->type = LEAT_JSON_FLOAT;
    v->number.d = found.value;
    if (!memchr(p, '.', n) && !memchr(p, 'e', n) && !memchr(p, 'E', n)) {
        uint64_t whole;
        if (read_unsigned(p + minus, n - minus, &whole) && (!minus || whole == (uint64_t)INT64_MAX + 1)) {
            v->type = minus ? LEAT_JSON_INT : LEAT_JSON_UINT;
            v->number.u = whole; /* with a minus, as a pattern of bits, INT64_MIN */
        } else if (!j->file && !j->any_value) {
            return none(j, LEAT_FAULT_RANGE, p);
        }
    } else if (isinf(found.value) && !j->file && !j->any_value) {
        return none(j, LEAT_FAULT_RANGE, p);
    }
    return p + n;
}

/* NaN, Infinity or, behind a minus, Infinity. */
static inline const uint8_t *pass_no_number(struct leat_json *j, const uint8_t *p, struct leat_json_value *v)
{
    const bool minus = *p == '-';
    const uint8_t *const behind = pass_word(j, p + minus, *p == 'N' ? "NaN" : "Infinity");
    v->type = LEAT_JSON_FLOAT;
    v->number.d = v->rounded = *p == 'N' ? (double)NAN : minus ? -(double)INFINITY : (double)INFINITY;
    return behind && j->no_nan ? none(j, LEAT_FAULT_NAN, p) : behind;
}

static inline const uint8_t *pass_value(struct leat_json *j, const uint8_t *p, struct leat_json_value *v)
{
    if (p == j->end)
        return none(j, LEAT_FAULT_END, p);
    const uint8_t c = *p;
    v->text = p;
    v->escaped = false;
    if (c >= '0' && c <= '9')
        return pass_number(j, p, v);
    switch (c) {
    case '"':
        v->type = LEAT_JSON_STR;
        v->text++;
        p = pass_string(j, p, &v->escaped);
        v->length = p ? (size_t)(p - v->text) - 1 : 0;
        return p;
    case 'n':
        v->type = LEAT_JSON_NULL;
        return pass_word(j, p, "null");
    case 't':
    case 'f':
        v->type = LEAT_JSON_BOOL;
        v->number.u = c == 't';
        return pass_word(j, p, c == 't' ? "true" : "false");
    case '-':
        return p + 1 < j->end && (p[1] == 'I' || p[1] == 'N') ? pass_no_number(j, p, v) : pass_number(j, p, v);
    case 'N':
    case 'I':
        return pass_no_number(j, p, v);
    default:
        return none(j, LEAT_FAULT_VALUE, p);
    }
}

/* Any value but an object or a list. */
static inline const uint8_t *leat_json_pass_scalar(struct leat_json *j, const uint8_t *p, struct leat_json_value *v)
{
    const uint8_t *from = look(j, p);
    do
        p = pass_value(j, from, v);
    while ((!p || p == j->end) && leat_json_is_cut(j, &from, &p));
    return p;
}

/* ---- objects and lists ----------------------------------------------------------------------- */

/* Whether the innermost bracket that is open is a brace. */
static inline bool in_object(const struct leat_json *j)
{
    return j->objects[(j->depth - 1) / 8] >> ((j->depth - 1) & 7) & 1;
}

/* The bracket at p. */
static inline const uint8_t *leat_json_pass_open(struct leat_json *j, const uint8_t *p)
{
    if (j->depth == j->deepest)
        return none(j, LEAT_FAULT_DEPTH, p);
    uint8_t *const bits = &j->objects[j->depth / 8];
    *bits = (uint8_t)((*bits & ~(1u << (j->depth & 7))) | (*p == '{' ? 1u << (j->depth & 7) : 0));
    j->depth++;
    j->first = true;
    return p + 1;
}

/* The beginning of the next member of the innermost object or list, or behind its bracket. */
static inline const uint8_t *pass_comma(struct leat_json *j, const uint8_t *p, bool object, bool *left)
{
    p = look(j, p);
    *left = false;
    if (p < j->end && *p == ',' && !j->first) {
        p = look(j, p + 1);
    } else if (p < j->end && *p == (object ? '}' : ']')) {
        assert(j->depth && in_object(j) == object); /* it is read in order */
        j->depth--;
        j->first = false;
        *left = true;
        return p + 1;
    } else if (p < j->end && !j->first) {
        return none(j, LEAT_FAULT_COMMA, p);
    }
    j->first = false;
    return p < j->end ? p : none(j, LEAT_FAULT_END, p);
}

/* To the next element; or *left, behind the closing bracket. */
static inline const uint8_t *leat_json_pass_item(struct leat_json *j, const uint8_t *p, bool *left)
{
    return pass_comma(j, p, false, left);
}

/* Behind the key at p, its colon and the spaces around it. */
static inline const uint8_t *pass_key(struct leat_json *j, const uint8_t *p, struct leat_json_value *key)
{
    const uint8_t *const begin = p + 1;
    if (*p != '"')
        return none(j, LEAT_FAULT_KEY, p);
    if (!(p = pass_string(j, p, &key->escaped)))
        return NULL;
    key->text = begin;
    key->length = (size_t)(p - 1 - begin);
    p = pass_space(p, j->end);
    if (p == j->end || *p != ':')
        return none(j, p == j->end ? LEAT_FAULT_END : LEAT_FAULT_COLON, p);
    return pass_space(p + 1, j->end);
}

/* The next key, to its value; or *left, behind the closing brace. */
static inline const uint8_t *leat_json_pass_member(struct leat_json *j, const uint8_t *p, struct leat_json_value *key,
                                                   bool *left)
{
    const uint8_t *from = pass_comma(j, p, true, left);
    if (!from || *left)
        return from;
    do
        p = pass_key(j, from, key);
    while ((!p || p == j->end) && leat_json_is_cut(j, &from, &p));
    return p;
}

/* Any value. */
static inline const uint8_t *leat_json_pass(struct leat_json *j, const uint8_t *p)
{
    const unsigned depth = j->depth;
    struct leat_json_value v;
    do {
        bool left = false;
        if (j->depth > depth)
            p = in_object(j) ? leat_json_pass_member(j, p, &v, &left) : leat_json_pass_item(j, p, &left);
        if (!p || left)
            continue;
        p = look(j, p);
        p = p < j->end && (*p == '{' || *p == '[') ? leat_json_pass_open(j, p) : leat_json_pass_scalar(j, p, &v);
    } while (p && j->depth > depth);
    return p;
}

/* Whether there is nothing more behind p; else that is a fault. */
static inline bool leat_json_done(struct leat_json *j, const uint8_t *p)
{
    p = look(j, p);
    return p < j->end ? leat_json_fail(j, LEAT_FAULT_BEHIND, p) : !j->fault;
}

#endif
