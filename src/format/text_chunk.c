/* Reading a chunk of lines: text_chunk.h. */
#include "format/text_chunk.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "kernels/utf8.h"

/* ---- words ----------------------------------------------------------------------------------- */

void leat_words_destroy(struct leat_words *w)
{
    leat_free(w->starts);
    leat_free(w->text);
    leat_free(w->table);
    *w = (struct leat_words){0};
}

static bool is_word(const struct leat_words *w, size_t number, const char *text, size_t length)
{
    return w->starts[number + 1] - w->starts[number] == length && !memcmp(w->text + w->starts[number], text, length);
}

static size_t place_of(const struct leat_words *w, const char *text, size_t length)
{
    const size_t mask = ((size_t)1 << w->bits) - 1;
    size_t at = (size_t)leat_hash64(text, length) & mask;
    while (w->table[at] && !is_word(w, w->table[at] - 1, text, length))
        at = (at + 1) & mask;
    return at;
}

static bool grow_table(struct leat_words *w)
{
    const unsigned bits = w->bits ? w->bits + 2 : 6;
    uint32_t *table = leat_new_array((size_t)1 << bits, sizeof *table);
    if (!table)
        return false;
    leat_free(w->table);
    w->table = table;
    w->bits = bits;
    for (size_t i = 0; i < w->n; i++)
        table[place_of(w, w->text + w->starts[i], (size_t)(w->starts[i + 1] - w->starts[i]))] = (uint32_t)i + 1;
    return true;
}

bool leat_words_add(struct leat_words *w, const char *text, size_t length, uint32_t *number)
{
    /* Neighbours are often alike. */
    if (w->n && w->starts[w->last + 1] - w->starts[w->last] == length &&
        !memcmp(w->text + w->starts[w->last], text, length)) {
        *number = w->last;
        return true;
    }
    if ((!w->table || w->n >= (size_t)1 << (w->bits - 1)) && !grow_table(w))
        return false;
    const size_t at = place_of(w, text, length);
    if (w->table[at]) {
        *number = w->last = w->table[at] - 1;
        return true;
    }
    *number = LEAT_WORDS;
    if (w->n == LEAT_WORDS)
        return true;
    if (!leat_grow(&w->starts, &w->starts_room, w->n + 2, sizeof *w->starts) ||
        !leat_grow(&w->text, &w->text_room, w->text_n + length + 1, 1))
        return false;
    memcpy(w->text + w->text_n, text, length);
    w->starts[w->n] = w->text_n;
    w->starts[w->n + 1] = w->text_n += length;
    *number = w->last = (uint32_t)w->n++;
    w->table[at] = *number + 1;
    return true;
}

/* ---- columns --------------------------------------------------------------------------------- */

static void drop_values(struct leat_chunk_column *c)
{
    leat_free(c->numbers);
    leat_free(c->codes);
    leat_words_destroy(&c->words);
    c->numbers = NULL;
    c->codes = NULL;
    c->n = c->room = 0;
}

/* Makes places up to that of `record`. */
static bool reach(struct leat_chunk_column *c, size_t record)
{
    if (c->kind == LEAT_COLUMN_NUMBERS ? !leat_grow(&c->numbers, &c->room, record + 1, sizeof *c->numbers)
                                       : !leat_grow(&c->codes, &c->room, record + 1, sizeof *c->codes))
        return false;
    for (; c->n <= record; c->n++) {
        if (c->kind == LEAT_COLUMN_NUMBERS)
            c->numbers[c->n] = 0;
        else
            c->codes[c->n] = 0;
    }
    return true;
}

static bool mark_valid(struct leat_chunk_column *c, size_t record)
{
    if (!leat_grow(&c->valid, &c->valid_room, record + 1, 1))
        return false;
    while (c->n_valid <= record)
        c->valid[c->n_valid++] = 0;
    c->valid[record] = 1;
    c->present++;
    return true;
}

static enum leat_text_column column_of(enum leat_record_type type)
{
    return type == LEAT_RECORD_BOOL                               ? LEAT_COLUMN_BOOLS
           : type == LEAT_RECORD_STR                              ? LEAT_COLUMN_WORDS
           : type >= LEAT_RECORD_INT && type <= LEAT_RECORD_FLOAT ? LEAT_COLUMN_NUMBERS
                                                                  : LEAT_COLUMN_NONE;
}

static double as_double(uint64_t bits, bool is_unsigned)
{
    int64_t i;
    memcpy(&i, &bits, sizeof i);
    return is_unsigned ? (double)bits : (double)i;
}

static bool add_number(struct leat_chunk_column *c, size_t record, const struct leat_record_leaf *leaf)
{
    const bool is_unsigned = c->types & 1u << LEAT_RECORD_UINT;
    double value = leaf->number.d;
    if (leaf->type == LEAT_RECORD_FLOAT && !c->floats) {
        for (size_t i = 0; i < c->n; i++) {
            const double d = c->valid[i] ? as_double(c->numbers[i], is_unsigned) : 0;
            memcpy(&c->numbers[i], &d, sizeof d);
        }
        c->floats = true;
    } else if (leaf->type != LEAT_RECORD_FLOAT) {
        value = as_double(leaf->number.u, leaf->type == LEAT_RECORD_UINT);
    }
    if (!reach(c, record))
        return false;
    if (c->floats)
        memcpy(&c->numbers[record], &value, sizeof value);
    else
        c->numbers[record] = leaf->number.u;
    return true;
}

