/*
 * Lookup: letters become tokens by one table of 256 entries, without text in between. Two tables have names:
 *
 *     esm2        the vocabulary of ESM-2 (Lin et al., "Evolutionary-scale prediction of atomic-level protein structure
 *                 with a language model", 2023): <cls> <pad> <eos> <unk>, the letters below from 4 on, <null_1> 31,
 *                 <mask> 32
 *     nucleotide  the codes of nucleotides (IUPAC) and "-" as the bytes that they are, as Evo 2 has them
 *
 * `bos` and `eos` stand around the tokens of each row. The mask of the loss is an output of its own ("part"): whether
 * a letter is one of `loss_mask`, in either case; bos and eos are not.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "op/byte_table.h"
#include "op/filter.h"
#include "op/token_ops.h"

LEAT_VECTORIZE

#define BLOCK 512
#define NO_TOKEN 255 /* in a table of bytes */

struct lookup_args {
    int64_t table[256], bos, eos;     /* -1: none */
    uint8_t small[256], learned[256]; /* the table, if all tokens are below NO_TOKEN; whether a letter is learned */
    bool is_small, partial, mask;     /* partial: some byte has no token */
};

static const struct {
    const char *name, *letters;
    int64_t first, unknown, bos, eos; /* first: the token of the first letter; -1: letters are their own tokens */
} named[] = {{"esm2", "LAGVSERTIDPKQNFYMHWCXBUZO.-", 4, 3, 0, 2},
             {"nucleotide", "ACGTURYSWKMBDHVNacgturyswkmbdhvn-", -1, -1, -1, -1}};

/* ---- arguments ---- */

/* By name. The tokens beside letters are those of the table. */
static bool take_named(struct lookup_args *args, const char *name, int64_t *unknown)
{
    for (unsigned k = 0; k < sizeof named / sizeof *named; k++) {
        if (strcmp(named[k].name, name) != 0)
            continue;
        for (unsigned i = 0; named[k].letters[i]; i++) {
            const uint8_t letter = (uint8_t)named[k].letters[i];
            args->table[letter] = named[k].first < 0 ? letter : named[k].first + i;
        }
        *unknown = named[k].unknown;
        args->bos = named[k].bos;
        args->eos = named[k].eos;
        return true;
    }
    return false;
}

static bool take_token(const json_t *value, bool may_lack, int64_t *to)
{
    const json_int_t token = json_integer_value(value);
    *to = token < 0 ? -1 : token;
    return json_is_integer(value) && (token >= 0 || may_lack) && token < INT64_C(1) << 53;
}

static bool take_table(struct lookup_args *args, const json_t *table, int64_t *unknown)
{
    const char *letter;
    json_t *value;
    if (json_is_string(table))
        return take_named(args, json_string_value(table), unknown);
    if (json_is_array(table)) {
        bool good = json_array_size(table) == 256;
        for (unsigned c = 0; good && c < 256; c++)
            good = take_token(json_array_get(table, c), true, &args->table[c]);
        return good;
    }
    bool good = json_object_size(table) > 0;
    json_object_foreach((json_t *)(uintptr_t)table, letter, value)
    {
        const uint8_t c = (uint8_t)*letter;
        good = good && c && c < 128 && !letter[1] && take_token(value, false, &args->table[c]);
    }
    return good;
}

/* A token that null takes from a table that has it. */
static void take_other(struct leat_args *json, const char *name, int64_t *token)
{
    if (json_is_null(json_object_get(json->object, name)))
        *token = -1;
    leat_args_token(json, name, *token, token);
}

static uint8_t other_case(uint8_t c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z' ? c ^ 32 : c;
}

