/*
 * MaskTokens: some tokens are hidden, and their ids are what is to be predicted (Devlin et al., "BERT", 2019). One
 * uniform number per token says all: below p it is chosen; below p * replace[0] it becomes the mask, then below
 * p * (replace[0] + replace[1]) a random token; else it stays. Special tokens are never chosen.
 *
 * The upper 16 bits of the number of token i are the i mod 4-th 16 bits of draw i / 4 under the row's key, from the
 * lowest on. They decide almost always. The lower 48 bits, asked for where they do not, are the upper ones of draw i
 * under mix(key, 2). A random token is draw_below(mix(key, 1), i, vocab_size).
 */
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "op/filter.h"
#include "op/token_ops.h"

LEAT_VECTORIZE

#define BLOCK 256
#define SOME 32 /* numbers of which is asked at once whether one means a random token */

struct mask_args {
    int64_t mask, vocabulary, n_special, special[LEAT_MAX_SPECIAL];
    double p, replace[2];
    uint64_t chosen, masked, random; /* numbers below are chosen, become the mask, become that or a random token */
    bool labels;
};

/* A share as a number of 64 bits. */
static uint64_t bound(double share)
{
    const double wide = share * 0x1p64;
    return wide < 0x1p64 ? (uint64_t)wide : UINT64_MAX;
}

static void parse(void *into, struct leat_args *json)
{
    struct mask_args *args = into;
    leat_args_token(json, "mask_id", -1, &args->mask);
    leat_args_token(json, "vocab_size", 0, &args->vocabulary);
    if (args->mask < 0)
        leat_args_wrong(json, "mask_id", "given");
    if (args->vocabulary < 1)
        leat_args_wrong(json, "vocab_size", "given, and above 0");
    if (args->mask >= args->vocabulary)
        leat_args_wrong(json, "mask_id", "below vocab_size");
    args->n_special = leat_args_ints(json, "special_ids", 0, LEAT_MAX_SPECIAL, 0, INT64_C(1) << 53, args->special);
    leat_args_double(json, "p", 0, 1, 0.15, &args->p);
    args->replace[0] = 0.8;
    args->replace[1] = 0.1;
    double replace[2];
    if (leat_args_doubles(json, "replace", 2, 2, replace))
        memcpy(args->replace, replace, sizeof replace);
    if (args->replace[0] < 0 || args->replace[1] < 0 || args->replace[0] + args->replace[1] > 1)
        leat_args_wrong(json, "replace", "two shares from 0 that sum to at most 1");
    args->labels = leat_args_part(json);
    args->chosen = bound(args->p);
    args->masked = bound(args->p * args->replace[0]);
    args->random = bound(args->p * (args->replace[0] + args->replace[1]));
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    if (!leat_type_is_tokens(type) || type->shape[0] < 0)
        return leat_op_misfit(place, type, "a list of integers of fixed length, such as the rows of leat.pack_rows",
                              error);
    type->dtype = LEAT_I64;
    type->range = LEAT_RANGE_PLAIN;
    return LEAT_OK;
}

union numbers {
    uint64_t draws[BLOCK / 4];
    uint16_t of[BLOCK]; /* little endian */
};

/* The upper bits of the numbers of tokens [first, first + BLOCK). */
LEAT_INLINE void draw_block(uint64_t key, uint64_t first, union numbers *numbers)
{
    for (size_t k = 0; k < BLOCK / 4; k++)
        numbers->draws[k] = leat_draw_u64(key, first / 4 + k);
}

/* Special tokens get the number that is never below a bound. */
#define SPARE(type)                                                                                                    \
    for (size_t i = 0; i < BLOCK; i++)                                                                                 \
        numbers[i] = ((const type *)tokens)[i] == (type)special ? UINT16_MAX : numbers[i];                             \
    continue;
LEAT_INLINE void spare_special(const struct mask_args *args, size_t size, const void *tokens,
                               uint16_t *restrict numbers)
{
    for (int64_t s = 0; s < args->n_special; s++) {
        const int64_t special = args->special[s];
        if (size < 8 && special >> 8 * size)
            continue; /* no token of this type */
        switch (size) {
        case 1:
            SPARE(uint8_t)
        case 2:
            SPARE(uint16_t)
        case 4:
            SPARE(uint32_t)
        default:
            SPARE(int64_t)
        }
    }
}

LEAT_INLINE void put_labels(uint16_t chosen, const uint16_t *numbers, int64_t *restrict tokens)
{
    for (size_t i = 0; i < BLOCK; i++)
        tokens[i] = numbers[i] < chosen ? tokens[i] : LEAT_NO_LABEL;
}

LEAT_INLINE void put_masks(uint16_t masked, int64_t mask, const uint16_t *numbers, int64_t *restrict tokens)
{
    for (size_t i = 0; i < BLOCK; i++)
        tokens[i] = numbers[i] < masked ? mask : tokens[i];
}