static bool add_word(struct leat_text_chunk *k, struct leat_chunk_column *c, size_t record,
                     const struct leat_record_leaf *leaf)
{
    const char *text = (const char *)leaf->text;
    size_t length = leaf->length;
    uint32_t number = LEAT_WORDS;
    if (leaf->escaped && length <= 6 * LEAT_WORD_BYTES) {
        if (!leat_grow(&k->text, &k->text_room, length + 1, 1))
            return false;
        length = leat_json_unescape(leaf->text, length, k->text);
        text = k->text;
    }
    if (length <= LEAT_WORD_BYTES && !leat_words_add(&c->words, text, length, &number))
        return false;
    if (number == LEAT_WORDS) {
        c->dropped = true;
        drop_values(c);
        return true;
    }
    if (!reach(c, record))
        return false;
    c->codes[record] = number;
    return true;
}

static bool add_leaf(struct leat_text_chunk *k, const struct leat_record_leaf *leaf)
{
    const size_t record = k->n - 1;
    struct leat_chunk_column *c = &k->columns[leaf->property];
    c->types |= 1u << leaf->type;
    if (!c->lines[leaf->type])
        c->lines[leaf->type] = k->n_lines;
    c->integers |= leaf->integers;
    if (leaf->beyond && leaf->type == LEAT_RECORD_FLOATS) { /* it has floats, too */
        c->types |= 1u << LEAT_RECORD_UINTS;
        if (!c->lines[LEAT_RECORD_UINTS])
            c->lines[LEAT_RECORD_UINTS] = k->n_lines;
    }
    if (leaf->nan && !c->nan)
        c->nan = k->n_lines;
    if (leaf->type == LEAT_RECORD_NULL)
        return true;
    if (!mark_valid(c, record))
        return false;
    if (c->dropped)
        return true;
    const enum leat_text_column kind = column_of(leaf->type);
    if (kind == LEAT_COLUMN_NONE || (c->kind && c->kind != kind)) {
        c->dropped = true;
        drop_values(c);
        return true;
    }
    c->kind = kind;
    if (kind == LEAT_COLUMN_NUMBERS)
        return add_number(c, record, leaf);
    if (kind == LEAT_COLUMN_WORDS)
        return add_word(k, c, record, leaf);
    if (!reach(c, record))
        return false;
    c->codes[record] = (uint32_t)leaf->number.u;
    return true;
}

/* ---- records --------------------------------------------------------------------------------- */

/* Leaves are kept until the record is known to be whole. */
static bool hear(void *user, const struct leat_record_leaf *leaf)
{
    struct leat_text_chunk *k = user;
    if (!leat_grow(&k->leaves, &k->leaves_room, k->n_leaves + 1, sizeof *k->leaves)) {
        k->no_memory = true;
        return false;
    }
    k->leaves[k->n_leaves++] = *leaf;
    return true;
}

static bool add_line(struct leat_text_chunk *k, uint64_t offset, size_t length, uint64_t hash)
{
    if (!leat_grow(&k->lines, &k->room, k->n + 1, sizeof *k->lines))
        return false;
    k->lines[k->n++] = (struct leat_text_line){offset, (uint32_t)length, (uint32_t)hash};
    uint64_t sample[2] = {0, 0};
    leat_fingerprint_value(sample, hash);
    leat_fingerprint_append(k->sums[0], sample);
    return true;
}

static bool add_bad(struct leat_text_chunk *k, uint64_t line, uint64_t at, enum leat_json_fault fault)
{
    if (!leat_grow(&k->bad, &k->bad_room, k->n_bad + 1, sizeof *k->bad))
        return false;
    k->bad[k->n_bad++] = (struct leat_text_bad){k->n - 1, line, at, fault};
    return true;
}

static uint64_t newlines(const uint8_t *p, const uint8_t *end)
{
    uint64_t n = 0;
    while ((p = memchr(p, '\n', (size_t)(end - p)))) {
        p++;
        n++;
    }
    return n;
}

/* In which line byte `at` of a record is: of a whole file the first one has been counted, of others the last. */
static uint64_t line_of(const struct leat_text_chunk *k, const uint8_t *text, size_t length, size_t at)
{
    return k->mode == LEAT_TEXT_FILE ? k->n_lines + newlines(text, text + at)
                                     : k->n_lines - newlines(text + at, text + length);
}

