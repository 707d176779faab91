/*
 * FillInTheMiddle: documents are cut in three, and the middle is moved to the end, so that a model learns to fill it in
 * (Bavarian et al., "Efficient Training of Language Models to Fill in the Middle", 2022). In a row of several documents
 * each is changed by itself: they end with `eos`, which stays where it is. A document keeps its length, so that
 * doc_ids and positions of packed rows hold: its last three tokens make room for the three that mark the parts.
 *
 *     document        prefix          middle         suffix
 *     PSM             <PRE> prefix    <SUF> suffix   <MID> middle
 *     SPM             <PRE> <SUF> suffix    <MID> prefix middle      (variant 2 of the paper)
 *
 * Document d of a row, counted from 0, draws with key' = mix(key, d): unit 0 below `rate` changes it, unit 1 below
 * `spm` in the second way; draws 2 and 3 of [0, m] are the cuts, m being its length without the three. Documents of
 * fewer than 4 tokens stay.
 */
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "op/filter.h"
#include "op/token_ops.h"

LEAT_VECTORIZE

struct fim_args {
    int64_t prefix, middle, suffix, eos, fill; /* the last two: -1 is none */
    double rate, spm;
};

static void parse(void *into, struct leat_args *json)
{
    struct fim_args *args = into;
    leat_args_token(json, "prefix_id", -1, &args->prefix);
    leat_args_token(json, "middle_id", -1, &args->middle);
    leat_args_token(json, "suffix_id", -1, &args->suffix);
    if (args->prefix < 0 || args->middle < 0 || args->suffix < 0)
        leat_args_wrong(json, "prefix_id", "given, and so middle_id and suffix_id");
    leat_args_double(json, "rate", 0, 1, 0.5, &args->rate);
    leat_args_double(json, "spm", 0, 1, 0.5, &args->spm);
    leat_args_token(json, "eos", -1, &args->eos);
    leat_args_token(json, "fill", -1, &args->fill);
}

LEAT_INLINE int64_t *put(int64_t *at, const uint8_t *in, enum leat_dtype dtype, uint64_t from, uint64_t until)
{
    leat_tokens_widen(dtype, in + from * leat_dtype_width(dtype), at, (size_t)(until - from));
    return at + (until - from);
}

/* A document of n tokens without eos. */
LEAT_INLINE void move_middle(const struct fim_args *args, enum leat_dtype dtype, uint64_t key, const uint8_t *in,
                             uint64_t n, int64_t *to)
{
    if (n < 4 || !(leat_draw_unit(key, 0) < args->rate))
        return; /* it stands there already */
    const uint64_t m = n - 3, x = leat_draw_below(key, 2, m + 1), y = leat_draw_below(key, 3, m + 1);
    const uint64_t a = x < y ? x : y, b = x < y ? y : x;
    const bool spm = leat_draw_unit(key, 1) < args->spm;
    *to++ = args->prefix;
    if (!spm)
        to = put(to, in, dtype, 0, a);
    *to++ = args->suffix;
    to = put(to, in, dtype, b, m);
    *to++ = args->middle;
    put(to, in, dtype, spm ? 0 : a, b);
}

struct row {
    const struct fim_args *args;
    enum leat_dtype dtype;
    uint64_t key, n, all;
    const uint8_t *in;
    int64_t *to;
};

/* The first token from `from` on that is `wanted`, or n. */
LEAT_INLINE uint64_t find(const int64_t *tokens, uint64_t from, uint64_t n, int64_t wanted)
{
    enum { SOME = 32 };
    for (; from + SOME <= n; from += SOME) {
        unsigned found = 0;
        for (size_t i = 0; i < SOME; i++)
            found |= tokens[from + i] == wanted;
        if (found)
            break;
    }
    while (from < n && tokens[from] != wanted)
        from++;
    return from;
}

LEAT_INLINE void fill_row(const struct row *t)
{
    const struct fim_args *args = t->args;
    put(t->to, t->in, t->dtype, 0, t->all);
    for (uint64_t begin = 0, d = 0, end; begin < t->n; begin = end + 1, d++) {
        end = args->eos < 0 ? t->n : find(t->to, begin, t->n, args->eos);
        move_middle(args, t->dtype, leat_key_mix(t->key, d), t->in + begin * leat_dtype_width(t->dtype), end - begin,
                    t->to + begin);
    }
}
LEAT_TOKENS_FOR_EACH_ISA(fill_row, struct row)

static int call(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, struct leat_error *error)
{
    const struct fim_args *args = use->op->args;
    const uint64_t n = leat_tokens_count(use->in.dtype, in, length, args->fill >= 0, args->fill);
    fill_row_on(&(struct row){args, use->in.dtype, leat_key_mix(row->key, use->op->instance), n,
                              leat_list_count(use, length), in, out});
    return LEAT_OK;
}

static const char *label(const void *args)
{
    return "FillInTheMiddle";
}

const struct leat_op_class leat_op_fill_in_the_middle = {.type = "FillInTheMiddle",
                                                         .args_bytes = sizeof(struct fim_args),
                                                         .random = true,
                                                         .parse = parse,
                                                         .infer = leat_infer_tokens,
                                                         .label = label,
                                                         .count = leat_count_tokens,
                                                         .call = call};
