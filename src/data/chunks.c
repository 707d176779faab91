/*
 * Values of a source that decodes many samples at a time. A block of the cache is one field of one chunk:
 *
 *     +--------+------------------------+------------------------+-----------+
 *     | column | values, as they are    | offsets, if they vary  | marks     |
 *     +--------+------------------------+------------------------+-----------+
 *
 * Samples are asked for in any order. They are sorted by chunk, the blocks of a chunk are pinned once, and what is not
 * in the cache is decoded by one call for all fields. Values are not copied: the caller's values hold the blocks in
 * which they lie, as long as these are a small part of the cache.
 */
#include "data/chunks.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/search.h"
#include "io/blocks.h"

/* The values of one call hold at most this part of the cache, so that the calls of some threads leave room for what
 * they read next. */
#define HOLD_PART 8

/* The cache is too small for a source of which this part of the blocks was made again. */
#define AGAIN_PART 8

struct leat_chunks {
    const struct leat_store_layout *layout;
    size_t n_fields;
    uint64_t n_chunks;
    uint64_t *begins; /* n_chunks + 1: the first sample of each; the last is their number */
    leat_decode_fn decode;
    leat_compute_fn compute;
    void *user;
    struct leat_io_file *blocks; /* of chunk c and field f: c * n_fields + f */
    size_t n_blocks;
    _Atomic uint8_t *made; /* a bit for each block that was made before */
    _Atomic size_t again;  /* blocks that were made again, */
    _Atomic bool calls;    /* ... and whether `compute` was called for some values */
};

struct column {
    uint64_t offsets_at, marks_at; /* bytes from here on; 0: there are none */
    bool by_samples;               /* the source gave no bytes: its samples are computed one by one */
    uint8_t values[];
};

struct leat_chunk {
    const struct leat_chunks *chunks;
    const struct leat_values *asker;
    const size_t *fields;
    size_t n_fields;
    uint64_t rows;
    struct leat_made_block *made;
};

/* Samples of a shuffled batch lie anywhere in a column: with small pages the processor waits for the address of nearly
 * each. Only whole huge pages within the column are asked for, so that it takes no more memory than it has bytes. */
static void wish_huge_pages(const void *memory, uint64_t bytes)
{
    const uintptr_t huge = (uintptr_t)2 << 20, at = (uintptr_t)memory;
    const uintptr_t begin = (at + huge - 1) & ~(huge - 1), end = (at + (uintptr_t)bytes) & ~(huge - 1);
    if (begin < end)
        madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* kernels without them refuse it */
}

/* ---- decoding -------------------------------------------------------------------------------- */

static struct column *new_column(struct leat_made_block *to, uint64_t values, uint64_t offsets, uint64_t marks)
{
    uint64_t offsets_at, marks_at, bytes;
    if (!leat_add_u64(sizeof(struct column) + 7, values, &offsets_at) ||
        !leat_add_u64(offsets_at &= ~UINT64_C(7), offsets, &marks_at) || !leat_add_u64(marks_at, marks, &bytes) ||
        bytes > SIZE_MAX)
        return NULL;
    struct column *c = leat_alloc((size_t)bytes);
    if (!c)
        return NULL;
    wish_huge_pages(c, bytes);
    *c = (struct column){.offsets_at = offsets ? offsets_at : 0, .marks_at = marks ? marks_at : 0};
    *to = (struct leat_made_block){(uint8_t *)c, bytes};
    return c;
}

static int64_t offset_at(const void *offsets, unsigned bytes, uint64_t i)
{
    return bytes == 4 ? ((const int32_t *)offsets)[i] : ((const int64_t *)offsets)[i];
}

/* Whether offsets ascend within `steps`. */
static bool are_offsets(const void *offsets, unsigned bytes, uint64_t rows, uint64_t steps)
{
    int64_t before = 0;
    for (uint64_t i = 0; i <= rows; i++) {
        const int64_t at = offset_at(offsets, bytes, i);
        if (at < before)
            return false;
        before = at;
    }
    return (uint64_t)before <= steps;
}

