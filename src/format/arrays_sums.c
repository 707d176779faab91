/* The values of arrays, and their sums: arrays_sums.h. */
#include "format/arrays_sums.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "io/blocks.h"
#include "io/guard.h"
#include "io/interrupt.h"

enum { PIECE = 4 << 20, ROWS = 65536, TELL = 16 << 20 };

/* ---- reading rows ---------------------------------------------------------------------------- */

/* Elements of rows in the order of Fortran, from where they lie together to where they make up rows. */
struct gather {
    const struct leat_array_column *c;
    uint64_t first, n, count;
    uint8_t *to;
};

static void spread(const struct leat_array_column *c, const uint8_t *from, uint64_t n, uint8_t *to)
{
    const size_t each = leat_dtype_size(c->row.dtype);
    for (uint64_t i = 0; i < n; i++)
        memcpy(to + i * c->row_bytes, from + i * each, each);
}

static int gather_mapped(void *arg)
{
    const struct gather *g = arg;
    const size_t each = leat_dtype_size(g->c->row.dtype);
    for (uint64_t e = 0; e * each < g->c->row_bytes; e++)
        spread(g->c, g->c->base + (e * g->count + g->first) * each, g->n, g->to + e * each);
    return LEAT_OK;
}

static int gather_read(const struct gather *g, struct leat_error *error)
{
    const size_t each = leat_dtype_size(g->c->row.dtype);
    uint8_t *line = leat_new_array((size_t)g->n, each);
    int rc = line ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for values of \"%s\"", g->c->name);
    for (uint64_t e = 0; !rc && e * each < g->c->row_bytes; e++) {
        rc = leat_io_read(g->c->file, g->c->at + (e * g->count + g->first) * each, g->n * each, line, error);
        if (!rc)
            spread(g->c, line, g->n, g->to + e * each);
    }
    leat_free(line);
    return rc;
}

int leat_arrays_fetch(const struct leat_arrays *a, const struct leat_array_column *c, uint64_t first, uint64_t n,
                      uint8_t *to, struct leat_error *error)
{
    struct gather g = {c, first, n, a->source.count, to};
    if (c->fortran)
        return c->base ? leat_guarded(gather_mapped, &g, error) : gather_read(&g, error);
    leat_blocks_ahead(c->file, c->at + first * c->row_bytes, n * c->row_bytes);
    return leat_io_read(c->file, c->at + first * c->row_bytes, n * c->row_bytes, to, error);
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Where rows are summed up: several at a time, or one that is long in pieces. */
struct summing {
    const struct leat_arrays *a;
    const struct leat_open_options *options;
    uint64_t done, told, total; /* bytes */
    uint8_t *raw, *value;
    size_t raw_room, value_room;
    uint64_t (*samples)[2];
};

static int no_memory(const struct summing *s, const struct leat_array_column *c, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory to read \"%s\" of %s", c->name, s->a->path);
}

/* So many more bytes are read. */
static int tell(struct summing *s, uint64_t bytes, struct leat_error *error)
{
    bool stop = leat_io_interrupted();
    s->done += bytes;
    if (s->options->progress && s->done - s->told >= TELL) {
        s->told = s->done;
        stop = s->options->progress(s->options->user, s->done, s->total) || stop;
    }
    return stop ? leat_fail(error, LEAT_E_CANCELLED, "reading %s was stopped", s->a->path) : LEAT_OK;
}

static void take_crc(struct leat_array_column *c, const uint8_t *bytes, uint64_t n)
{
    if (c->checked)
        c->crc_now = libdeflate_crc32(c->crc_now, bytes, (size_t)n);
}

/* The CRC-32 of the bytes up to `end`, which are read in their order. */
static int read_crc(struct summing *s, struct leat_array_column *c, uint64_t end, struct leat_error *error)
{
    int rc = leat_grow(&s->raw, &s->raw_room, PIECE, 1) ? LEAT_OK : no_memory(s, c, error);
    for (uint64_t at = c->crc_at; at < end && !rc; at += PIECE) {
        const uint64_t n = end - at < PIECE ? end - at : PIECE;
        leat_blocks_ahead(c->file, at, end - at);
        if ((rc = leat_io_read(c->file, at, n, s->raw, error)))
            break;
        take_crc(c, s->raw, n);
        rc = tell(s, 0, error);
    }
    return rc;
}

/* That of what lies before the values; of those in the order of Fortran, which the pass reads in another one, of all.
 */
static int begin_crc(struct summing *s, struct leat_array_column *c, struct leat_error *error)
{
    return c->checked ? read_crc(s, c, c->fortran ? c->at + s->a->source.count * c->row_bytes : c->at, error) : LEAT_OK;
}

static int end_crc(const struct summing *s, const struct leat_array_column *c, struct leat_error *error)
{
    if (!c->checked || c->crc_now == c->crc)
        return LEAT_OK;
    return leat_fail_at(error, LEAT_E_CORRUPT, s->a->path, (int64_t)c->crc_at,
                        "%s, byte %" PRIu64 ": the CRC-32 of \"%s\" is another one: it is damaged, copy it again",
                        s->a->path, c->crc_at, c->name);
}