LEAT_INLINE void put_random(const struct mask_args *args, uint64_t key, uint64_t first, const uint16_t *numbers,
                            int64_t *restrict tokens)
{
    const uint16_t from = (uint16_t)(args->masked >> 48), most = (uint16_t)((args->random >> 48) - from);
    for (size_t some = 0; some < BLOCK; some += SOME) {
        uint16_t found = 0;
        for (size_t i = some; i < some + SOME; i++)
            found |= (uint16_t)(numbers[i] - from) < most; /* it wraps below the first */
        for (size_t i = some; found && i < some + SOME; i++)
            if ((uint16_t)(numbers[i] - from) < most)
                tokens[i] = (int64_t)leat_draw_below(key, first + i, (uint64_t)args->vocabulary);
    }
}

/* Whether the upper bits of some number do not decide. */
LEAT_INLINE bool is_undecided(const struct mask_args *args, const uint16_t *numbers)
{
    const uint16_t a = (uint16_t)(args->chosen >> 48), b = (uint16_t)(args->masked >> 48),
                   c = (uint16_t)(args->random >> 48);
    uint16_t found = 0;
    for (size_t i = 0; i < BLOCK; i++)
        found |= (numbers[i] == a) | (numbers[i] == b) | (numbers[i] == c);
    return found;
}

/* The result of one token by all bits of its number. */
static int64_t decide(const struct mask_args *args, uint64_t key, uint64_t i, uint16_t upper, int64_t token)
{
    const uint64_t number = (uint64_t)upper << 48 | leat_draw_u64(leat_key_mix(key, 2), i) >> 16;
    for (int64_t s = 0; s < args->n_special; s++)
        if (token == args->special[s])
            return args->labels ? LEAT_NO_LABEL : token;
    if (args->labels)
        return number < args->chosen ? token : LEAT_NO_LABEL;
    return number < args->masked   ? args->mask
           : number < args->random ? (int64_t)leat_draw_below(leat_key_mix(key, 1), i, (uint64_t)args->vocabulary)
                                   : token;
}

struct tokens {
    const struct mask_args *args;
    enum leat_dtype dtype;
    const void *src;
    int64_t *dst;
    size_t n;
    uint64_t key;
};

static void settle(const struct tokens *t, const void *src, uint64_t first, const union numbers *numbers, int64_t *to)
{
    const struct mask_args *args = t->args;
    int64_t tokens[BLOCK];
    leat_tokens_widen(t->dtype, src, tokens, BLOCK);
    for (size_t i = 0; i < BLOCK; i++) {
        const uint16_t upper = numbers->of[i];
        if (upper == args->chosen >> 48 || upper == args->masked >> 48 || upper == args->random >> 48)
            to[i] = decide(args, t->key, first + i, upper, tokens[i]);
    }
}

LEAT_INLINE void mask_row(const struct tokens *t)
{
    const struct mask_args *args = t->args;
    const size_t size = leat_dtype_width(t->dtype);
    const uint64_t random_key = leat_key_mix(t->key, 1);
    union numbers numbers;
    int64_t last[2][BLOCK]; /* the tokens of a block that is not full, and what becomes of them */
    for (size_t first = 0; first < t->n; first += BLOCK) {
        const size_t n = t->n - first < BLOCK ? t->n - first : BLOCK;
        const void *src = (const uint8_t *)t->src + first * size;
        int64_t *to = t->dst + first;
        if (n < BLOCK) {
            memset(last[0], 0, sizeof last[0]);
            src = memcpy(last[0], src, n * size);
            to = last[1];
        }
        leat_tokens_widen(t->dtype, src, to, BLOCK);
        draw_block(t->key, first, &numbers);
        spare_special(args, size, src, numbers.of);
        if (args->labels) {
            put_labels((uint16_t)(args->chosen >> 48), numbers.of, to);
        } else {
            put_masks((uint16_t)(args->masked >> 48), args->mask, numbers.of, to);
            put_random(args, random_key, first, numbers.of, to);
        }
        if (is_undecided(args, numbers.of))
            settle(t, src, first, &numbers, to);
        if (n < BLOCK)
            memcpy(t->dst + first, to, n * sizeof *to);
    }
}
LEAT_TOKENS_FOR_EACH_ISA(mask_row, struct tokens)

static int call(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, struct leat_error *error)
{
    mask_row_on(&(struct tokens){use->op->args, use->in.dtype, in, out, (size_t)use->out.shape[0],
                                 leat_key_mix(row->key, use->op->instance)});
    return LEAT_OK;
}

static const char *label(const void *from)
{
    return ((const struct mask_args *)from)->labels ? "MaskTokens(labels)" : "MaskTokens";
}

static bool same_draw(const void *a, const void *b)
{
    return !memcmp(a, b, offsetof(struct mask_args, labels));
}

const struct leat_op_class leat_op_mask_tokens = {.type = "MaskTokens",
                                                  .args_bytes = sizeof(struct mask_args),
                                                  .random = true,
                                                  .parse = parse,
                                                  .infer = infer,
                                                  .label = label,
                                                  .call = call,
                                                  .same_draw = same_draw};