int leat_chunk_put(struct leat_chunk *chunk, size_t field_index, const void *values, uint64_t bytes,
                   const void *offsets, unsigned offset_bytes, const uint8_t *marks)
{
    if (field_index >= chunk->n_fields || chunk->made[field_index].data)
        return LEAT_E_INVALID;
    const struct leat_store_field *info = &chunk->chunks->layout->info[chunk->fields[field_index]];
    const uint64_t rows = chunk->rows;
    uint64_t from = 0, whole = 0;
    if (!info->varying && (offsets || !leat_mul_u64(rows, info->unit, &whole) || whole != bytes))
        return LEAT_E_INVALID;
    if (info->varying) {
        if (!offsets || (offset_bytes != 4 && offset_bytes != 8) ||
            !are_offsets(offsets, offset_bytes, rows, bytes / info->unit))
            return LEAT_E_INVALID;
        from = (uint64_t)offset_at(offsets, offset_bytes, 0);
        whole = ((uint64_t)offset_at(offsets, offset_bytes, rows) - from) * info->unit;
    }
    struct column *c = rows > SIZE_MAX / 8 - 1
                           ? NULL
                           : new_column(&chunk->made[field_index], whole,
                                        info->varying ? (rows + 1) * sizeof(uint64_t) : 0, marks ? rows : 0);
    if (!c)
        return LEAT_E_NOMEM;
    if (whole)
        memcpy(c->values, (const uint8_t *)values + from * info->unit, (size_t)whole);
    uint64_t *const to = (uint64_t *)(void *)((uint8_t *)c + c->offsets_at);
    for (uint64_t i = 0; info->varying && i <= rows; i++)
        to[i] = (uint64_t)offset_at(offsets, offset_bytes, i) - from;
    if (marks && rows)
        memcpy((uint8_t *)c + c->marks_at, marks, (size_t)rows);
    return LEAT_OK;
}

bool leat_chunk_cancelled(const struct leat_chunk *chunk)
{
    return leat_values_cancelled(chunk->asker);
}

/* Makes blocks of one chunk. */
static int make_blocks(void *user, const size_t *blocks, size_t n, struct leat_made_block *to, void *asker,
                       struct leat_error *error)
{
    struct leat_chunks *c = user;
    const uint64_t number = blocks[0] / c->n_fields;
    size_t *fields = leat_new_array(n, sizeof *fields);
    int rc = fields ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to decode a chunk");
    for (size_t k = 0; k < n && fields; k++)
        fields[k] = blocks[k] % c->n_fields;
    struct leat_chunk chunk = {c, asker, fields, n, c->begins[number + 1] - c->begins[number], to};
    if (!rc)
        rc = c->decode(c->user, fields, n, number, &chunk, error);
    for (size_t k = 0; k < n && !rc; k++) {
        struct column *column;
        const uint8_t bit = (uint8_t)(1 << blocks[k] % 8);
        if (atomic_fetch_or_explicit(&c->made[blocks[k] / 8], bit, memory_order_relaxed) & bit)
            atomic_fetch_add_explicit(&c->again, 1, memory_order_relaxed);
        if (to[k].data)
            continue;
        atomic_store_explicit(&c->calls, true, memory_order_relaxed);
        if ((column = new_column(&to[k], 0, 0, 0)))
            column->by_samples = true;
        else
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory to decode a chunk");
    }
    for (size_t k = 0; k < n && rc; k++) {
        leat_free(to[k].data);
        to[k].data = NULL;
    }
    leat_free(fields);
    return rc;
}

/* ---- samples by chunk ------------------------------------------------------------------------ */

enum { NONE = UINT32_MAX };

/* The samples of a call, as lists of those in one chunk. */
struct sorted {
    size_t n_lists, mask;
    uint64_t *chunk;                     /* of each list */
    uint32_t *first, *last, *next, *map; /* of each list; of each sample; from the hash of a chunk to its list */
    struct leat_pin *pins;               /* of the fields of a chunk */
    size_t *blocks, *rest;               /* likewise; the fields, and their indices, that are computed by samples */
    bool *by_samples, open;              /* of each field; some value is begun, or missing where one has to be */
};

