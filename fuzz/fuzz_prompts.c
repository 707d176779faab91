/*
 * A file of prompts: u8 bytes of a token and options, u8 the block, u8 what a cache holds, then records of text. Those
 * are found, as lines and as CSV, in parts of any size alike; their bytes are prompts, whose groups hold what they
 * promise, and what a cache saves has its bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "leat/prompts.h"

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x))                                                                                                      \
            abort();                                                                                                   \
    } while (0)
enum { MOST = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends of records, found in two parts; *n of them. */
static uint64_t *find_records(const uint8_t *text, size_t n_bytes, size_t cut, bool csv, uint64_t *n)
{
    uint64_t *ends = leat_new_array(n_bytes + 1, sizeof *ends), *other = leat_new_array(n_bytes + 1, sizeof *other);
    bool quoted = false, again = false;
    CHECK(ends && other);
    *n = leat_prompts_records(text, n_bytes, csv, &quoted, ends);
    uint64_t k = leat_prompts_records(text, cut, csv, &again, other), first = k;
    k += leat_prompts_records(text + cut, n_bytes - cut, csv, &again, other + k);
    CHECK(k == *n && quoted == again);
    for (uint64_t i = 0; i < k; i++)
        CHECK(ends[i] == other[i] + (i < first ? 0 : cut));
    if (n_bytes && (!*n || ends[*n - 1] < n_bytes))
        ends[(*n)++] = n_bytes;
    leat_free(other);
    return ends;
}

static void check_groups(const struct leat_prompts *p, const uint8_t *values, const int64_t *offsets, unsigned width,
                         uint64_t block)
{
    uint64_t n, n_groups, at = 0, all = 0, cost = 0;
    const uint32_t *order = leat_prompts_order(p, &n);
    const struct leat_prompts_group *groups = leat_prompts_groups(p, &n_groups);
    const struct leat_prompts_tokens *t = leat_prompts_tokens(p);
    uint8_t *seen = leat_new_array(n + 1, 1);
    CHECK(seen);
    for (uint64_t g = 0; g < n_groups; g++) {
        const uint64_t prefix = groups[g].prefix;
        CHECK(groups[g].first == at && groups[g].count && prefix % block == 0);
        const uint8_t *first = values + (uint64_t)offsets[order[at]] * width;
        for (cost += prefix; at < groups[g].first + groups[g].count; at++) {
            const uint64_t length = (uint64_t)(offsets[order[at] + 1] - offsets[order[at]]);
            CHECK(length >= prefix && !memcmp(first, values + (uint64_t)offsets[order[at]] * width, prefix * width));
            CHECK(!seen[order[at]]++);
            all += length;
            cost += length - prefix;
        }
    }
    CHECK(at == n && all == t->all && cost == t->grouped && t->least <= t->grouped && t->grouped <= t->all);
    leat_free(seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum leat_dtype dtypes[] = {LEAT_U8, LEAT_I16, LEAT_I32, LEAT_U64};
    if (size < 3 || size > MOST)
        return 0;
    const unsigned width = 1u << (data[0] & 3);
    const uint64_t block = 1 + data[1] % 20, seed = data[0] >> 4, cache = (uint64_t)data[2] * 8;
    const uint8_t *text = data + 3;
    uint64_t n;
    uint64_t *ends = find_records(text, size - 3, data[2] % (size - 2), data[0] & 4, &n);
    int64_t *offsets = leat_new_array(n + 1, sizeof *offsets);
    uint8_t *values = leat_new_array(size, 1);
    CHECK(offsets && values);
    for (uint64_t i = 0, begin = 0; i < n; begin = ends[i++]) { /* whole tokens of each record */
        const uint64_t tokens = (ends[i] - begin) / width;
        memcpy(values + (uint64_t)offsets[i] * width, text + begin, tokens * width);
        offsets[i + 1] = offsets[i] + (int64_t)tokens;
    }
    const struct leat_field field = {
        .name = "tokens", .kind = LEAT_KIND_ARRAY, .dtype = dtypes[data[0] & 3], .ndim = 1, .shape = {-1}};
    const struct leat_array array = {.data = values, .offsets = offsets, .offset_bytes = 8};
    const struct leat_prompts_options options = {.field = "tokens", .block = block, .seed = seed};
    struct leat_dataset *dataset;
    struct leat_prompts *prompts;
    struct leat_prompts_saved saved;
    CHECK(!leat_dataset_from_arrays(&field, &array, 1, n, NULL, NULL, NULL, &dataset, NULL));
    CHECK(!leat_prompts_group(dataset, &options, &prompts, NULL));
    check_groups(prompts, values, offsets, width, block);
    const struct leat_prompts_tokens *t = leat_prompts_tokens(prompts);
    CHECK(!leat_prompts_simulate(prompts, cache, block, &saved, NULL));
    CHECK(saved.lying <= t->all - t->least && saved.sorted <= t->all - t->least && saved.grouped <= t->all - t->least);
    leat_prompts_release(prompts);
    leat_dataset_release(dataset);
    leat_free(offsets);
    leat_free(values);
    leat_free(ends);
    return 0;
}
