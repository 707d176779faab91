/* Walking through a record: json_record.h. Strings are most of the bytes, so they are looked at 16 at a time. */
#include "format/json_record.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "leat/leat.h"

#define NONE UINT32_MAX

typedef int8_t bytes16 __attribute__((vector_size(16)));
typedef uint64_t words2 __attribute__((vector_size(16)));

const char *leat_record_fault_text(unsigned fault)
{
    static const char *const texts[LEAT_FAULT_COUNT] = {
        [LEAT_FAULT_NONE] = "nothing is wrong",
        [LEAT_FAULT_NO_OBJECT] = "a record is an object, {...}, and this is none",
        [LEAT_FAULT_VALUE] = "a character where a value should begin",
        [LEAT_FAULT_WORD] = "a word that is no value",
        [LEAT_FAULT_NUMBER] = "a number that is none",
        [LEAT_FAULT_RANGE] = "a number beyond 64 bits",
        [LEAT_FAULT_CONTROL] = "a control character in a text",
        [LEAT_FAULT_ESCAPE] = "an escape in a text that is none",
        [LEAT_FAULT_SURROGATE] = "half of a surrogate pair in a text",
        [LEAT_FAULT_UTF8] = "a text that is not UTF-8",
        [LEAT_FAULT_COMMA] = "a comma or the closing bracket is missing",
        [LEAT_FAULT_COLON] = "a colon is missing behind a key",
        [LEAT_FAULT_KEY] = "a key is missing",
        [LEAT_FAULT_END] = "it ends in the middle",
        [LEAT_FAULT_BEHIND] = "something stands behind its end",
        [LEAT_FAULT_DEPTH] = "objects and lists are nested too deep",
        [LEAT_FAULT_TWICE] = "a key stands twice in an object",
        [LEAT_FAULT_NAN] = "NaN or Infinity in a value that is kept as JSON",
        [LEAT_FAULT_LONG] = "the line is too long",
    };
    return fault < LEAT_FAULT_COUNT ? texts[fault] : "it is broken";
}

/* ---- the tree -------------------------------------------------------------------------------- */

bool leat_property_tree_init(struct leat_property_tree *t)
{
    *t = (struct leat_property_tree){0};
    if (!leat_grow(&t->nodes, &t->room, 16, sizeof *t->nodes))
        return false;
    t->nodes[0] = (struct leat_property){.parent = NONE, .first_child = NONE, .last_child = NONE, .next = NONE};
    t->n = 1;
    return true;
}

void leat_property_tree_destroy(struct leat_property_tree *t)
{
    leat_free(t->nodes);
    leat_free(t->keys);
    *t = (struct leat_property_tree){0};
}

static bool same_key(const struct leat_property_tree *t, uint32_t node, const char *key, size_t length)
{
    const struct leat_property *p = &t->nodes[node];
    return p->key_length == length && !memcmp(t->keys + p->key, key, length);
}

uint32_t leat_property_find(const struct leat_property_tree *t, uint32_t parent, const char *key, size_t length)
{
    uint32_t child = t->nodes[parent].first_child;
    while (child != NONE && !same_key(t, child, key, length))
        child = t->nodes[child].next;
    return child;
}