static void *carve(uint8_t *base, uint64_t *at, uint64_t n, size_t each)
{
    void *p = base ? base + *at : NULL;
    *at += leat_align64(n * each);
    return p;
}

static uint64_t lay_out(struct sorted *s, uint8_t *base, size_t n, size_t n_fields)
{
    uint64_t at = 0;
    s->chunk = carve(base, &at, n, sizeof *s->chunk);
    s->first = carve(base, &at, n, sizeof *s->first);
    s->last = carve(base, &at, n, sizeof *s->last);
    s->next = carve(base, &at, n, sizeof *s->next);
    s->map = carve(base, &at, s->mask + 1, sizeof *s->map);
    s->pins = carve(base, &at, n_fields, sizeof *s->pins);
    s->blocks = carve(base, &at, n_fields, sizeof *s->blocks);
    s->rest = carve(base, &at, 2 * n_fields, sizeof *s->rest);
    s->by_samples = carve(base, &at, n_fields, sizeof *s->by_samples);
    return at;
}

/* NULL: no memory. Free it with leat_free. */
static void *sort(struct sorted *s, const struct leat_chunks *c, const uint64_t *samples, size_t n, size_t n_fields)
{
    *s = (struct sorted){.mask = 1};
    while (s->mask < n && s->mask < UINT32_MAX)
        s->mask = 2 * s->mask + 1;
    uint8_t *memory = n < UINT32_MAX / 4 ? leat_alloc(lay_out(s, NULL, n, n_fields)) : NULL;
    if (!memory)
        return NULL;
    lay_out(s, memory, n, n_fields);
    memset(s->map, 0xff, (s->mask + 1) * sizeof *s->map);
    memset(s->by_samples, 0, n_fields * sizeof *s->by_samples);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t chunk = LEAT_BISECT(k, 0, c->n_chunks, c->begins[k + 1] <= samples[i]);
        size_t at = (size_t)(chunk * UINT64_C(0x9e3779b97f4a7c15) >> 32) & s->mask;
        while (s->map[at] != NONE && s->chunk[s->map[at]] != chunk)
            at = (at + 1) & s->mask;
        const uint32_t list = s->map[at];
        if (list == NONE) {
            s->map[at] = (uint32_t)s->n_lists;
            s->chunk[s->n_lists] = chunk;
            s->first[s->n_lists] = s->last[s->n_lists] = i;
            s->n_lists++;
        } else {
            s->next[s->last[list]] = i;
            s->last[list] = i;
        }
        s->next[i] = NONE;
    }
    return memory;
}

/* ---- taking ---------------------------------------------------------------------------------- */

static int no_memory(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for values of a chunk");
}

/* The values of a field of the samples in a chunk. With `held` they stay where they lie. */
static int take_values(const struct leat_chunks *c, size_t field, size_t index, const struct column *column,
                       struct sorted *s, size_t list, const uint64_t *samples, bool held, struct leat_values *out)
{
    const struct leat_store_field *info = &c->layout->info[field];
    const uint64_t begin = c->begins[s->chunk[list]];
    const uint64_t *offsets = (const uint64_t *)(const void *)((const uint8_t *)column + column->offsets_at);
    const uint8_t *marks = column->marks_at ? (const uint8_t *)column + column->marks_at : NULL;
    for (uint32_t i = s->first[list]; i != NONE; i = s->next[i]) {
        const uint64_t row = samples[i] - begin;
        const uint64_t at = info->varying ? offsets[row] * info->unit : row * info->unit;
        const uint64_t bytes = info->varying ? (offsets[row + 1] - offsets[row]) * info->unit : info->unit;
        const uint8_t mark = marks ? marks[row] : LEAT_MARK_VALUE;
        if (mark == LEAT_MARK_NONE) {
            s->open |= !out->may_lack;
            if (out->may_lack)
                leat_values_lack(out, index, i);
            continue;
        }
        if (held) {
            __builtin_prefetch(column->values + at);
            leat_values_point(out, index, i, column->values + at, bytes);
        } else if (leat_values_put(out, index, i, column->values + at, bytes)) {
            return LEAT_E_NOMEM;
        }
        if (mark)
            s->open = out->at[index * out->n_samples + i].begun = true;
    }
    return LEAT_OK;
}