static bool add_good(struct leat_text_chunk *k, uint64_t hash)
{
    uint64_t sample[2] = {0, 0};
    leat_fingerprint_value(sample, hash);
    leat_fingerprint_append(k->sums[1], sample);
    if (k->mode != LEAT_TEXT_JSONL)
        return true;
    if (!leat_grow(&k->columns, &k->columns_room, k->tree.n, sizeof *k->columns))
        return false;
    while (k->n_columns < k->tree.n)
        k->columns[k->n_columns++] = (struct leat_chunk_column){0};
    for (size_t i = 0; i < k->n_leaves; i++)
        if (!add_leaf(k, &k->leaves[i]))
            return false;
    return true;
}

static bool take_record(struct leat_text_chunk *k, const uint8_t *text, size_t length, uint64_t offset)
{
    if (length > k->longest || length > UINT32_MAX) {
        const size_t most = length < k->longest ? length : (size_t)k->longest;
        return add_line(k, offset, 0, 0) && add_bad(k, line_of(k, text, length, most), offset + most, LEAT_FAULT_LONG);
    }
    const uint64_t hash = leat_hash64(text, length);
    if (!add_line(k, offset, length, hash))
        return false;
    const bool is_utf8 = leat_utf8_is_valid(text, length);
    if (k->mode != LEAT_TEXT_JSONL) {
        const size_t bad = is_utf8 ? length : leat_utf8_check(text, length);
        return bad == length ? add_good(k, hash)
                             : add_bad(k, line_of(k, text, length, bad), offset + bad, LEAT_FAULT_UTF8);
    }
    k->n_leaves = 0;
    k->walk.number++;
    k->walk.is_utf8 = is_utf8; /* else the walk says where it is not */
    if (leat_record_run(&k->walk, text, length))
        return add_good(k, hash);
    return !k->walk.no_memory && !k->no_memory && add_bad(k, k->n_lines, offset + k->walk.json.at, k->walk.json.fault);
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool leat_text_chunk_take_long(struct leat_text_chunk *k, uint64_t offset)
{
    return add_line(k, offset, 0, 0) && add_bad(k, k->n_lines, offset + k->longest, LEAT_FAULT_LONG);
}

bool leat_text_chunk_take(struct leat_text_chunk *k, const uint8_t *bytes, size_t n, uint64_t offset)
{
    const uint8_t *p = bytes, *const end = bytes + n, *open = NULL, *last = NULL; /* of a run of lines */
    if (!offset && n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))                       /* UTF-8's mark, of Windows' tools */
        p += 3;
    bool good = true;
    if (k->mode == LEAT_TEXT_FILE) {
        k->n_lines++;
        return take_record(k, p, (size_t)(end - p), offset + (uint64_t)(p - bytes));
    }
    while (p < end && good) {
        const uint8_t *next = memchr(p, '\n', (size_t)(end - p)), *from = p, *to = next ? next : end;
        p = next ? next + 1 : end;
        k->n_lines++;
        if (k->mode == LEAT_TEXT_JSONL)
            while (from < to && is_space(*from))
                from++;
        while (to > from && is_space(to[-1]) && (k->mode == LEAT_TEXT_JSONL || to[-1] == '\r'))
            to--;
        bool blank = from == to;
        if (k->mode != LEAT_TEXT_JSONL) {
            const uint8_t *q = from;
            while (q < to && is_space(*q))
                q++;
            blank = q == to;
        }
        if (k->mode == LEAT_TEXT_BLANK) {
            if (blank && open) {
                k->n_lines--; /* to the record's last line */
                good = take_record(k, open, (size_t)(last - open), offset + (uint64_t)(open - bytes));
                k->n_lines++;
                open = NULL;
            } else if (!blank) {
                open = open ? open : from;
                last = to;
            }
        } else if (!blank) {
            good = take_record(k, from, (size_t)(to - from), offset + (uint64_t)(from - bytes));
        }
    }
    if (open && good)
        good = take_record(k, open, (size_t)(last - open), offset + (uint64_t)(open - bytes));
    return good;
}

/* ---- the whole ------------------------------------------------------------------------------- */

bool leat_text_chunk_init(struct leat_text_chunk *k, const struct leat_text_scan *options)
{
    *k = (struct leat_text_chunk){.mode = options->mode, .longest = options->longest};
    k->walk = (struct leat_record_walk){.tree = &k->tree, .tell = hear, .user = k};
    if (!leat_property_tree_init(&k->tree) || !leat_grow(&k->walk.seen, &k->walk.seen_room, 16, sizeof *k->walk.seen))
        return false;
    memset(k->walk.seen, 0, k->walk.seen_room * sizeof *k->walk.seen);
    return true;
}

void leat_text_chunk_seal(struct leat_text_chunk *k)
{
    leat_record_walk_destroy(&k->walk);
    leat_free(k->leaves);
    leat_free(k->text);
    k->leaves = NULL;
    k->text = NULL;
}

void leat_text_chunk_destroy(struct leat_text_chunk *k)
{
    leat_text_chunk_seal(k);
    for (size_t i = 0; i < k->n_columns; i++) {
        drop_values(&k->columns[i]);
        leat_free(k->columns[i].valid);
    }
    leat_property_tree_destroy(&k->tree);
    leat_free(k->columns);
    leat_free(k->lines);
    leat_free(k->bad);
}
