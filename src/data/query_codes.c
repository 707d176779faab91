/*
 * Texts as codes. A column with few distinct texts is read once in a process, block by block on all threads, and kept
 * as one or two bytes per sample; a query then looks at codes. In leat's own file a value is known by the length and
 * checksum in its index record, so its text is read only if these are new.
 *
 *     value -> table of this thread -> table of all, under a lock -> new code, text read and kept
 *
 * If a source keeps codes of its own (a file of leat), only its list of texts is read, and its codes are translated, or
 * copied if they are the same.
 *
 * A column that turns out to have too many texts, or long ones, is remembered as having no codes.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "data/query.h"
#include "data/texts.h"
#include "io/interrupt.h"

#define MOST_VALUES 65536
#define MOST_TEXT 1024        /* bytes of a value */
#define MOST_TEXTS (16 << 20) /* of all */
#define FEW 4096              /* so many values any column may have; more, if they repeat */
#define MOST_SHARE 8          /* of memory: one eighth may hold codes of one column */
#define SLOTS (2 * MOST_VALUES)

/* An open table by checksum and length. */
struct table {
    struct entry {
        uint64_t checksum;
        uint32_t length, code; /* code + 1; 0: free */
    } * at;
    size_t slots;
};

struct coding {
    struct leat_dataset *whole;
    size_t field;
    struct leat_query_stop *stop;
    struct leat_codes *out;
    pthread_mutex_t lock;
    struct table all;
    uint64_t bytes;
    _Atomic uint64_t rows; /* seen */
    _Atomic bool wide, refused;
    struct given *given; /* per part of the base */
};

/* The codes of a source. */
struct given {
    struct leat_source_codes codes;
    uint16_t *to;   /* our codes of its texts */
    bool unchanged; /* they are the same, of the same width */
};

struct state {
    struct table own;
    struct leat_texts texts;
};

static struct entry *find(const struct table *t, uint64_t checksum, uint32_t length)
{
    size_t i = (size_t)(checksum & (t->slots - 1));
    while (t->at[i].code && (t->at[i].checksum != checksum || t->at[i].length != length))
        i = (i + 1) & (t->slots - 1);
    return &t->at[i];
}

/* Ends the coding for good, or to begin again with wider codes. */
static int give_up(struct coding *c, _Atomic bool *why, struct leat_error *error)
{
    atomic_store(why, true);
    return leat_fail(error, LEAT_E_UNSUPPORTED, "the column has no codes");
}