uint32_t leat_property_add(struct leat_property_tree *t, uint32_t parent, const char *key, size_t length)
{
    uint32_t found = leat_property_find(t, parent, key, length);
    if (found != NONE)
        return found;
    /* The last ones are for keys of the record itself. */
    const size_t most = parent ? LEAT_RECORD_PROPERTIES - LEAT_RECORD_KEYS : LEAT_RECORD_PROPERTIES;
    if (t->n >= most || t->keys_n + length > UINT32_MAX / 2) {
        t->full = true;
        return NONE;
    }
    if (!leat_grow(&t->nodes, &t->room, t->n + 1, sizeof *t->nodes) ||
        !leat_grow(&t->keys, &t->keys_room, t->keys_n + length + 1, 1))
        return NONE;
    found = (uint32_t)t->n++;
    struct leat_property *p = &t->nodes[parent];
    t->nodes[found] = (struct leat_property){.parent = parent,
                                             .first_child = NONE,
                                             .last_child = NONE,
                                             .next = NONE,
                                             .key = (uint32_t)t->keys_n,
                                             .key_length = (uint32_t)length};
    memcpy(t->keys + t->keys_n, key, length);
    t->keys_n += length;
    if (p->last_child == NONE)
        p->first_child = found;
    else
        t->nodes[p->last_child].next = found;
    p->last_child = found;
    p->n_children++;
    return found;
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool fault(struct leat_record_walk *w, enum leat_record_fault what, const uint8_t *at)
{
    if (!w->fault) {
        w->fault = what;
        w->at = (size_t)(at - w->begin);
    }
    return false;
}

/* The first byte from p on, of UTF-8, that is a quote, a backslash or a control character; or `end`. */
static const uint8_t *pass_valid(const uint8_t *p, const uint8_t *end)
{
    while (end - p >= 16) {
        bytes16 v;
        memcpy(&v, p, sizeof v);
        const words2 found = (words2)(((v & (int8_t)0xe0) == 0) | (v == '"') | (v == '\\'));
        if (found[0])
            return p + __builtin_ctzll(found[0]) / 8;
        if (found[1])
            return p + 8 + __builtin_ctzll(found[1]) / 8;
        p += 16;
    }
    while (p < end && *p >= 32 && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* The first byte from p on that is a quote, a backslash, a control character or not ASCII; or `end`. */
static const uint8_t *pass_plain(const uint8_t *p, const uint8_t *end)
{
    while (end - p >= 16) {
        bytes16 v;
        memcpy(&v, p, sizeof v);
        /* Signed: below 32 are control characters and what is not ASCII. */
        const words2 found = (words2)((v < 32) | (v == '"') | (v == '\\'));
        if (found[0])
            return p + __builtin_ctzll(found[0]) / 8;
        if (found[1])
            return p + 8 + __builtin_ctzll(found[1]) / 8;
        p += 16;
    }
    while (p < end && *p >= 32 && *p < 0x80 && *p != '"' && *p != '\\')
        p++;
    return p;
}

static int hex4(const uint8_t *p)
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

/* Whether an escape is the backslash and this character. */
static bool is_short_escape(uint8_t c)
{
    static const bool is[256] = {['"'] = true, ['\\'] = true, ['/'] = true, ['b'] = true,
                                 ['f'] = true, ['n'] = true,  ['r'] = true, ['t'] = true};
    return is[c];
}

/* Bytes of the escape at p, 0: none; *code gets its character. */
static size_t escape(const uint8_t *p, const uint8_t *end, uint32_t *code, enum leat_record_fault *what)
{
    *what = LEAT_FAULT_ESCAPE;
    if (end - p < 2)
        return 0;
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
        *code = p[1];
        return 2;
    case 'b':
        *code = '\b';
        return 2;
    case 'f':
        *code = '\f';
        return 2;
    case 'n':
        *code = '\n';
        return 2;
    case 'r':
        *code = '\r';
        return 2;
    case 't':
        *code = '\t';
        return 2;
    case 'u':
        break;
    default:
        return 0;
    }
    const int high = end - p >= 6 ? hex4(p + 2) : -1;
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
static size_t utf8_bytes(const uint8_t *p, const uint8_t *end)
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

size_t leat_record_utf8(const uint8_t *text, size_t length)
{
    const uint8_t *p = text, *const end = text + length;
    while (p < end) {
        bytes16 v = {0};
        if (end - p >= 16) {
            memcpy(&v, p, sizeof v);
            const words2 found = (words2)(v < 0);
            if (!(found[0] | found[1])) {
                p += 16;
                continue;
            }
        }
        const size_t n = *p < 0x80 ? 1 : utf8_bytes(p, end);
        if (!n)
            break;
        p += n;
    }
    return (size_t)(p - text);
}

/* Behind the string whose opening quote is at p; its text is [p + 1, returned - 1). NULL: a fault. */
static const uint8_t *pass_string(struct leat_record_walk *w, const uint8_t *p, bool *escaped)
{
    const uint8_t *const end = w->end;
    enum leat_record_fault what;
    uint32_t code;
    size_t n;
    *escaped = false;
    for (p++;;) {
        p = w->is_utf8 ? pass_valid(p, end) : pass_plain(p, end);
        if (p == end) {
            fault(w, LEAT_FAULT_END, p);
            return NULL;
        }
        if (*p == '"')
            return p + 1;
        if (*p == '\\') {
            if (end - p >= 2 && is_short_escape(p[1])) { /* of most texts all: line breaks, quotes */
                *escaped = true;
                p += 2;
                continue;
            }
            if (!(n = escape(p, end, &code, &what))) {
                fault(w, what, p);
                return NULL;
            }
            *escaped = true;
            p += n;
        } else if (*p < 32) {
            fault(w, LEAT_FAULT_CONTROL, p);
            return NULL;
        } else {
            for (; p < end && *p >= 0x80; p += n) /* characters that are not ASCII come together */
                if (!(n = utf8_bytes(p, end))) {
                    fault(w, LEAT_FAULT_UTF8, p);
                    return NULL;
                }
        }
    }
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 63));
    to[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

size_t leat_record_unescape(const uint8_t *text, size_t length, char *to)
{
    const uint8_t *p = text, *const end = text + length;
    enum leat_record_fault what;
    uint32_t code;
    size_t used = 0, n;
    while (p < end) {
        const uint8_t *next = memchr(p, '\\', (size_t)(end - p));
        next = next ? next : end;
        memcpy(to + used, p, (size_t)(next - p));
        used += (size_t)(next - p);
        p = next;
        if (p == end || !(n = escape(p, end, &code, &what)))
            break;
        used += put_utf8(to + used, code);
        p += n;
    }
    return used;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const uint8_t *pass_space(const uint8_t *p, const uint8_t *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    return p;
}

static const uint8_t *pass_word(struct leat_record_walk *w, const uint8_t *p, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(w->end - p) >= n && !memcmp(p, word, n))
        return p + n;
    fault(w, LEAT_FAULT_WORD, p);
    return NULL;
}

/* An integer beyond int64_t that uint64_t holds. */
static bool read_unsigned(const uint8_t *p, size_t n, uint64_t *out)
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

static const uint8_t *pass_number(struct leat_record_walk *w, const uint8_t *p, struct leat_record_leaf *leaf)
{
    struct leat_number found;
    const bool minus = *p == '-';
    if (p + minus < w->end && (p[minus] == 'I' || p[minus] == 'N')) {
        leaf->type = LEAT_RECORD_FLOAT;
        leaf->number.d = p[minus] == 'N' ? (double)NAN : minus ? -(double)INFINITY : (double)INFINITY;
        return minus && p[1] == 'N' ? (fault(w, LEAT_FAULT_WORD, p), NULL)
                                    : pass_word(w, p + minus, p[minus] == 'N' ? "NaN" : "Infinity");
    }
    const size_t n = leat_number_read((const char *)p, (size_t)(w->end - p), LEAT_NUMBER_JSON, &found);
    if (!n) {
        fault(w, LEAT_FAULT_NUMBER, p);
        return NULL;
    }
    leaf->type = found.is_whole ? LEAT_RECORD_INT : LEAT_RECORD_FLOAT;
    if (found.is_whole) {
        leaf->number.i = found.whole;
    } else if (!memchr(p, '.', n) && !memchr(p, 'e', n) && !memchr(p, 'E', n)) {
        leaf->type = minus ? LEAT_RECORD_INT : LEAT_RECORD_UINT;
        if (!read_unsigned(p + minus, n - minus, &leaf->number.u) ||
            (minus && leaf->number.u != (uint64_t)INT64_MAX + 1)) { /* which as a pattern of bits is INT64_MIN */
            fault(w, LEAT_FAULT_RANGE, p);
            return NULL;
        }
    } else {
        leaf->number.d = found.value;
        if (isinf(found.value)) {
            fault(w, LEAT_FAULT_RANGE, p);
            return NULL;
        }
    }
    return p + n;
}

/* A value that is neither an object nor a list. */
static const uint8_t *pass_scalar(struct leat_record_walk *w, const uint8_t *p, struct leat_record_leaf *leaf)
{
    if (p == w->end) {
        fault(w, LEAT_FAULT_END, p);
        return NULL;
    }
    leaf->text = p;
    switch (*p) {
    case '"':
        leaf->type = LEAT_RECORD_STR;
        return pass_string(w, p, &leaf->escaped);
    case 'n':
        leaf->type = LEAT_RECORD_NULL;
        return pass_word(w, p, "null");
    case 't':
    case 'f':
        leaf->type = LEAT_RECORD_BOOL;
        leaf->number.u = *p == 't';
        return pass_word(w, p, *p == 't' ? "true" : "false");
    default:
        if (*p == '-' || (*p >= '0' && *p <= '9') || *p == 'N' || *p == 'I')
            return pass_number(w, p, leaf);
        fault(w, LEAT_FAULT_VALUE, p);
        return NULL;
    }
}

/* Behind the key at p, its colon and the spaces around it. */
static const uint8_t *pass_key(struct leat_record_walk *w, const uint8_t *p, const uint8_t **key, size_t *length,
                               bool *escaped)
{
    if (p == w->end || *p != '"') {
        fault(w, p == w->end ? LEAT_FAULT_END : LEAT_FAULT_KEY, p);
        return NULL;
    }
    *key = p + 1;
    if (!(p = pass_string(w, p, escaped)))
        return NULL;
    *length = (size_t)(p - 1 - *key);
    p = pass_space(p, w->end);
    if (p == w->end || *p != ':') {
        fault(w, p == w->end ? LEAT_FAULT_END : LEAT_FAULT_COLON, p);
        return NULL;
    }
    return pass_space(p + 1, w->end);
}

/* Behind the list or object at p, which is checked to its end without telling of it. `json`: it is kept as it is. */
static const uint8_t *pass_nested(struct leat_record_walk *w, const uint8_t *p, bool json)
{
    uint64_t objects = 0; /* a bit for each open bracket, the innermost lowest */
    unsigned depth = 0;
    const uint8_t *key;
    size_t length;
    bool escaped, first = true;
    for (;;) { /* p is where a value or a closing bracket stands */
        if (depth) {
            const bool object = objects & 1;
            p = pass_space(p, w->end);
            if (p < w->end && *p == (object ? '}' : ']')) {
                p++;
                objects >>= 1;
                first = false;
                if (!--depth)
                    return p;
                continue;
            }
            if (!first) {
                if (p == w->end || *p != ',') {
                    fault(w, p == w->end ? LEAT_FAULT_END : LEAT_FAULT_COMMA, p);
                    return NULL;
                }
                p = pass_space(p + 1, w->end);
            }
            first = false;
            if (object && !(p = pass_key(w, p, &key, &length, &escaped)))
                return NULL;
        }
        if (p < w->end && (*p == '{' || *p == '[')) {
            if (w->depth + ++depth > LEAT_RECORD_DEPTH) {
                fault(w, LEAT_FAULT_DEPTH, p);
                return NULL;
            }
            objects = objects << 1 | (*p == '{');
            first = true;
            p++;
        } else {
            struct leat_record_leaf leaf = {0};
            const uint8_t *const at = p;
            if (!(p = pass_scalar(w, p, &leaf)))
                return NULL;
            if (json && leaf.type == LEAT_RECORD_FLOAT && !isfinite(leaf.number.d)) {
                fault(w, LEAT_FAULT_NAN, at);
                return NULL;
            }
        }
    }
}

/* The type of a list with an element like this besides those before. */
static enum leat_record_type join_elements(enum leat_record_type list, enum leat_record_type element)
{
    const enum leat_record_type one = element == LEAT_RECORD_BOOL    ? LEAT_RECORD_BOOLS
                                      : element == LEAT_RECORD_INT   ? LEAT_RECORD_INTS
                                      : element == LEAT_RECORD_UINT  ? LEAT_RECORD_UINTS
                                      : element == LEAT_RECORD_FLOAT ? LEAT_RECORD_FLOATS
                                                                     : LEAT_RECORD_LIST;
    if (list == LEAT_RECORD_EMPTY_LIST || list == one)
        return one;
    if (list == LEAT_RECORD_BOOLS || one == LEAT_RECORD_BOOLS || list == LEAT_RECORD_LIST || one == LEAT_RECORD_LIST)
        return LEAT_RECORD_LIST;
    return LEAT_RECORD_FLOATS; /* INTS, UINTS and FLOATS in any mixture */
}

/* A list: of numbers in one pass, for most are. `json`: it is kept as it is, whatever it holds. */
static const uint8_t *pass_list(struct leat_record_walk *w, const uint8_t *p, bool json, struct leat_record_leaf *leaf)
{
    const uint8_t *const begin = p++;
    leaf->type = LEAT_RECORD_EMPTY_LIST;
    for (bool first = true;; first = false) {
        p = pass_space(p, w->end);
        if (p < w->end && *p == ']')
            break;
        if (!first) {
            if (p == w->end || *p != ',') {
                fault(w, p == w->end ? LEAT_FAULT_END : LEAT_FAULT_COMMA, p);
                return NULL;
            }
            p = pass_space(p + 1, w->end);
        }
        if (p < w->end && (*p == '{' || *p == '[' || *p == '"')) {
            leaf->type = LEAT_RECORD_LIST;
            leaf->nan = NULL;
            w->depth--; /* which counts the list again */
            p = pass_nested(w, begin, json || !w->wanted);
            w->depth++;
            return p;
        }
        struct leat_record_leaf element = {0};
        const uint8_t *const at = p;
        if (!(p = pass_scalar(w, p, &element)))
            return NULL;
        if (!leaf->nan && element.type == LEAT_RECORD_FLOAT && !isfinite(element.number.d))
            leaf->nan = at;
        leaf->below = leaf->below || (element.type == LEAT_RECORD_INT && element.number.i < 0);
        leaf->beyond = leaf->beyond || element.type == LEAT_RECORD_UINT;
        leaf->type = join_elements(leaf->type, element.type);
    }
    if (leaf->type == LEAT_RECORD_FLOATS && leaf->beyond && !memchr(begin, '.', (size_t)(p - begin)) &&
        !memchr(begin, 'e', (size_t)(p - begin)) && !memchr(begin, 'E', (size_t)(p - begin)) &&
        !memchr(begin, 'N', (size_t)(p - begin)) && !memchr(begin, 'I', (size_t)(p - begin)))
        leaf->type = LEAT_RECORD_UINTS;
    if (leaf->nan && (json || (leaf->type == LEAT_RECORD_LIST && !w->wanted))) {
        fault(w, LEAT_FAULT_NAN, leaf->nan);
        return NULL;
    }
    return p + 1;
}

static bool tell(struct leat_record_walk *w, struct leat_record_leaf *leaf, const uint8_t *end)
{
    const bool string = leaf->type == LEAT_RECORD_STR;
    leaf->text += string;
    leaf->length = (size_t)(end - leaf->text) - string;
    w->stopped = !w->tell(w->user, leaf);
    return !w->stopped;
}

/* The node of a key, NONE: it is passed over, or w->no_memory. `guess` is where it probably is. */
static uint32_t node_of(struct leat_record_walk *w, uint32_t parent, uint32_t guess, const uint8_t *key, size_t length,
                        bool escaped)
{
    struct leat_property_tree *t = w->tree;
    const char *text = (const char *)key;
    if (escaped) {
        if (!leat_grow(&w->key, &w->key_room, length + 1, 1)) {
            w->no_memory = true;
            return NONE;
        }
        length = leat_record_unescape(key, length, w->key);
        text = w->key;
    }
    if (guess != NONE && same_key(t, guess, text, length))
        return guess;
    uint32_t found = leat_property_find(t, parent, text, length);
    if (found != NONE || w->wanted)
        return found;
    if (t->nodes[parent].n_children >= LEAT_RECORD_KEYS) {
        t->nodes[parent].wide = true;
        return NONE;
    }
    found = leat_property_add(t, parent, text, length);
    if (found == NONE && t->full)
        t->nodes[parent].wide = true;
    w->no_memory = found == NONE && !t->full;
    return found;
}

/* Whether the key was not yet met in this record. */
static bool is_first(struct leat_record_walk *w, uint32_t node, const uint8_t *key)
{
    if (!w->seen)
        return true;
    if (node >= w->seen_room) {
        const size_t before = w->seen_room;
        if (!leat_grow(&w->seen, &w->seen_room, node + 1, sizeof *w->seen)) {
            w->no_memory = true;
            return false;
        }
        memset(w->seen + before, 0, (w->seen_room - before) * sizeof *w->seen);
    }
    if (w->seen[node] == w->number)
        return fault(w, LEAT_FAULT_TWICE, key - 1);
    w->seen[node] = w->number;
    return true;
}

static const uint8_t *walk_object(struct leat_record_walk *w, const uint8_t *p, uint32_t node);

/* An object of which some properties are wanted, and perhaps itself, as it stands. */
static const uint8_t *walk_inside(struct leat_record_walk *w, const uint8_t *p, uint32_t node, bool whole)
{
    struct leat_record_leaf leaf = {.property = node, .type = LEAT_RECORD_OBJECT, .text = p};
    w->whole += whole;
    p = walk_object(w, p, node);
    w->whole -= whole;
    return p && whole && !tell(w, &leaf, p) ? NULL : p;
}

/* The value of a node, told as a leaf unless it is an object. */
static const uint8_t *walk_value(struct leat_record_walk *w, const uint8_t *p, uint32_t node)
{
    struct leat_record_leaf leaf = {.property = node, .text = p};
    const enum leat_record_wish wish = node == NONE ? LEAT_WISH_NONE : w->wanted ? w->wanted[node] : LEAT_WISH_BELOW;
    const bool wanted = wish >= (w->wanted ? LEAT_WISH_LEAF : LEAT_WISH_BELOW),
               nested = p < w->end && (*p == '{' || *p == '[');
    /* What is passed over while properties are found is kept with its object, unless that is the record. */
    const bool json = wish >= LEAT_WISH_WHOLE || w->whole || (!w->wanted && node == NONE && w->depth > 1);
    if ((wish == LEAT_WISH_BELOW || wish == LEAT_WISH_BOTH) && nested && *p == '{')
        return walk_inside(w, p, node, wish == LEAT_WISH_BOTH);
    if (!nested) {
        const uint8_t *const at = p;
        p = pass_scalar(w, p, &leaf);
        if (p && leaf.type == LEAT_RECORD_FLOAT && !isfinite(leaf.number.d)) {
            leaf.nan = at;
            if (json)
                return fault(w, LEAT_FAULT_NAN, at), NULL;
        }
    } else if (*p == '[' && wanted) {
        if (w->depth == LEAT_RECORD_DEPTH)
            return fault(w, LEAT_FAULT_DEPTH, p), NULL;
        w->depth++;
        p = pass_list(w, p, json, &leaf);
        w->depth--;
    } else {
        leaf.type = LEAT_RECORD_OBJECT;
        p = pass_nested(w, p, json);
    }
    return p && wanted && !tell(w, &leaf, p) ? NULL : p;
}

static const uint8_t *walk_object(struct leat_record_walk *w, const uint8_t *p, uint32_t node)
{
    const uint8_t *const begin = p, *key;
    uint32_t guess = w->tree->nodes[node].first_child;
    size_t length;
    bool escaped, empty = true;
    if (w->depth == LEAT_RECORD_DEPTH)
        return fault(w, LEAT_FAULT_DEPTH, p), NULL;
    w->depth++;
    p++;
    for (bool first = true;; first = empty = false) {
        p = pass_space(p, w->end);
        if (p < w->end && *p == '}') {
            p++;
            break;
        }
        if (!first) {
            if (p == w->end || *p != ',')
                return fault(w, p == w->end ? LEAT_FAULT_END : LEAT_FAULT_COMMA, p), NULL;
            p = pass_space(p + 1, w->end);
        }
        if (!(p = pass_key(w, p, &key, &length, &escaped)))
            return NULL;
        const uint32_t child = node_of(w, node, guess, key, length, escaped);
        if (w->no_memory || (child != NONE && !is_first(w, child, key)))
            return NULL;
        if (child != NONE)
            guess = w->tree->nodes[child].next;
        if (!(p = walk_value(w, p, child)))
            return NULL;
    }
    w->depth--;
    /* An object is told of where it is empty, or its keys are no properties. */
    if (!w->wanted && node && (empty || w->tree->nodes[node].wide)) {
        struct leat_record_leaf leaf = {.property = node, .type = LEAT_RECORD_OBJECT, .text = begin};
        if (!tell(w, &leaf, p))
            return NULL;
    }
    return p;
}

bool leat_record_run(struct leat_record_walk *w, const uint8_t *record, size_t n)
{
    w->fault = LEAT_FAULT_NONE;
    w->at = 0;
    w->stopped = w->no_memory = false;
    w->whole = 0;
    w->begin = record;
    w->end = record + n;
    w->depth = 0;
    const uint8_t *p = pass_space(record, w->end);
    if (p == w->end || *p != '{')
        return fault(w, LEAT_FAULT_NO_OBJECT, p);
    if (!(p = walk_object(w, p, 0)))
        return false;
    p = pass_space(p, w->end);
    return p == w->end || fault(w, LEAT_FAULT_BEHIND, p);
}

void leat_record_walk_destroy(struct leat_record_walk *w)
{
    leat_free(w->seen);
    leat_free(w->key);
    w->seen = NULL;
    w->key = NULL;
}

size_t leat_record_elements(const uint8_t *text, size_t length, enum leat_record_type as, void *to)
{
    struct leat_record_walk w = {.begin = text, .end = text + length};
    const uint8_t *p = text + 1, *const end = text + length;
    size_t n = 0;
    for (;;) {
        struct leat_record_leaf e = {0};
        while (p < end && (*p == ',' || *p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
            p++;
        if (p >= end || *p == ']' || !(p = pass_scalar(&w, p, &e)))
            return n;
        if (to && as == LEAT_RECORD_BOOLS)
            ((uint8_t *)to)[n] = (uint8_t)e.number.u;
        else if (to && as == LEAT_RECORD_FLOATS)
            ((double *)to)[n] = e.type == LEAT_RECORD_INT    ? (double)e.number.i
                                : e.type == LEAT_RECORD_UINT ? (double)e.number.u
                                                             : e.number.d;
        else if (to)
            ((uint64_t *)to)[n] = e.number.u;
        n++;
    }
}