static void parse(void *into, struct leat_args *json)
{
    static const char *const parts[] = {"inputs", "loss_mask", NULL};
    struct lookup_args *args = into;
    int64_t unknown = -1;
    unsigned part;
    bool upper;
    args->bos = args->eos = -1;
    memset(args->table, -1, sizeof args->table);
    if (!take_table(args, leat_args_get(json, "table"), &unknown))
        leat_args_wrong(json, "table",
                        "\"esm2\", \"nucleotide\", tokens by single ASCII characters, or 256 tokens, -1 for none");
    take_other(json, "unknown", &unknown);
    take_other(json, "bos", &args->bos);
    take_other(json, "eos", &args->eos);
    leat_args_bool(json, "upper", false, &upper);
    const char *learned = leat_args_text(json, "loss_mask");
    leat_args_word(json, "part", parts, 0, &part);
    args->mask = part == 1;
    if (args->mask && !learned)
        leat_args_wrong(json, "loss_mask", "given for the part of this name");
    for (; learned && *learned; learned++)
        args->learned[(uint8_t)*learned] = args->learned[other_case((uint8_t)*learned)] = 1;
    args->is_small = true;
    for (unsigned c = 0; c < 256; c++) {
        int64_t *token = &args->table[c];
        *token = upper && c >= 'a' && c <= 'z' ? args->table[c - 32] : *token;
        *token = *token < 0 ? unknown : *token;
        args->partial |= *token < 0;
        args->is_small &= *token < NO_TOKEN;
        args->small[c] = (uint8_t)*token; /* -1 is NO_TOKEN */
    }
}

static uint64_t count(const void *from, uint64_t n)
{
    const struct lookup_args *args = from;
    return n + (args->bos >= 0) + (args->eos >= 0);
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    if (!leat_type_is_residues(type))
        return leat_op_misfit(place, type, LEAT_RESIDUES, error);
    type->dtype = ((const struct lookup_args *)from)->mask ? LEAT_BOOL : LEAT_I64;
    if (type->shape[0] >= 0)
        type->shape[0] = (int64_t)count(from, (uint64_t)type->shape[0]);
    return LEAT_OK;
}

/* ---- rows ---- */

struct letters {
    const struct lookup_args *args;
    leat_byte_table_fn by_table;
    const uint8_t *in;
    int64_t *out;
    size_t n;
    bool *lacks; /* some letter has no token */
};

LEAT_INLINE void look_up(const struct letters *t)
{
    uint8_t small[BLOCK], none = 0;
    int64_t least = 0;
    if (!t->args->is_small)
        for (size_t i = 0; i < t->n; i++) {
            t->out[i] = t->args->table[t->in[i]];
            least |= t->out[i];
        }
    for (size_t done = 0; t->args->is_small && done < t->n; done += BLOCK) {
        const size_t n = t->n - done < BLOCK ? t->n - done : BLOCK;
        t->by_table(t->args->small, t->in + done, small, n);
        leat_tokens_widen(LEAT_U8, small, t->out + done, n);
        for (size_t i = 0; t->args->partial && i < n; i++)
            none |= small[i] == NO_TOKEN;
    }
    *t->lacks = least < 0 || none;
}
LEAT_TOKENS_FOR_EACH_ISA(look_up, struct letters)

static int fail_lacking(const struct lookup_args *args, const char *output, const uint8_t *in, struct leat_error *error)
{
    size_t i = 0;
    while (args->table[in[i]] >= 0)
        i++;
    const char shown[] = {' ', '(', '\'', (char)in[i], '\'', ')', 0};
    return leat_fail(error, LEAT_E_OPERATOR,
                     "Lookup in output '%s': byte %u%s at place %zu has no entry in the table: give it one, or a token "
                     "for all such by unknown=",
                     output, in[i], in[i] > 32 && in[i] < 127 ? shown : "", i);
}

static int call(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, struct leat_error *error)
{
    const struct lookup_args *args = use->op->args;
    const size_t n = leat_list_count(use, length), before = args->bos >= 0;
    const leat_byte_table_fn by_table = leat_byte_table_of(leat_cpu_isa());
    if (args->mask) {
        uint8_t *to = out;
        memset(to, 0, count(args, n));
        by_table(args->learned, in, to + before, n);
        return LEAT_OK;
    }
    int64_t *to = out;
    bool lacks;
    look_up_on(&(struct letters){args, by_table, in, to + before, n, &lacks});
    if (lacks)
        return fail_lacking(args, output, in, error);
    if (args->bos >= 0)
        to[0] = args->bos;
    if (args->eos >= 0)
        to[before + n] = args->eos;
    return LEAT_OK;
}

static const char *label(const void *from)
{
    return ((const struct lookup_args *)from)->mask ? "Lookup(loss_mask)" : "Lookup";
}

const struct leat_op_class leat_op_lookup = {.type = "Lookup",
                                             .args_bytes = sizeof(struct lookup_args),
                                             .parse = parse,
                                             .infer = infer,
                                             .label = label,
                                             .count = count,
                                             .call = call};
