/*
 * libleat: prompts, lists of tokens, in an order in which those that share a prefix stand together.
 *
 * An engine that answers prompts keeps the keys and values of tokens that it has seen, and computes none of them twice
 * while it has them. So what a prefix costs depends on the order of prompts. Here they are grouped by the prefixes that
 * save most:
 *
 *     struct leat_prompts_options options = {.field = "tokens", .block = 16};
 *     leat_prompts_group(dataset, &options, &prompts, &error);
 *     leat_prompts_dataset(prompts, &grouped, &error);         a data set like any other, with two fields more
 *     leat_prompts_release(prompts);
 */
#ifndef LEAT_PROMPTS_H
#define LEAT_PROMPTS_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_prompts;

/* Prompts first to first + count - 1 of the order, whose first `prefix` tokens are computed once. */
struct leat_prompts_group {
    uint64_t first, count, prefix;
};
/* Tokens of all prompts; of them, those that are computed if each group's prefix is once; and if each shared prefix is,
 * at any depth: the least that any order and any cache can reach. */
struct leat_prompts_tokens {
    uint64_t all, grouped, least;
};

struct leat_prompts_options {
    const char *field;      /* a list of integers that varies in length, or bytes, which count as tokens */
    const uint32_t *decode; /* NULL, or for each prompt how many tokens it will be answered by; not kept */
    uint64_t n_decode;      /* numbers in it: one for each prompt */
    uint64_t block;         /* a prefix has a multiple of so many tokens, at least 1: the block of the engine's cache */
    uint64_t seed;          /* 0: branches stand by rising tokens. Else those that share no token stand in an order that
                             * it draws; groups and what they save stay the same */
    /* NULL, or called now and then on the thread that called: prompts that are done, of all. Not 0 ends the work with
     * CANCELLED. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};

/* Sorts the prompts of a data set and finds their groups.
 *
 * Each prompt belongs to one group, and its group's prefix is one of its own. Of all ways to do so, this is one that
 * computes the fewest tokens, where a group costs its prefix once and the rest of each prompt; with longer prefixes, if
 * several are equal. Prompts that share nothing worth a prefix are a group with the prefix 0. Groups are contiguous, by
 * their prefix in the order of a walk through the tree of all prefixes, depth first; a group's own prompts come before
 * groups whose prefix goes on from its own. Prompts of a group stand by rising tokens, equal ones by position; tokens
 * of signed fields rise as unsigned numbers, negative ones last. With `decode`, groups stand by falling (sum of decode)
 * / (tokens, the prefix counted once), ties in the order above.
 *
 * Tokens are read in place: values in memory, and files that can be mapped, whose checksums are compared once at the
 * begin. Others are copied to memory while this runs. Beside them it takes 24 bytes a prompt, and 12 to 28 more for
 * each prefix at which prompts part and that may be worth a group.
 *
 * Errors: NOT_FOUND (no such field), TYPE (its values are no lists of integers), INVALID (`block`, decode of another
 * length), RANGE (2^32 prompts, a prompt of more than 2^30 tokens), CANCELLED (leat_set_interrupt, `progress`), NOMEM,
 * and those of reading. Any thread. */
LEAT_API int leat_prompts_group(struct leat_dataset *dataset, const struct leat_prompts_options *options,
                                struct leat_prompts **out, struct leat_error *error);
LEAT_API struct leat_prompts *leat_prompts_retain(struct leat_prompts *prompts); /* returns its argument */
LEAT_API void leat_prompts_release(struct leat_prompts *prompts);                /* NULL is allowed */

/* Positions in the data set, in order. This, the groups and the tokens live as long as `prompts`. */
LEAT_API const uint32_t *leat_prompts_order(const struct leat_prompts *prompts, uint64_t *n);
LEAT_API const struct leat_prompts_group *leat_prompts_groups(const struct leat_prompts *prompts, uint64_t *n);
LEAT_API const struct leat_prompts_tokens *leat_prompts_tokens(const struct leat_prompts *prompts);

/* The prompts in order: all fields of the data set, and `group`, int64, the number of the group, and `prefix_length`,
 * int64. Ids are places in the order. Retains `prompts` and the data set. Errors: INVALID (the data set has such a
 * field), NOMEM. */
LEAT_API int leat_prompts_dataset(struct leat_prompts *prompts, struct leat_dataset **out, struct leat_error *error);

/* A cache of prefixes would save so many tokens: those that it has when a prompt comes, if prompts are computed one
 * after the other, as they lie in the data set, sorted by their tokens, and in the order of the groups. It holds
 * `tokens` tokens in whole blocks of `block`, and evicts the ones unused for longest; of one prompt those at its end
 * first. The prompts are read and sorted again. Errors: those of leat_prompts_group. */
struct leat_prompts_saved {
    uint64_t lying, sorted, grouped;
};
LEAT_API int leat_prompts_simulate(const struct leat_prompts *prompts, uint64_t tokens, uint64_t block,
                                   struct leat_prompts_saved *out, struct leat_error *error);

/* Where records of a file of prompts end, part by part: behind line ends; with `csv`, those that are not within quotes.
 * `quoted` is false before the first part, and says behind the last one that a quote is still open. `ends` has room for
 * n numbers: places in this part. Returns how many. */
LEAT_API uint64_t leat_prompts_records(const void *bytes, uint64_t n, bool csv, bool *quoted, uint64_t *ends);

#ifdef __cplusplus
}
#endif

#endif