static uint64_t bytes_of(const struct leat_pin *pins, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += pins[i].bytes;
    return sum;
}

static int take_chunk(struct leat_chunks *c, const size_t *fields, size_t n_fields, struct sorted *s, size_t list,
                      const uint64_t *samples, struct leat_values *out, struct leat_error *error)
{
    for (size_t f = 0; f < n_fields; f++)
        s->blocks[f] = (size_t)s->chunk[list] * c->n_fields + fields[f];
    int rc = leat_blocks_pin(c->blocks, s->blocks, n_fields, out, s->pins, error);
    if (rc)
        return rc;
    const bool held =
        bytes_of(out->pins, out->n_pins) + bytes_of(s->pins, n_fields) <= leat_blocks_allowed() / HOLD_PART;
    for (size_t f = 0; f < n_fields && !rc; f++) {
        const struct column *column = (const struct column *)(const void *)s->pins[f].data;
        s->by_samples[f] |= column->by_samples;
        if (s->by_samples[f])
            continue;
        if (take_values(c, fields[f], f, column, s, list, samples, held, out) ||
            (held && leat_values_hold(out, &s->pins[f])))
            rc = no_memory(error);
    }
    leat_blocks_unpin(s->pins, n_fields);
    return rc;
}

/* Fields whose samples are computed: all samples of them. */
static int compute_fields(struct leat_chunks *c, const size_t *fields, size_t n_fields, struct sorted *s,
                          const uint64_t *samples, size_t n, struct leat_values *out, size_t *failed,
                          struct leat_error *error)
{
    struct leat_values part;
    size_t k = 0;
    for (size_t f = 0; f < n_fields; f++)
        if (s->by_samples[f]) {
            s->rest[k] = fields[f];
            s->rest[n_fields + k++] = f;
        }
    if (!k)
        return LEAT_OK;
    if (k == n_fields)
        return c->compute(c->user, fields, n_fields, samples, n, out, failed, error);
    if (leat_values_init(&part, k, n))
        return no_memory(error);
    part.cancelled = out->cancelled;
    part.may_lack = out->may_lack;
    int rc = c->compute(c->user, s->rest, k, samples, n, &part, failed, error);
    for (size_t f = 0; f < k && !rc; f++)
        if (leat_values_take(out, s->rest[n_fields + f], 0, &part, f))
            rc = no_memory(error);
    leat_values_destroy(&part);
    return rc;
}

static bool is_open(const struct leat_computed *c)
{
    return !c->data || c->begun;
}

/* The samples of a field whose values are begun, or that have none and need one, in one call. */
static int finish_field(struct leat_chunks *c, size_t field, size_t index, const uint64_t *samples, size_t n,
                        struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct leat_computed *at = &out->at[index * n], *begun;
    size_t n_open = 0, k = 0, bad;
    for (size_t i = 0; i < n; i++)
        n_open += is_open(&at[i]);
    if (!n_open)
        return LEAT_OK;
    atomic_store_explicit(&c->calls, true, memory_order_relaxed);
    uint64_t *numbers = leat_new_array(n_open, sizeof *numbers);
    struct leat_values part = {0};
    begun = leat_new_array(n_open, sizeof *begun);
    int rc = numbers && begun && !leat_values_init(&part, 1, n_open) ? LEAT_OK : no_memory(error);
    for (size_t i = 0; i < n && !rc; i++)
        if (is_open(&at[i])) {
            begun[k] = at[i];
            numbers[k++] = samples[i];
        }
    bad = n_open;
    part.cancelled = out->cancelled;
    part.begun = begun;
    if (!rc)
        rc = c->compute(c->user, &field, 1, numbers, n_open, &part, &bad, error);
    k = 0;
    for (size_t i = 0; i < n && (!rc || bad < n_open); i++) {
        if (!is_open(&at[i]))
            continue;
        if (rc && k == bad) {
            *failed = i;
            break;
        }
        if (!rc && !part.at[k].data)
            at[i] = (struct leat_computed){0};
        else if (!rc && leat_values_put(out, index, i, part.at[k].data, part.at[k].bytes))
            rc = no_memory(error);
        k++;
    }
    leat_values_destroy(&part);
    leat_free(numbers);
    leat_free(begun);
    return rc;
}