static int sum_long(struct summing *s, struct leat_array_column *c, uint64_t row, struct leat_error *error)
{
    struct leat_hash_pieces hash;
    int rc = LEAT_OK;
    leat_hash_begin(&hash);
    for (uint64_t at = 0; at < c->row_bytes && !rc; at += PIECE) {
        const size_t n = c->row_bytes - at < PIECE ? (size_t)(c->row_bytes - at) : PIECE;
        if ((rc = leat_io_read(c->file, c->at + row * c->row_bytes + at, n, s->raw, error)))
            break;
        leat_hash_add(&hash, s->raw, n);
        take_crc(c, s->raw, n);
        rc = tell(s, n, error);
    }
    leat_fingerprint_value(s->samples[0], leat_hash_end(&hash));
    return rc;
}

static int sum_rows(struct summing *s, struct leat_array_column *c, uint64_t first, uint64_t n,
                    struct leat_error *error)
{
    const bool is_long = !c->turned && c->row_bytes > PIECE; /* then n is 1 */
    if (!leat_grow(&s->raw, &s->raw_room, is_long ? PIECE : (size_t)(n * c->row_bytes), 1) ||
        (c->turned && !leat_grow(&s->value, &s->value_room, (size_t)c->row_bytes, 1)))
        return no_memory(s, c, error);
    if (is_long)
        return sum_long(s, c, first, error);
    const int rc = leat_arrays_fetch(s->a, c, first, n, s->raw, error);
    if (rc)
        return rc;
    if (!c->fortran)
        take_crc(c, s->raw, n * c->row_bytes);
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *value = s->raw + i * c->row_bytes;
        if (c->turned) {
            leat_npy_values(&c->row, value, s->value);
            value = s->value;
        }
        leat_fingerprint_value(s->samples[i], leat_hash64(value, (size_t)c->row_bytes));
    }
    return tell(s, n * c->row_bytes, error);
}

/* Sums up all samples, `some` at a time. */
static int sum_samples(struct summing *s, uint64_t some, uint64_t sums[2], struct leat_error *error)
{
    const uint64_t count = s->a->source.count;
    const size_t n_fields = s->a->source.n_fields;
    int rc = LEAT_OK;
    for (size_t k = 0; k < n_fields && !rc; k++)
        rc = begin_crc(s, &s->a->columns[k], error);
    for (uint64_t first = 0; first < count && !rc; first += some) {
        const uint64_t n = count - first < some ? count - first : some;
        memset(s->samples, 0, (size_t)n * sizeof *s->samples);
        for (size_t k = 0; k < n_fields && !rc; k++)
            rc = sum_rows(s, &s->a->columns[k], first, n, error);
        for (uint64_t i = 0; i < n && !rc; i++)
            leat_fingerprint_append(sums, s->samples[i]);
    }
    for (size_t k = 0; k < n_fields && !rc; k++)
        rc = end_crc(s, &s->a->columns[k], error);
    return rc;
}

static int sum_all(struct leat_arrays *a, const struct leat_open_options *options, uint64_t total, uint64_t sums[2],
                   struct leat_error *error)
{
    struct summing s = {.a = a, .options = options, .total = total};
    uint64_t longest = 1;
    for (size_t k = 0; k < a->source.n_fields; k++)
        longest = a->columns[k].row_bytes > longest ? a->columns[k].row_bytes : longest;
    const uint64_t some = longest >= PIECE ? 1 : PIECE / longest < ROWS ? PIECE / longest : ROWS;
    s.samples = leat_new_array((size_t)some, sizeof *s.samples);
    const int rc = s.samples ? sum_samples(&s, some, sums, error)
                             : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", a->path);
    leat_free(s.samples);
    leat_free(s.raw);
    leat_free(s.value);
    return rc;
}

/* ---- the fingerprint -------------------------------------------------------------------------- */

/* A hash of the arrays that sums are over. The checksum of a member also tells a file that was changed where no piece
 * of it is. */
static uint64_t choice_of(const struct leat_arrays *a)
{
    uint64_t key = a->source.count;
    for (size_t k = 0; k < a->source.n_fields; k++) {
        const struct leat_array_column *c = &a->columns[k];
        uint64_t facts[7 + LEAT_MAX_DIMS] = {
            key,         leat_hash64(c->name, strlen(c->name)),          c->at, c->row.dtype,
            c->row.ndim, (uint64_t)c->row.swapped << 1 | c->row.fortran, c->crc};
        for (unsigned d = 0; d < c->row.ndim; d++)
            facts[7 + d] = c->row.shape[d];
        key = leat_hash64(facts, sizeof facts);
    }
    return key;
}

int leat_arrays_sum(struct leat_arrays *a, const struct leat_open_options *options, struct leat_arrays_kept *kept,
                    struct leat_error *error)
{
    uint64_t total = 0;
    for (size_t k = 0; k < a->source.n_fields; k++)
        total += a->source.count * a->columns[k].row_bytes;
    struct leat_arrays_sums sums = {.choice = choice_of(a)};
    const bool found = leat_arrays_kept_sums(kept, &sums);
    int rc = found ? LEAT_OK : sum_all(a, options, total, sums.sums, error);
    rc = rc ? rc : leat_arrays_refresh(&a->source, error);
    if (rc)
        return rc;
    memcpy(a->source.fingerprint, sums.sums, sizeof sums.sums);
    if (options->index_dir || total >= LEAT_ARRAYS_KEPT)
        leat_arrays_kept_save(kept, options->index_dir, found ? NULL : &sums);
    return LEAT_OK;
}
