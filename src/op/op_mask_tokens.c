/*
 * MaskTokens: some tokens are hidden, and their ids are to be predicted (Devlin et al., "BERT", 2019). One uniform
 * number per token says all: below p it is chosen; below p * replace[0] it becomes the mask, then below p * (replace[0]
 * + replace[1]) a random token; else it stays. Special tokens are never chosen.
 *
 * The upper 16 bits of the number of token i are the lower (i even) or upper half of leat_tokens_draw(l, h, i / 2),
 * with l and h the lower and upper half of the row's key. They decide almost always. The lower 48 bits, used if they do
 * not decide, are the upper ones of draw i under mix(key, 2). A random token is draw_below(mix(key, 1), i, vocab_size).
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "op/filter.h"
#include "op/token_ops.h"

LEAT_VECTORIZE

#define BLOCK 256

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

union numbers {
    uint32_t draws[BLOCK / 2];
    uint16_t of[BLOCK]; /* little endian */
    uint64_t four[BLOCK / 4];
};

/* The upper bits of the numbers of tokens [first, first + BLOCK). */
LEAT_INLINE void draw_block(uint64_t key, uint64_t first, union numbers *numbers)
{
    const uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32), from = (uint32_t)(first / 2);
    for (uint32_t k = 0; k < BLOCK / 2; k++)
        numbers->draws[k] = leat_tokens_draw(low, high, from + k);
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

/* Whether some token is outside of the vocabulary. */
#define BEYOND(type)                                                                                                   \
    {                                                                                                                  \
        type most = 0;                                                                                                 \
        for (size_t i = 0; i < BLOCK; i++)                                                                             \
            most = ((const type *)tokens)[i] > most ? ((const type *)tokens)[i] : most;                                \
        return most >= (type)vocabulary;                                                                               \
    }
LEAT_INLINE bool is_beyond(enum leat_dtype dtype, const void *tokens, int64_t vocabulary)
{
    const size_t size = leat_dtype_width(dtype);
    const bool is_signed = dtype == LEAT_I8 || dtype == LEAT_I16 || dtype == LEAT_I32; /* negative ones look large */
    if (is_signed && vocabulary >> (8 * size - 1))
        vocabulary = INT64_C(1) << (8 * size - 1);
    if (size < 8 && vocabulary >> 8 * size)
        return false;
    switch (size) {
    case 1:
        BEYOND(uint8_t)
    case 2:
        BEYOND(uint16_t)
    case 4:
        BEYOND(uint32_t)
    default:
        BEYOND(uint64_t)
    }
}

/* Tokens whose number is below a bound, or (`hidden`) the others, become `other`. They are chosen in 32 bits if tokens
 * have no more, and are widened as they are written. */
#define PUT(type, wide)                                                                                                \
    for (size_t i = 0; i < BLOCK; i++) {                                                                               \
        const wide token = (wide)((const type *)tokens)[i], there = (wide) - (wide)(numbers[i] < below);               \
        to[i] = (int64_t)((token & (there ^ flip)) | ((wide)other & ~(there ^ flip)));                                 \
    }                                                                                                                  \
    return;
LEAT_INLINE void put_other(enum leat_dtype dtype, const void *tokens, const uint16_t *numbers, uint16_t below,
                           bool hidden, int64_t other, int64_t *restrict to)
{
    const int32_t flip = hidden ? -1 : 0;
    switch (other > INT32_MAX ? LEAT_I64 : dtype) {
    case LEAT_U8:
        PUT(uint8_t, int32_t)
    case LEAT_I8:
        PUT(int8_t, int32_t)
    case LEAT_U16:
        PUT(uint16_t, int32_t)
    case LEAT_I16:
        PUT(int16_t, int32_t)
    case LEAT_I32:
        PUT(int32_t, int32_t)
    default:
        break;
    }
    leat_tokens_widen(dtype, tokens, to, BLOCK);
    for (size_t i = 0; i < BLOCK; i++) {
        const int64_t there = -(int64_t)(numbers[i] < below) ^ flip;
        to[i] = (to[i] & there) | (other & ~there);
    }
}

/* The same of tokens of 16 bits, chosen as such: 16 stand in a register. Labels are made 100 larger, which is taken off
 * again where there is room for -100. */