int leat_chunks_compute(struct leat_chunks *c, const size_t *fields, size_t n_fields, const uint64_t *samples, size_t n,
                        struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct sorted s;
    *failed = n;
    void *memory = sort(&s, c, samples, n, n_fields);
    int rc = memory ? LEAT_OK : no_memory(error);
    for (size_t list = 0; list < s.n_lists && !rc; list++)
        if ((rc = take_chunk(c, fields, n_fields, &s, list, samples, out, error)))
            *failed = rc == LEAT_E_DECODE ? s.first[list] : n;
    if (!rc)
        rc = compute_fields(c, fields, n_fields, &s, samples, n, out, failed, error);
    for (size_t f = 0; f < n_fields && !rc && s.open; f++)
        if (!s.by_samples[f])
            rc = finish_field(c, fields[f], f, samples, n, out, failed, error);
    leat_free(memory);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

int leat_chunks_new(const struct leat_store_layout *layout, size_t n_fields, const uint64_t *rows, uint64_t n_chunks,
                    leat_decode_fn decode, leat_compute_fn compute, void *user, struct leat_chunks **out,
                    struct leat_error *error)
{
    uint64_t n_blocks, sum = 0;
    struct leat_chunks *c = leat_new(struct leat_chunks);
    *out = NULL;
    if (c)
        *c = (struct leat_chunks){.layout = layout,
                                  .n_fields = n_fields,
                                  .n_chunks = n_chunks,
                                  .decode = decode,
                                  .compute = compute,
                                  .user = user};
    if (!c || n_chunks == UINT64_MAX || !leat_mul_u64(n_chunks, n_fields, &n_blocks) || n_blocks > SIZE_MAX ||
        !(c->begins = leat_new_array((size_t)n_chunks + 1, sizeof *c->begins)) ||
        !(c->made = leat_new_array((size_t)(n_blocks / 8 + 1), sizeof *c->made))) {
        leat_chunks_free(c);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a data set of %" PRIu64 " chunks", n_chunks);
    }
    for (uint64_t i = 0; i < n_chunks; i++) {
        if (!leat_add_u64(sum, rows[i], &sum) || sum > INT64_MAX) {
            leat_chunks_free(c);
            return leat_fail(error, LEAT_E_RANGE, "a data set has less than 2^63 samples");
        }
        c->begins[i + 1] = sum;
    }
    c->n_blocks = (size_t)n_blocks;
    const struct leat_blocks blocks = {.path = "a source", .n = (size_t)n_blocks, .make = make_blocks, .user = c};
    const int rc = leat_blocks_open(&blocks, &c->blocks, error);
    if (rc)
        leat_chunks_free(c);
    else
        *out = c;
    return rc;
}

void leat_chunks_free(struct leat_chunks *c)
{
    if (!c)
        return;
    leat_io_release(c->blocks);
    leat_free(c->begins);
    leat_free((void *)c->made);
    leat_free(c);
}

size_t leat_chunks_ask_many(const struct leat_chunks *c)
{
    if (atomic_load_explicit(&c->again, memory_order_relaxed) > c->n_blocks / AGAIN_PART)
        return LEAT_ASKED_OF_CHUNKS;
    return atomic_load_explicit(&c->calls, memory_order_relaxed) ? LEAT_ASKED_OF_CALLS : 0;
}

uint64_t leat_chunks_count(const struct leat_chunks *c)
{
    return c->begins[c->n_chunks];
}
