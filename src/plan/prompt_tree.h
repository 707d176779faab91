/*
 * Sorted prompts as a tree of what they share, and the groups of two levels, a prefix and its prompts, that save most.
 */
#ifndef LEAT_PLAN_PROMPT_TREE_H
#define LEAT_PLAN_PROMPT_TREE_H

#include <stdint.h>

#include "leat/prompts.h"

struct leat_prompt_groups {
    uint32_t *order; /* prompts, group by group */
    struct leat_prompts_group *at;
    uint64_t n; /* groups */
    struct leat_prompts_tokens tokens;
};

/* Of n prompts as leat_prompt_sort has left them: `sorted` and `common`, which is rounded down to whole blocks here.
 * `decode`: NULL, or of each prompt the tokens that it will be answered by: groups then stand by falling sum of these
 * for each token of theirs. The caller frees order and at with leat_free, whatever is returned. NOMEM. */
int leat_prompt_groups_make(const uint32_t *sorted, uint32_t *common, const uint32_t *lengths, uint64_t n,
                            uint64_t block, const uint32_t *decode, struct leat_prompt_groups *out,
                            struct leat_error *error);

#endif
