/*
 * SpanCorruption: spans of tokens are replaced by sentinels, and are to be predicted (Raffel et al., "T5", 2020;
 * random_spans_noise_mask of its code). round(n * density) of n tokens are noise, at least 1 and at most n - 1, in
 * round(noise / mean) spans, at least 1. Both the noise and the rest are divided at random into so many parts, none of
 * them empty, which alternate, the rest first:
 *
 *     tokens   a b c d e f g h     parts  a b | C D | e f g | H
 *     inputs   a b <0> e f g <1> [eos]
 *     labels   <0> c d <1> h [eos]
 *
 * A division of m into k parts is a uniform choice of k - 1 of m - 1 places, by Floyd's algorithm (Bentley,
 * "Programming Pearls: a sample of brilliance", 1987): draw j is that of [0, m - k + j], taken if it is new, else the
 * largest is. It is leat_tokens_draw(l, h, j) (m - k + j + 1) / 2^32, with l and h the halves of a key: mix(key, 1) for
 * the noise, mix(key, 2) for the rest.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "op/filter.h"
#include "op/token_ops.h"

LEAT_VECTORIZE

#define MAX_TOKENS (INT64_C(1) << 20)
#define DRAWS 32 /* computed together */

struct span_args {
    double density, mean;
    int64_t sentinel, eos, fill, length; /* -1: none; for ragged values their most tokens */
    bool labels;
};

static void parse(void *into, struct leat_args *json)
{
    struct span_args *args = into;
    leat_args_token(json, "sentinel_id", -1, &args->sentinel);
    if (args->sentinel < 0)
        leat_args_wrong(json, "sentinel_id", "given: the id of the first sentinel");
    leat_args_double(json, "density", 1e-6, 1 - 1e-6, 0.15, &args->density);
    leat_args_double(json, "mean_length", 1, 1e6, 3, &args->mean);
    leat_args_token(json, "eos", -1, &args->eos);
    leat_args_token(json, "fill", -1, &args->fill);
    leat_args_int(json, "length", 2, MAX_TOKENS, -1, &args->length);
    args->labels = leat_args_part(json);
}

struct counts {
    uint64_t noise, spans;
};

/* Halves are rounded up, as the double that the product is says. */
static struct counts count(const struct span_args *args, uint64_t n)
{
    struct counts c = {(uint64_t)((double)n * args->density + 0.5), 0};
    c.noise = c.noise < 1 ? 1 : c.noise > n - 1 ? n - 1 : c.noise;
    c.spans = (uint64_t)((double)c.noise / args->mean + 0.5);
    c.spans = c.spans < 1 ? 1 : c.spans;
    c.spans = c.spans > n - c.noise ? n - c.noise : c.spans; /* each needs something before it */
    return c;
}

static uint64_t result(const struct span_args *args, uint64_t n)
{
    const bool eos = args->eos >= 0;
    if (n < 2)
        return args->labels ? eos : n + eos;
    const struct counts c = count(args, n);
    return (args->labels ? c.noise : n - c.noise) + c.spans + eos;
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct span_args *args = from;
    const bool varies = type->shape[0] < 0;
    if (!leat_type_is_tokens(type) || type->shape[0] > MAX_TOKENS || (!varies && type->shape[0] < 2))
        return leat_op_misfit(place, type, "a list of 2 to 2^20 integers", error);
    if (varies && (args->length < 0 || args->fill < 0))
        return leat_op_misfit(
            place, type, "lists of varying length where length= (at most so many tokens) and fill= are given", error);
    const uint64_t most = (uint64_t)(varies ? args->length : type->shape[0]);
    const uint64_t room = result(args, most); /* fewer tokens never give more */
    if (args->sentinel + 1 < (int64_t)count(args, most).spans)
        return leat_fail(error, LEAT_E_INVALID,
                         "SpanCorruption in output '%s' needs up to %" PRIu64
                         " sentinels, and from sentinel_id down to 0 there are %" PRId64,
                         place->output, count(args, most).spans, args->sentinel + 1);
    type->shape[0] = (int64_t)(room ? room : 1);
    type->dtype = LEAT_I64;
    type->range = LEAT_RANGE_PLAIN;
    return LEAT_OK;
}

/* A division of m into parts, as marks of the places behind which one ends: bit i is place i of [0, m - 1). */
struct division {
    uint32_t low, high, first;
    uint64_t *bits;
};

