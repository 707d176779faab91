/*
 * ReverseComplement: the other strand of DNA or RNA, read in its own direction, or the sequence as it is. Codes are
 * those of IUPAC (Cornish-Bowden, "Nomenclature for incompletely specified bases in nucleic acid sequences", 1985), in
 * upper and lower case; U becomes A, and A becomes T. Other bytes only change their place. Draw 0: below p.
 */
#include <string.h>

#include "base/random.h"
#include "op/byte_table.h"
#include "op/filter.h"
#include "op/token_ops.h"

LEAT_VECTORIZE

#define BLOCK 256

struct complement_args {
    double p;
    uint8_t table[256];
};

static void parse(void *into, struct leat_args *json)
{
    static const char codes[] = "ACGTURYKMBVDH", others[] = "TGCAAYRMKVBHD";
    struct complement_args *args = into;
    leat_args_double(json, "p", 0, 1, 0.5, &args->p);
    for (unsigned c = 0; c < 256; c++)
        args->table[c] = (uint8_t)c;
    for (unsigned k = 0; codes[k]; k++) {
        args->table[(uint8_t)codes[k]] = (uint8_t)others[k];
        args->table[(uint8_t)codes[k] | 32] = (uint8_t)others[k] | 32;
    }
}

struct strand {
    leat_byte_table_fn look_up;
    const uint8_t *table, *in;
    uint8_t *out;
    size_t n;
};

LEAT_INLINE void turn(const struct strand *t)
{
    uint8_t block[BLOCK];
    size_t done = 0;
    for (; done + BLOCK <= t->n; done += BLOCK) {
        t->look_up(t->table, t->in + done, block, BLOCK);
        uint8_t *restrict to = t->out + (t->n - done - BLOCK);
        for (size_t i = 0; i < BLOCK; i++)
            to[i] = block[BLOCK - 1 - i];
    }
    t->look_up(t->table, t->in + done, block, t->n - done);
    for (size_t i = 0; i < t->n - done; i++)
        t->out[i] = block[t->n - done - 1 - i];
}
LEAT_TOKENS_FOR_EACH_ISA(turn, struct strand)

static int infer(const void *args, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    return leat_type_is_residues(type) ? LEAT_OK : leat_op_misfit(place, type, LEAT_RESIDUES, error);
}

static int call(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, struct leat_error *error)
{
    const struct complement_args *args = use->op->args;
    const size_t n = leat_list_count(use, length);
    if (leat_draw_unit(leat_key_mix(row->key, use->op->instance), 0) < args->p)
        turn_on(&(struct strand){leat_byte_table_of(leat_cpu_isa()), args->table, in, out, n});
    else if (n)
        memcpy(out, in, n);
    return LEAT_OK;
}

static const char *label(const void *args)
{
    return "ReverseComplement";
}

const struct leat_op_class leat_op_reverse_complement = {.type = "ReverseComplement",
                                                         .args_bytes = sizeof(struct complement_args),
                                                         .random = true,
                                                         .parse = parse,
                                                         .infer = infer,
                                                         .label = label,
                                                         .count = leat_count_tokens,
                                                         .call = call};
