/*
 * Prompts, lists of tokens, in the order of their tokens, with what neighbours have in common.
 */
#ifndef LEAT_PLAN_PROMPT_SORT_H
#define LEAT_PLAN_PROMPT_SORT_H

#include <stdbool.h>
#include <stdint.h>

#define LEAT_PROMPT_MAX_TOKENS (UINT64_C(1) << 30) /* of one; and there are below 2^32 prompts */

/* The caller fills the first block, and owns the arrays: n elements each. Zero is a valid start of the second. */
struct leat_prompt_sort {
    uint64_t n;
    const uint8_t *const *at; /* the tokens of each prompt, little-endian, on any address */
    const uint32_t *lengths;  /* in tokens */
    unsigned width;           /* bytes of a token: 1, 2, 4 or 8 */
    uint64_t seed;            /* 0: by rising tokens; else first tokens stand in an order that it draws */
    uint32_t *order;          /* out: prompts in order, equal ones by number */
    uint32_t *common;         /* out: tokens in common with the prompt before; of the first one, 0 */
    uint32_t *keys;           /* scratch */

    enum { LEAT_PROMPT_BEGIN = 0, LEAT_PROMPT_FIND, LEAT_PROMPT_COMPARE, LEAT_PROMPT_SPLIT, LEAT_PROMPT_DONE } state;
    uint64_t first, end, next; /* the segment at work, and the next prompt of it */
    uint32_t depth, shared;    /* units that all of it have in common for sure; and as found so far */
};

/* Works on, for some `budget` bytes of tokens. True: it is done. Allocates nothing and takes no lock, so it may run
 * inside leat_guarded. */
bool leat_prompt_sort(struct leat_prompt_sort *sort, uint64_t budget);

#endif
