/*
 * A cache of prefixes as engines have it: of whole blocks of tokens, each found by all tokens up to its end, the ones
 * unused for longest evicted first, and of one prompt those at its end first.
 *
 * No token is looked at, because sorted prompts say by what they have in common which blocks are the same. A prompt has
 * its first `common` blocks from the one before, which has some of them from others in turn: `up` goes straight to
 * those that had a block first, so that a prompt's blocks are a few ranges:
 *
 *     sorted     common   blocks of its own          prompt 3: 1 and 0 of prompt 0 (up of 2), 2 of prompt 2, its own
 *       0          0       0 1 2 3
 *       1          3             4
 *       2          2           5 6
 *       3          3             7
 */
#include "plan/prompt_cache.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static int fill(struct leat_prompt_cache *c, const uint32_t *sorted, const uint32_t *common, const uint32_t *lengths,
                struct leat_error *error)
{
    uint64_t blocks = 0;
    for (uint64_t i = 0; i < c->n; i++) {
        c->place[sorted[i]] = (uint32_t)i;
        c->length[i] = (uint32_t)(lengths[sorted[i]] / c->block);
        c->common[i] = (uint32_t)(common[i] / c->block);
        uint32_t up = i ? (uint32_t)i - 1 : 0;
        while (up && c->common[up] >= c->common[i])
            up = c->up[up];
        c->up[i] = up;
        c->first[i] = blocks;
        blocks += c->length[i] - c->common[i];
    }
    if (blocks >= UINT32_MAX)
        return leat_fail(error, LEAT_E_RANGE,
                         "the prompts have %llu different blocks, and a cache is simulated of less than 2^32: take "
                         "larger blocks, or a part of the prompts",
                         (unsigned long long)blocks);
    c->n_blocks = blocks;
    c->links = leat_new_array(blocks + 1, sizeof *c->links);
    c->there = leat_new_array(blocks + 1, 1);
    if (!c->links || !c->there)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to simulate a cache");
    leat_prompt_cache_clear(c);
    return LEAT_OK;
}

int leat_prompt_cache_init(struct leat_prompt_cache *c, const uint32_t *sorted, const uint32_t *common,
                           const uint32_t *lengths, uint64_t n, uint64_t block, uint64_t blocks,
                           struct leat_error *error)
{
    *c = (struct leat_prompt_cache){.n = n, .block = block, .blocks = blocks};
    c->place = leat_new_array(n + 1, sizeof *c->place);
    c->common = leat_new_array(n + 1, sizeof *c->common);
    c->length = leat_new_array(n + 1, sizeof *c->length);
    c->up = leat_new_array(n + 1, sizeof *c->up);
    c->first = leat_new_array(n + 1, sizeof *c->first);
    if (!c->place || !c->common || !c->length || !c->up || !c->first)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to simulate a cache");
    return fill(c, sorted, common, lengths, error);
}

void leat_prompt_cache_destroy(struct leat_prompt_cache *c)
{
    leat_free(c->place);
    leat_free(c->common);
    leat_free(c->length);
    leat_free(c->up);
    leat_free(c->first);
    leat_free(c->links);
    leat_free(c->there);
    *c = (struct leat_prompt_cache){0};
}

void leat_prompt_cache_clear(struct leat_prompt_cache *c)
{
    const uint32_t end = (uint32_t)c->n_blocks;
    memset(c->there, 0, c->n_blocks);
    c->links[end] = (struct leat_prompt_cached){end, end};
    c->held = 0;
}

static void take_out(struct leat_prompt_cache *c, uint32_t b)
{
    const struct leat_prompt_cached link = c->links[b];
    c->links[link.older].newer = link.newer;
    c->links[link.newer].older = link.older;
    c->there[b] = 0;
    c->held--;
}

/* Makes a block the one that was used last. */
static void use(struct leat_prompt_cache *c, uint32_t b)
{
    const uint32_t end = (uint32_t)c->n_blocks;
    if (c->there[b])
        take_out(c, b);
    c->links[b] = (struct leat_prompt_cached){.older = c->links[end].older, .newer = end};
    c->links[c->links[end].older].newer = b;
    c->links[end].older = b;
    c->there[b] = 1;
    c->held++;
}

uint64_t leat_prompt_cache_compute(struct leat_prompt_cache *c, uint32_t prompt)
{
    uint32_t owner = c->place[prompt], end = c->length[owner];
    uint64_t found = 0;
    /* From the last block to the first one, which is then the last to go. The blocks that were there in front of the
     * first that was not are counted by beginning anew at each gap. */
    for (;; owner = c->up[owner]) {
        const uint32_t begin = c->common[owner];
        for (uint32_t k = end; k > begin; k--) {
            const uint32_t b = (uint32_t)(c->first[owner] + (k - 1 - begin));
            found = c->there[b] ? found + 1 : 0;
            use(c, b);
        }
        end = begin < end ? begin : end;
        if (!end)
            break;
    }
    while (c->held > c->blocks)
        take_out(c, c->links[c->n_blocks].newer);
    return found * c->block;
}