LEAT_INLINE void put_short(const uint16_t *tokens, const uint16_t *numbers, uint16_t below, bool hidden, uint16_t other,
                           int64_t *restrict to)
{
    uint16_t some[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) {
        const uint16_t there = numbers[i] < below ? UINT16_MAX : 0;
        some[i] = hidden ? (uint16_t)((tokens[i] & ~there) | (other & there))
                         : (uint16_t)((uint16_t)(tokens[i] - LEAT_NO_LABEL) & there);
    }
    for (size_t i = 0; i < BLOCK; i++)
        to[i] = hidden ? (int64_t)some[i] : (int64_t)some[i] + LEAT_NO_LABEL;
}

/* Tokens in 16 bits, or false: some has more. */
#define SHORTEN(type)                                                                                                  \
    {                                                                                                                  \
        type all = 0;                                                                                                  \
        for (size_t i = 0; i < BLOCK; i++) {                                                                           \
            to[i] = (uint16_t)((const type *)tokens)[i];                                                               \
            all |= ((const type *)tokens)[i];                                                                          \
        }                                                                                                              \
        return !(all >> 16);                                                                                           \
    }
LEAT_INLINE bool shorten(size_t size, const void *tokens, uint16_t *restrict to)
{
    if (size == 4)
        SHORTEN(uint32_t)
    SHORTEN(uint64_t)
}

