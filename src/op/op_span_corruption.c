/*
 * SpanCorruption: spans of tokens are replaced by sentinels, and are what is to be predicted (Raffel et al., "T5",
 * 2020; random_spans_noise_mask of its code). Of n tokens round(n * density) are noise, at least 1 and at most n - 1,
 * in round(noise / mean) spans, at least 1. Both the noise and the rest are divided at random into so many parts, none
 * of them empty, which alternate, the rest first:
 *
 *     tokens   a b c d e f g h     parts  a b | C D | e f g | H
 *     inputs   a b <0> e f g <1> [eos]
 *     labels   <0> c d <1> h [eos]
 *
 * A division of m into k parts is a uniform choice of k - 1 of m - 1 places, by Floyd's algorithm (Bentley,
 * "Programming Pearls: a sample of brilliance", 1987): draw j is that of [0, m - k + j], taken if it is new, else the
 * largest is. The noise takes the key mix(key, 1), the rest mix(key, 2).
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

struct span_args {
    double density, mean;
    int64_t sentinel, eos, fill, length; /* -1: none; of ragged values their most tokens */
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

/* Marks the places behind which a part ends: bit i is place i of [0, m - 1). */
static void divide(uint64_t key, uint64_t m, uint64_t parts, uint64_t *bits)
{
    memset(bits, 0, (m / 64 + 1) * sizeof *bits);
    for (uint64_t j = m - parts, i = 0; j < m - 1; j++, i++) {
        uint64_t at = leat_draw_below(key, i, j + 1);
        if (bits[at / 64] >> at % 64 & 1)
            at = j;
        bits[at / 64] |= UINT64_C(1) << at % 64;
    }
    bits[(m - 1) / 64] |= UINT64_C(1) << (m - 1) % 64; /* the last part ends with the last */
}

/* Where the part that begins at `from` ends. */
static uint64_t part_end(const uint64_t *bits, uint64_t from)
{
    uint64_t word = from / 64, left = bits[word] & (UINT64_MAX << from % 64);
    while (!left)
        left = bits[++word];
    return word * 64 + (uint64_t)__builtin_ctzll(left) + 1;
}

struct corruption {
    const struct span_args *args;
    enum leat_dtype dtype;
    uint64_t key, n, room, *bits;
    const uint8_t *in;
    int64_t *to;
    uint64_t *put; /* how many were written */
};

LEAT_INLINE void corrupt(const struct corruption *t)
{
    const struct span_args *args = t->args;
    const size_t size = leat_dtype_width(t->dtype);
    const struct counts c = count(args, t->n);
    uint64_t *noise = t->bits, *rest = t->bits + c.noise / 64 + 1, at[2] = {0, 0}, put = 0;
    divide(leat_key_mix(t->key, 1), c.noise, c.spans, noise);
    divide(leat_key_mix(t->key, 2), t->n - c.noise, c.spans, rest);
    for (uint64_t s = 0; s < c.spans; s++) {
        const uint64_t rest_end = part_end(rest, at[0]), noise_end = part_end(noise, at[1]);
        const uint64_t from = at[1] + (args->labels ? rest_end : at[0]);
        const uint64_t some = args->labels ? noise_end - at[1] : rest_end - at[0];
        if (args->labels) {
            t->to[put++] = args->sentinel - (int64_t)s;
            leat_tokens_widen_some(t->dtype, t->in + from * size, t->n - from, t->to + put, t->room - put, some, 8);
            put += some;
        } else {
            leat_tokens_widen_some(t->dtype, t->in + from * size, t->n - from, t->to + put, t->room - put, some, 32);
            t->to[put += some] = args->sentinel - (int64_t)s;
            put++;
        }
        at[0] = rest_end;
        at[1] = noise_end;
    }
    *t->put = put;
}
LEAT_TOKENS_FOR_EACH_ISA(corrupt, struct corruption)

static int call(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, struct leat_error *error)
{
    const struct span_args *args = use->op->args;
    const uint64_t room = (uint64_t)use->out.shape[0];
    uint64_t n = leat_tokens_count(use->in.dtype, in, length, args->fill >= 0, args->fill), put = 0;
    int64_t *to = out;
    if (use->in.shape[0] < 0 && n > (uint64_t)args->length)
        n = (uint64_t)args->length;
    if (n >= 2) {
        uint64_t small[128], *bits = small;
        const uint64_t words = n / 64 + 3;
        if (words > sizeof small / sizeof *small && !(bits = leat_new_array(words, sizeof *bits)))
            return leat_fail(error, LEAT_E_NOMEM, "no memory to corrupt %" PRIu64 " tokens", n);
        corrupt_on(&(struct corruption){args, use->in.dtype, leat_key_mix(row->key, use->op->instance), n, room, bits,
                                        in, to, &put});
        if (bits != small)
            leat_free(bits);
    } else if (!args->labels) {
        leat_tokens_widen(use->in.dtype, in, to, n);
        put = n;
    }
    if (args->eos >= 0)
        to[put++] = args->eos;
    for (const int64_t fill = args->labels ? LEAT_NO_LABEL : args->fill; put < room; put++)
        to[put] = fill;
    return LEAT_OK;
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
                                                      .same_draw = same_draw};