LEAT_INLINE struct division begin_division(uint64_t key, uint64_t m, uint64_t parts, uint64_t *bits)
{
    memset(bits, 0, (m / 64 + 1) * sizeof *bits);
    return (struct division){(uint32_t)key, (uint32_t)(key >> 32), (uint32_t)(m - parts), bits};
}

LEAT_INLINE void draw_some(const struct division *d, uint32_t i, uint32_t drawn[DRAWS])
{
    for (uint32_t k = 0; k < DRAWS; k++) /* those behind the last are left out */
        drawn[k] = (uint32_t)((uint64_t)leat_tokens_draw(d->low, d->high, i + k) * (d->first + i + k + 1) >> 32);
}

LEAT_INLINE void mark(const struct division *d, uint32_t j, uint32_t drawn)
{
    const bool taken = d->bits[drawn / 64] >> drawn % 64 & 1;
    const uint32_t at = taken ? d->first + j : drawn;
    d->bits[at / 64] |= UINT64_C(1) << at % 64;
}

/* Both divisions, which have as many parts. Each mark waits for the one before it in its own division only, so those of
 * the two are made in turns. */
LEAT_INLINE void divide(const struct division *a, const struct division *b, uint64_t parts)
{
    for (uint32_t i = 0, n = (uint32_t)parts - 1; i < n; i += DRAWS) {
        uint32_t drawn[2][DRAWS];
        draw_some(a, i, drawn[0]);
        draw_some(b, i, drawn[1]);
        for (uint32_t k = 0; k < DRAWS && i + k < n; k++) {
            mark(a, i + k, drawn[0][k]);
            mark(b, i + k, drawn[1][k]);
        }
    }
    for (uint32_t k = 0; k < 2; k++) { /* the last part ends with the last */
        const struct division *d = k ? b : a;
        const uint64_t last = d->first + parts - 1;
        d->bits[last / 64] |= UINT64_C(1) << last % 64;
    }
}

/* The end of the part that begins at `from`. Nearly always that is in the 57 bits from there on, which are read
 * together; behind the marks there is a word. */
LEAT_INLINE uint64_t part_end(const uint64_t *bits, uint64_t from)
{
    uint64_t next;
    memcpy(&next, (const uint8_t *)bits + from / 8, sizeof next); /* little endian */
    next >>= from % 8;
    if (__builtin_expect(next != 0, 1))
        return from + (uint64_t)__builtin_ctzll(next) + 1;
    uint64_t word = from / 64, left = bits[word] & (UINT64_MAX << from % 64);
    while (!left)
        left = bits[++word];
    return word * 64 + (uint64_t)__builtin_ctzll(left) + 1;
}

struct corruption {
    const struct span_args *args;
    enum leat_dtype dtype;
    uint64_t key, n, *bits;
    const uint8_t *in;
    struct spans_to {
        int64_t *to; /* NULL: they are not wanted */
        uint64_t room, put;
    } * inputs, *labels;
};

/* The rest, and the labels: the tokens after the marks of `noise` and `rest`. A constant leaves no branch on it in the
 * loop. */
LEAT_INLINE void put_spans(const struct corruption *t, enum leat_dtype dtype, bool with_inputs, bool with_labels,
                           const uint64_t *noise, const uint64_t *rest, uint64_t spans)
{
    const size_t size = leat_dtype_width(dtype);
    const uint64_t n = t->n, room = t->inputs->room, labels_room = t->labels->room;
    const uint8_t *in = t->in;
    int64_t *restrict to = t->inputs->to, *restrict labels = t->labels->to, sentinel = t->args->sentinel;
    uint64_t at[2] = {0, 0}, put = 0, labels_put = 0;
    for (uint64_t s = 0; s < spans; s++, sentinel--) {
        const uint64_t rest_end = part_end(rest, at[0]), noise_end = part_end(noise, at[1]);
        const uint64_t from = at[0] + at[1], middle = rest_end + at[1];
        if (with_inputs) {
            leat_tokens_widen_some(dtype, in + from * size, n - from, to + put, room - put, middle - from, 32);
            put += middle - from;
            to[put++] = sentinel;
        }
        if (with_labels) {
            labels[labels_put++] = sentinel;
            leat_tokens_widen_some(dtype, in + middle * size, n - middle, labels + labels_put, labels_room - labels_put,
                                   noise_end - at[1], 8);
            labels_put += noise_end - at[1];
        }
        at[0] = rest_end;
        at[1] = noise_end;
    }
    t->inputs->put = put;
    t->labels->put = labels_put;
}