/* Random tokens are few: their places are a byte for each, and eight are read together. */
LEAT_INLINE void put_random(const struct mask_args *args, uint64_t key, uint64_t first, const uint16_t *numbers,
                            int64_t *restrict tokens)
{
    const uint16_t from = (uint16_t)(args->masked >> 48), most = (uint16_t)((args->random >> 48) - from);
    union {
        uint8_t of[BLOCK];
        uint64_t eight[BLOCK / 8];
    } found;
    for (size_t i = 0; i < BLOCK; i++)
        found.of[i] = (uint16_t)(numbers[i] - from) < most; /* it wraps below the first */
    for (size_t k = 0; k < BLOCK / 8; k++)
        for (uint64_t left = found.eight[k]; left; left &= left - 1) {
            const size_t i = 8 * k + (size_t)__builtin_ctzll(left) / 8;
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
static int64_t decide(const struct mask_args *args, bool labels, uint64_t key, uint64_t i, uint16_t upper,
                      int64_t token)
{
    const uint64_t number = (uint64_t)upper << 48 | leat_draw_u64(leat_key_mix(key, 2), i) >> 16;
    for (int64_t s = 0; s < args->n_special; s++)
        if (token == args->special[s])
            return labels ? LEAT_NO_LABEL : token;
    if (labels)
        return number < args->chosen ? token : LEAT_NO_LABEL;
    return number < args->masked   ? args->mask
           : number < args->random ? (int64_t)leat_draw_below(leat_key_mix(key, 1), i, (uint64_t)args->vocabulary)
                                   : token;
}

struct tokens {
    const struct mask_args *args;
    enum leat_dtype dtype;
    const void *src;
    int64_t *dst[2]; /* the tokens, and the labels; NULL: they are not wanted */
    size_t n;
    uint64_t key;
    size_t *beyond; /* the first token that is none of the vocabulary; SIZE_MAX: there is none */
};

/* Special tokens, such as `fill`, may lie beyond the vocabulary. */
static void look_beyond(const struct tokens *t, const void *src, uint64_t first)
{
    const struct mask_args *args = t->args;
    int64_t tokens[BLOCK];
    leat_tokens_widen(t->dtype, src, tokens, BLOCK);
    for (size_t i = 0; i < BLOCK && *t->beyond == SIZE_MAX; i++) {
        bool special = tokens[i] >= 0 && tokens[i] < args->vocabulary;
        for (int64_t s = 0; s < args->n_special; s++)
            special |= tokens[i] == args->special[s];
        if (!special)
            *t->beyond = first + i;
    }
}

static void settle(const struct tokens *t, const void *src, uint64_t first, const union numbers *numbers,
                   int64_t *const to[2])
{
    const struct mask_args *args = t->args;
    int64_t tokens[BLOCK];
    leat_tokens_widen(t->dtype, src, tokens, BLOCK);
    for (size_t i = 0; i < BLOCK; i++) {
        const uint16_t upper = numbers->of[i];
        if (upper != args->chosen >> 48 && upper != args->masked >> 48 && upper != args->random >> 48)
            continue;
        for (int labels = 0; labels < 2; labels++)
            if (to[labels])
                to[labels][i] = decide(args, labels, t->key, first + i, upper, tokens[i]);
    }
}

LEAT_INLINE void mask_row(const struct tokens *t)
{
    const struct mask_args *args = t->args;
    const size_t size = leat_dtype_width(t->dtype);
    const uint64_t random_key = leat_key_mix(t->key, 1);
    union numbers numbers;
    int64_t last[3][BLOCK]; /* the tokens of a block that is not full, and their results */
    uint16_t shorter[BLOCK];
    const bool small = args->vocabulary <= UINT16_MAX + LEAT_NO_LABEL;
    for (size_t first = 0; first < t->n; first += BLOCK) {
        const size_t n = t->n - first < BLOCK ? t->n - first : BLOCK;
        const void *src = (const uint8_t *)t->src + first * size;
        int64_t *to[2];
        for (int k = 0; k < 2; k++)
            to[k] = !t->dst[k] ? NULL : n < BLOCK ? last[k] : t->dst[k] + first;
        if (n < BLOCK) {
            memset(last[2], 0, sizeof last[2]);
            src = memcpy(last[2], src, n * size);
        }
        const uint16_t *tokens = t->dtype == LEAT_U16 ? src : shorter;
        bool is_short = small && (t->dtype == LEAT_U16 || (size > 2 && shorten(size, src, shorter)));
        const bool beyond =
            is_short ? is_beyond(LEAT_U16, tokens, args->vocabulary) : is_beyond(t->dtype, src, args->vocabulary);
        if (beyond) {
            look_beyond(t, src, first);
            is_short = false;
        }
        draw_block(t->key, first, &numbers);
        spare_special(args, is_short ? 2 : size, is_short ? tokens : src, numbers.of);
        if (to[0] && is_short)
            put_short(tokens, numbers.of, (uint16_t)(args->masked >> 48), true, (uint16_t)args->mask, to[0]);
        else if (to[0])
            put_other(t->dtype, src, numbers.of, (uint16_t)(args->masked >> 48), true, args->mask, to[0]);
        if (to[0])
            put_random(args, random_key, first, numbers.of, to[0]);
        if (to[1] && is_short)
            put_short(tokens, numbers.of, (uint16_t)(args->chosen >> 48), false, 0, to[1]);
        else if (to[1])
            put_other(t->dtype, src, numbers.of, (uint16_t)(args->chosen >> 48), false, LEAT_NO_LABEL, to[1]);
        if (is_undecided(args, numbers.of))
            settle(t, src, first, &numbers, to);
        for (int k = 0; k < 2 && n < BLOCK; k++)
            if (to[k])
                memcpy(t->dst[k] + first, to[k], n * sizeof *to[k]);
    }
}
LEAT_TOKENS_FOR_EACH_ISA(mask_row, struct tokens)

static int mask(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, int64_t *tokens, int64_t *labels, struct leat_error *error)
{
    const struct mask_args *args = use->op->args;
    size_t beyond = SIZE_MAX;
    mask_row_on(&(struct tokens){args,
                                 use->in.dtype,
                                 in,
                                 {tokens, labels},
                                 leat_list_count(use, length),
                                 leat_key_mix(row->key, use->op->instance),
                                 &beyond});
    if (beyond == SIZE_MAX)
        return LEAT_OK;
    int64_t token;
    leat_tokens_widen(use->in.dtype, (const uint8_t *)in + beyond * leat_dtype_width(use->in.dtype), &token, 1);
    return leat_fail(error, LEAT_E_OPERATOR,
                     "MaskTokens in output '%s': token %" PRId64 " at place %zu is none of a vocabulary of %" PRId64
                     ", nor of special_ids",
                     output, token, beyond, args->vocabulary);
}

static int call(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, struct leat_error *error)
{
    const struct mask_args *args = use->op->args;
    return mask(use, output, row, in, length, args->labels ? NULL : out, args->labels ? out : NULL, error);
}

static int call_both(const struct leat_use *use, const struct leat_use *labels, const char *output,
                     const struct leat_row *row, const void *in, uint64_t length, void *out, void *into,
                     struct leat_error *error)
{
    return mask(use, output, row, in, length, out, into, error);
}

static bool pairs(const void *args, const void *labels)
{
    const struct mask_args *a = args, *b = labels;
    return !a->labels && b->labels && !memcmp(a, b, offsetof(struct mask_args, labels));
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
                                                  .infer = leat_infer_tokens,
                                                  .label = label,
                                                  .count = leat_count_tokens,
                                                  .call = call,
                                                  .call_both = call_both,
                                                  .pairs = pairs,
                                                  .same_draw = same_draw};