/* Adds a value that no thread has seen; under the lock. */
static int add(struct coding *c, struct entry *e, uint64_t checksum, const void *text, uint32_t length,
               struct leat_error *error)
{
    struct leat_codes *o = c->out;
    c->bytes += length;
    if (o->n_values >= MOST_VALUES || c->bytes > MOST_TEXTS ||
        (o->n_values >= FEW && o->n_values > atomic_load(&c->rows) / 4))
        return give_up(c, &c->refused, error);
    struct leat_code_text *v = &o->values[o->n_values];
    if (!(v->bytes = leat_alloc(length + 1)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the values of a column");
    memcpy(v->bytes, text, length);
    v->length = length;
    o->n_values++;
    *e = (struct entry){checksum, length, o->n_values};
    return LEAT_OK;
}

/* The code of the value at a position, which the thread's own table does not have. `text`: NULL, or its bytes. */
static int learn(struct coding *c, struct state *s, uint64_t position, uint64_t checksum, uint32_t length,
                 const void *text, struct entry *own, struct leat_error *error)
{
    int rc = LEAT_OK;
    pthread_mutex_lock(&c->lock);
    struct entry *e = find(&c->all, checksum, length);
    if (!e->code) {
        if (!text && !(rc = leat_texts_read(c->whole, c->field, &position, 1, &s->texts, error)))
            text = s->texts.at[0];
        if (!rc)
            rc = add(c, e, checksum, text, length, error);
    }
    if (!rc)
        *own = *e;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

static int put(struct coding *c, struct state *s, uint64_t position, uint64_t checksum, uint64_t length,
               const void *text, struct leat_error *error)
{
    if (length > MOST_TEXT)
        return give_up(c, &c->refused, error);
    struct entry *e = find(&s->own, checksum, (uint32_t)length);
    if (!e->code) {
        int rc = learn(c, s, position, checksum, (uint32_t)length, text, e, error);
        if (rc)
            return rc;
    }
    const uint32_t code = e->code - 1;
    if (text && memcmp(c->out->values[code].bytes, text, length) != 0) /* two texts of one checksum */
        return give_up(c, &c->refused, error);
    if (c->out->width == 1 && code > UINT8_MAX)
        return give_up(c, &c->wide, error);
    if (c->out->width == 1)
        ((uint8_t *)c->out->codes)[position] = (uint8_t)code;
    else
        ((uint16_t *)c->out->codes)[position] = (uint16_t)code;
    return LEAT_OK;
}

static bool has_checksums(const struct leat_sample_ref *refs, size_t n, size_t field)
{
    const struct leat_source *last = NULL;
    for (size_t i = 0; i < n; i++) {
        struct leat_sample_ref ref = refs[i];
        size_t of = field;
        if (ref.source == last && ref.source->storage[of])
            continue;
        last = ref.source;
        leat_ref_resolve(&ref, &of);
        if (ref.source->storage[of] != LEAT_STORAGE_EXTENT || !ref.source->v->checksums)
            return false;
    }
    return true;
}

/* Codes of at most LEAT_TEXTS values. */
static int code_some(struct coding *c, struct state *s, uint64_t begin, size_t n, struct leat_error *error)
{
    uint64_t positions[LEAT_TEXTS];
    struct leat_sample_ref refs[LEAT_TEXTS];
    struct leat_extent extents[LEAT_TEXTS];
    size_t failed;
    int rc = LEAT_OK;
    if (!n)
        return LEAT_OK;
    for (size_t i = 0; i < n; i++)
        positions[i] = begin + i;
    leat_dataset_locate(c->whole, positions, n, refs);
    s->texts.may_lack = true; /* such a column has no codes */
    atomic_fetch_add(&c->rows, n);
    if (has_checksums(refs, n, c->field)) {
        rc = leat_dataset_extents(c->whole, c->field, refs, n, extents, &failed, error);
        for (size_t i = 0; i < n && !rc; i++)
            rc = put(c, s, positions[i], extents[i].checksum, extents[i].length, NULL, error);
        return rc;
    }
    for (size_t at = 0; at < n && !rc; at += s->texts.n) {
        rc = leat_texts_read(c->whole, c->field, positions + at, n - at, &s->texts, error);
        for (size_t i = 0; !rc && i < s->texts.n; i++)
            rc = s->texts.lacking[i] ? give_up(c, &c->refused, error) : LEAT_OK;
        for (size_t i = 0; !rc && i < s->texts.n; i++)
            rc = put(c, s, positions[at + i], leat_hash64(s->texts.at[i], s->texts.length[i]), s->texts.length[i],
                     s->texts.at[i], error);
    }
    return rc;
}

/* Codes of n samples of a part, from its sample `first` on, to positions from `at` on. */
static int translate(struct coding *c, const struct given *g, uint64_t first, uint64_t at, uint64_t n,
                     struct leat_error *error)
{
    const unsigned in = g->codes.width, out = c->out->width;
    const uint8_t *from = g->codes.codes + first * in;
    uint8_t *narrow = (uint8_t *)c->out->codes + at;
    uint16_t *wide = (uint16_t *)c->out->codes + at;
    if (g->unchanged && in == out) {
        memcpy((uint8_t *)c->out->codes + at * out, from, (size_t)(n * in));
        return LEAT_OK;
    }
    if (out == 1 && c->out->n_values > UINT8_MAX + 1)
        return give_up(c, &c->wide, error);
    for (uint64_t i = 0; i < n && out == 1; i++)
        narrow[i] = (uint8_t)g->to[in == 1 ? from[i] : leat_get_u16(from + 2 * i)];
    for (uint64_t i = 0; i < n && out == 2; i++)
        wide[i] = g->to[in == 1 ? from[i] : leat_get_u16(from + 2 * i)];
    return LEAT_OK;
}

static int start(void *user, bool asks, void **state, struct leat_error *error)
{
    struct state *s = leat_new(struct state);
    if (s && !(s->own.at = leat_new_array(s->own.slots = SLOTS, sizeof *s->own.at))) {
        leat_free(s);
        s = NULL;
    }
    *state = s;
    return s ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
}

static void end(void *user, void *state)
{
    struct state *s = state;
    if (!s)
        return;
    leat_texts_destroy(&s->texts);
    leat_free(s->own.at);
    leat_free(s);
}

static int run(void *user, void *state, uint64_t block, struct leat_error *error)
{
    struct coding *c = user;
    const uint64_t begin = block * LEAT_QUERY_ROWS, left = c->whole->count - begin,
                   stop = begin + (left < LEAT_QUERY_ROWS ? left : LEAT_QUERY_ROWS);
    const struct leat_base *base = c->whole->base;
    size_t part = leat_base_part_of(base, begin);
    int rc = LEAT_OK;
    for (uint64_t at = begin, n; at < stop && !rc && !atomic_load(&c->stop->stopped); at += n) {
        while (part + 1 < base->n_parts && base->parts[part + 1].first_id <= at)
            part++;
        const struct given *g = &c->given[part];
        n = (part + 1 < base->n_parts && base->parts[part + 1].first_id < stop ? base->parts[part + 1].first_id
                                                                               : stop) -
            at;
        n = !g->codes.memory && n > LEAT_TEXTS ? LEAT_TEXTS : n;
        rc = g->codes.memory ? translate(c, g, at - base->parts[part].first_id, at, n, error)
                             : code_some(c, state, at, (size_t)n, error);
    }
    return rc;
}

void leat_codes_free(struct leat_codes *codes)
{
    if (!codes)
        return;
    for (uint32_t i = 0; codes->values && i < codes->n_values; i++)
        leat_free(codes->values[i].bytes);
    leat_free(codes->values);
    leat_free(codes->codes);
    leat_free(codes);
}

/* One pass with codes of that width. */
static int pass(struct coding *c, unsigned width, struct leat_error *error)
{
    struct leat_query_stop stop = {false};
    const struct leat_query_job job = {c, start, run, end};
    leat_free(c->out->codes);
    c->out->width = width;
    if (!(c->out->codes = leat_alloc(c->whole->count * width + 1)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the codes of a column");
    c->stop = &stop;
    return leat_query_run(&job, (c->whole->count + LEAT_QUERY_ROWS - 1) / LEAT_QUERY_ROWS, &stop, error);
}

/* The texts of a source that has codes. */
static int take_given(struct coding *c, struct state *s, struct given *g, uint64_t rows, struct leat_error *error)
{
    const uint8_t *text = g->codes.texts;
    int rc = LEAT_OK;
    if (!(g->to = leat_new_array(g->codes.n, sizeof *g->to)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the codes of a column");
    atomic_fetch_add(&c->rows, rows);
    g->unchanged = true;
    for (uint32_t i = 0; i < g->codes.n && !rc; i++) {
        const uint32_t length = leat_get_u32(g->codes.lengths + 4 * (size_t)i);
        struct entry e = {0};
        rc = learn(c, s, 0, leat_hash64(text, length), length, text, &e, error);
        if (rc)
            break;
        const struct leat_code_text *known = &c->out->values[e.code - 1];
        if (memcmp(known->bytes, text, length) != 0) /* two texts of one checksum */
            return give_up(c, &c->refused, error);
        g->to[i] = (uint16_t)(e.code - 1);
        g->unchanged &= e.code - 1 == i;
        text += length;
    }
    return rc;
}

/* The codes of the sources. A column that turns out to have too many texts is `refused`. */
static int look_for_given(struct coding *c, struct leat_error *error)
{
    const struct leat_base *base = c->whole->base;
    struct state s = {0};
    int rc = LEAT_OK;
    for (size_t i = 0; i < base->n_parts && !rc; i++) {
        struct leat_source *source = base->parts[i].source;
        if (source->v->codes)
            rc = source->v->codes(source, c->field, &c->given[i].codes, error);
        if (!rc && c->given[i].codes.memory)
            rc = take_given(c, &s, &c->given[i], source->count, error);
        if (!rc && leat_io_interrupted())
            rc = leat_fail(error, LEAT_E_CANCELLED, "the query was interrupted");
    }
    return atomic_load(&c->refused) ? LEAT_OK : rc;
}

static int make(struct leat_dataset *whole, size_t field, struct leat_codes **out, struct leat_error *error)
{
    struct coding c = {.whole = whole, .field = field, .lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t given = 0;
    int rc = LEAT_OK;
    c.out = *out = leat_new(struct leat_codes);
    c.all.at = leat_new_array(c.all.slots = SLOTS, sizeof *c.all.at);
    if (c.out)
        c.out->values = leat_new_array(MOST_VALUES, sizeof *c.out->values);
    c.given = leat_new_array(whole->base->n_parts, sizeof *c.given);
    if (!c.out || !c.all.at || !c.out->values || !c.given) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the codes of a column");
        goto out;
    }
    c.out->changes = leat_dataset_changes(whole);
    if (whole->count > leat_memory_allowed() / MOST_SHARE)
        atomic_store(&c.refused, true);
    else if (!(rc = look_for_given(&c, error)) && !atomic_load(&c.refused)) {
        given = atomic_load(&c.rows);
        if (c.out->n_values > UINT8_MAX + 1)
            atomic_store(&c.wide, true);
        else
            rc = pass(&c, 1, error);
    }
    if (atomic_load(&c.wide) && !atomic_load(&c.refused)) {
        if (whole->count > leat_memory_allowed() / MOST_SHARE / 2) {
            atomic_store(&c.refused, true);
        } else {
            atomic_store(&c.rows, given);
            rc = pass(&c, 2, error);
        }
    }
    if (atomic_load(&c.refused)) {
        rc = LEAT_OK;
        c.out->width = 0;
        leat_free(c.out->codes);
        c.out->codes = NULL;
    }
out:
    for (size_t i = 0; c.given && i < whole->base->n_parts; i++) {
        leat_free(c.given[i].codes.memory);
        leat_free(c.given[i].to);
    }
    leat_free(c.given);
    pthread_mutex_destroy(&c.lock);
    leat_free(c.all.at);
    if (rc) {
        leat_codes_free(*out);
        *out = NULL;
    }
    return rc;
}

int leat_codes_of(struct leat_dataset *whole, size_t field, const struct leat_codes **out, struct leat_error *error)
{
    _Atomic(struct leat_codes *) *slot = &whole->base->codes[field];
    struct leat_codes *found = atomic_load(slot), *none = NULL;
    int rc = LEAT_OK;
    *out = NULL;
    if (found && found->changes != leat_dataset_changes(whole))
        return LEAT_OK; /* the files have changed since: row by row, with the checks that this brings */
    if (!found && !(rc = make(whole, field, &found, error)) && !atomic_compare_exchange_strong(slot, &none, found)) {
        leat_codes_free(found); /* another query was faster */
        found = none;
    }
    if (!rc && found->width)
        *out = found;
    return rc;
}
