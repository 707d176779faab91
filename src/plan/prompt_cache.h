/*
 * What a cache of prefixes saves of sorted prompts that are computed in some order.
 */
#ifndef LEAT_PLAN_PROMPT_CACHE_H
#define LEAT_PLAN_PROMPT_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"

struct leat_prompt_cache {
    uint64_t n, block, blocks; /* prompts; tokens of a block; blocks that the cache holds */
    uint32_t *place;           /* of each prompt, by number, its place among the sorted ones */
    uint32_t *common, *length; /* of the sorted ones, in blocks: with the one before; all */
    uint32_t *up;              /* of the sorted ones: that with whom the blocks below `common` are in common */
    uint64_t *first;           /* of the sorted ones: the number of the first block that no one before has */
    struct leat_prompt_cached {
        uint32_t older, newer;
    } * links; /* of each block that is there, and one more, which closes the ring */
    uint8_t *there;
    uint64_t n_blocks, held;
};

/* As leat_prompt_sort has left them; nothing is kept of the arrays. Destroy it in any case. RANGE, NOMEM. */
int leat_prompt_cache_init(struct leat_prompt_cache *cache, const uint32_t *sorted, const uint32_t *common,
                           const uint32_t *lengths, uint64_t n, uint64_t block, uint64_t blocks,
                           struct leat_error *error);
void leat_prompt_cache_destroy(struct leat_prompt_cache *cache);
void leat_prompt_cache_clear(struct leat_prompt_cache *cache); /* it holds nothing */
/* Computes a prompt; returns how many of its tokens were there. */
uint64_t leat_prompt_cache_compute(struct leat_prompt_cache *cache, uint32_t prompt);

#endif