LEAT_INLINE void corrupt(const struct corruption *t)
{
    const struct counts c = count(t->args, t->n);
    uint64_t *noise = t->bits, *rest = t->bits + c.noise / 64 + 1;
    const struct division of_noise = begin_division(leat_key_mix(t->key, 1), c.noise, c.spans, noise),
                          of_rest = begin_division(leat_key_mix(t->key, 2), t->n - c.noise, c.spans, rest);
    divide(&of_noise, &of_rest, c.spans);
    if (t->dtype == LEAT_U16 && t->inputs->to && t->labels->to)
        put_spans(t, LEAT_U16, true, true, noise, rest, c.spans);
    else
        put_spans(t, t->dtype, t->inputs->to, t->labels->to, noise, rest, c.spans);
}
LEAT_TOKENS_FOR_EACH_ISA(corrupt, struct corruption)

/* The tokens behind the spans. */
static void end(const struct span_args *args, struct spans_to *t, bool labels)
{
    if (!t->to)
        return;
    if (args->eos >= 0)
        t->to[t->put++] = args->eos;
    for (const int64_t fill = labels ? LEAT_NO_LABEL : args->fill; t->put < t->room; t->put++)
        t->to[t->put] = fill;
}

static int make(const struct leat_use *use, const struct leat_row *row, const void *in, uint64_t length,
                struct spans_to *inputs, struct spans_to *labels, struct leat_error *error)
{
    const struct span_args *args = use->op->args;
    uint64_t n = leat_tokens_count(use->in.dtype, in, length, args->fill >= 0, args->fill);
    if (use->in.shape[0] < 0 && n > (uint64_t)args->length)
        n = (uint64_t)args->length;
    if (n >= 2) {
        uint64_t small[LEAT_MOST_PAIRED / 64 + 3], *bits = small;
        const uint64_t words = n / 64 + 3;
        if (words > sizeof small / sizeof *small && !(bits = leat_new_array(words, sizeof *bits)))
            return leat_fail(error, LEAT_E_NOMEM, "no memory to corrupt %" PRIu64 " tokens", n);
        corrupt_on(&(struct corruption){args, use->in.dtype, leat_key_mix(row->key, use->op->instance), n, bits, in,
                                        inputs, labels});
        if (bits != small)
            leat_free(bits);
    } else if (inputs->to) {
        leat_tokens_widen(use->in.dtype, in, inputs->to, n);
        inputs->put = n;
    }
    end(args, inputs, false);
    end(args, labels, true);
    return LEAT_OK;
}

static int call(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, struct leat_error *error)
{
    const bool labels = ((const struct span_args *)use->op->args)->labels;
    struct spans_to to = {out, (uint64_t)use->out.shape[0], 0}, none = {NULL, 0, 0};
    return make(use, row, in, length, labels ? &none : &to, labels ? &to : &none, error);
}

static int call_both(const struct leat_use *use, const struct leat_use *labels, const char *output,
                     const struct leat_row *row, const void *in, uint64_t length, void *out, void *into,
                     struct leat_error *error)
{
    return make(use, row, in, length, &(struct spans_to){out, (uint64_t)use->out.shape[0], 0},
                &(struct spans_to){into, (uint64_t)labels->out.shape[0], 0}, error);
}

static bool pairs(const void *args, const void *labels)
{
    const struct span_args *a = args, *b = labels;
    return !a->labels && b->labels && a->density == b->density && a->mean == b->mean && a->sentinel == b->sentinel &&
           a->eos == b->eos && a->fill == b->fill && a->length == b->length;
}

static const char *label(const void *from)
{
    return ((const struct span_args *)from)->labels ? "SpanCorruption(labels)" : "SpanCorruption";
}

static bool same_draw(const void *a, const void *b)
{
    const struct span_args *x = a, *y = b;
    return x->density == y->density && x->mean == y->mean && x->fill == y->fill && x->length == y->length;
}

const struct leat_op_class leat_op_span_corruption = {.type = "SpanCorruption",
                                                      .args_bytes = sizeof(struct span_args),
                                                      .random = true,
                                                      .parse = parse,
                                                      .infer = infer,
                                                      .label = label,
                                                      .call = call,
                                                      .call_both = call_both,
                                                      .pairs = pairs,
                                                      .same_draw = same_draw};
