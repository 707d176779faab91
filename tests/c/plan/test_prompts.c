/* Prompts: their order, the groups that save most, a cache of prefixes, and where records end, each beside the plain
 * way to find it. */
#include "../allocations.h"
#include "base/alloc.h"
#include "common.h"
#include "plan/prompt_cache.h"
#include "plan/prompt_sort.h"
#include "plan/prompt_tree.h"

enum { MOST = 24, TOKENS = 40 };

struct prompts {
    uint64_t n, seed;
    unsigned width;
    uint8_t bytes[MOST][TOKENS * 8 + 1];
    const uint8_t *at[MOST];
    uint32_t lengths[MOST + 1], order[MOST + 1], common[MOST + 1], keys[MOST + 1], decode[MOST];
};

static uint64_t token(const struct prompts *p, uint64_t i, uint64_t k)
{
    uint64_t value = 0;
    memcpy(&value, p->at[i] + k * p->width, p->width);
    return value;
}

/* Prompts that begin as ones before did, of few tokens, at odd addresses. */
static void make(struct prompts *p, uint64_t key)
{
    static const unsigned widths[] = {1, 2, 4, 8};
    *p = (struct prompts){.n = draw(key, 0, 0, MOST), .width = widths[draw(key, 1, 0, 3)]};
    const uint64_t longest = draw(key, 2, 1, TOKENS), kinds = draw(key, 3, 1, 4);
    for (uint64_t i = 0; i < p->n; i++) {
        uint64_t kept = 0, k = 100 + i * 100;
        p->at[i] = p->bytes[i] + 1;
        if (i && draw(key, k, 0, 3)) {
            const uint64_t from = draw(key, k + 1, 0, i - 1);
            kept = draw(key, k + 2, 0, p->lengths[from]);
            memcpy(p->bytes[i] + 1, p->at[from], kept * p->width);
        }
        p->lengths[i] = (uint32_t)draw(key, k + 3, kept, longest > kept ? longest : kept);
        for (uint64_t t = kept; t < p->lengths[i]; t++) {
            uint64_t value = draw(key, k + 4 + t, 0, kinds - 1);
            value = p->width == 8 && draw(key, k + 50 + t, 0, 1) ? value << 33 : value;
            memcpy(p->bytes[i] + 1 + t * p->width, &value, p->width);
        }
        p->decode[i] = (uint32_t)draw(key, k + 99, 0, 9);
    }
}

static int compare(const struct prompts *p, uint64_t a, uint64_t b, uint64_t *common)
{
    uint64_t k = 0;
    while (k < p->lengths[a] && k < p->lengths[b] && token(p, a, k) == token(p, b, k))
        k++;
    *common = k;
    if (k == p->lengths[a] || k == p->lengths[b])
        return p->lengths[a] < p->lengths[b] ? -1 : p->lengths[a] > p->lengths[b];
    return token(p, a, k) < token(p, b, k) ? -1 : 1;
}

static void sort(struct prompts *p, uint64_t budget)
{
    struct leat_prompt_sort s = {.n = p->n,
                                 .at = p->at,
                                 .lengths = p->lengths,
                                 .width = p->width,
                                 .seed = p->seed,
                                 .order = p->order,
                                 .common = p->common,
                                 .keys = p->keys};
    while (!leat_prompt_sort(&s, budget))
        ;
}

TEST(prompts_stand_by_tokens_then_length_then_number_whatever_is_done_at_a_time)
{
    for (uint64_t key = 0; key < 400; key++) {
        struct prompts p;
        make(&p, key);
        sort(&p, key % 2 ? 1 : UINT64_MAX);
        for (uint64_t i = 1; i < p.n; i++) {
            uint64_t common;
            const int order = compare(&p, p.order[i - 1], p.order[i], &common);
            assert_true(order < 0 || (!order && p.order[i - 1] < p.order[i]));
            assert_int_equal(p.common[i], common);
        }
    }
}

TEST(a_seed_moves_branches_that_share_nothing_and_nothing_else)
{
    bool moved = false;
    for (uint64_t key = 0; key < 200; key++) {
        struct prompts p, q;
        make(&p, key);
        q = p;
        for (uint64_t i = 0; i < q.n; i++)
            q.at[i] = q.bytes[i] + 1;
        q.seed = 7;
        sort(&p, UINT64_MAX);
        sort(&q, UINT64_MAX);
        uint64_t sum = 0, other = 0;
        for (uint64_t i = 0; i < p.n; i++) {
            sum += p.common[i];
            other += q.common[i];
            moved |= p.order[i] != q.order[i];
        }
        assert_int_equal(sum, other);
        for (uint64_t i = 1; i < q.n; i++) {
            uint64_t common;
            const int order = compare(&q, q.order[i - 1], q.order[i], &common);
            assert_true(!q.common[i] || order < 0 || (!order && q.order[i - 1] < q.order[i]));
        }
    }
    assert_true(moved);
}

TEST(many_prompts_are_sorted_too)
{
    enum { N = 20000 };
    static uint32_t values[N][2], lengths[N], order[N], common[N], keys[N];
    static const uint8_t *at[N];
    for (uint64_t i = 0; i < N; i++) {
        values[i][0] = (uint32_t)(i < N / 2 ? draw(1, i, 0, 7) : i * 2654435761u);
        values[i][1] = (uint32_t)draw(2, i, 0, 1u << 30);
        at[i] = (const uint8_t *)values[i];
        lengths[i] = 2;
    }
    struct leat_prompt_sort s = {
        .n = N, .at = at, .lengths = lengths, .width = 4, .order = order, .common = common, .keys = keys};
    while (!leat_prompt_sort(&s, 1000))
        ;
    for (uint64_t i = 1; i < N; i++) {
        const uint32_t *a = values[order[i - 1]], *b = values[order[i]];
        assert_true(a[0] < b[0] || (a[0] == b[0] && a[1] <= b[1]));
    }
}

/* The fewest tokens that are computed of sorted prompts [from, to) below a prefix of `above` tokens: all ways. */
static uint64_t fewest(const struct prompts *p, uint64_t from, uint64_t to, uint64_t above)
{
    if (to - from == 1)
        return p->lengths[p->order[from]] - above;
    uint64_t depth = UINT64_MAX, in = 0, out = 0;
    for (uint64_t i = from + 1; i < to; i++)
        depth = p->common[i] < depth ? p->common[i] : depth;
    for (uint64_t begin = from, end; begin < to; begin = end) {
        for (end = begin + 1; end < to && p->common[end] != depth; end++)
            ;
        out += fewest(p, begin, end, above);
        in += depth > above ? fewest(p, begin, end, depth) : 0;
    }
    return depth > above && depth + in < out ? depth + in : out;
}

static bool has_prefix(const struct prompts *p, uint64_t a, uint64_t b, uint64_t prefix)
{
    return p->lengths[a] >= prefix && p->lengths[b] >= prefix && !memcmp(p->at[a], p->at[b], prefix * p->width);
}

TEST(groups_save_as_much_as_the_best_of_all_ways)
{
    for (uint64_t key = 0; key < 1500; key++) {
        struct prompts p;
        struct leat_prompt_groups g;
        struct leat_error error;
        make(&p, key);
        sort(&p, UINT64_MAX);
        const uint64_t block = draw(key, 5, 1, 3);
        const bool decode = draw(key, 6, 0, 1);
        assert_ok(
            leat_prompt_groups_make(p.order, p.common, p.lengths, p.n, block, decode ? p.decode : NULL, &g, &error));
        uint64_t all = 0, cost = 0, shared = 0, at = 0, seen = 0;
        double before = 1e300;
        for (uint64_t k = 0; k < g.n; k++) {
            uint64_t tokens = g.at[k].prefix, answers = 0;
            assert_int_equal(g.at[k].first, at);
            assert_true(g.at[k].count > 0 && g.at[k].prefix % block == 0);
            for (; at < g.at[k].first + g.at[k].count; at++) {
                assert_true(has_prefix(&p, g.order[at], g.order[g.at[k].first], g.at[k].prefix));
                tokens += p.lengths[g.order[at]] - g.at[k].prefix;
                answers += p.decode[g.order[at]];
                seen |= UINT64_C(1) << g.order[at];
            }
            cost += tokens;
            const double rate = (double)answers / (double)(tokens ? tokens : 1);
            assert_true(!decode || rate <= before);
            before = rate;
        }
        for (uint64_t i = 0; i < p.n; i++) {
            all += p.lengths[i];
            shared += p.common[i];
        }
        assert_int_equal(seen, (UINT64_C(1) << p.n) - 1);
        assert_int_equal(g.tokens.all, all);
        assert_int_equal(g.tokens.least, all - shared);
        assert_int_equal(g.tokens.grouped, cost);
        assert_int_equal(cost, p.n ? fewest(&p, 0, p.n, 0) : 0);
        leat_free(g.order);
        leat_free(g.at);
    }
}

TEST(own_prompts_of_a_group_come_before_groups_below_it)
{
    static const char *const texts[] = {"aaaabbbbx", "aaaabbbby", "aaaabbbbz", "aaaaq", "aaaar", "aaaas", "aaaat"};
    struct prompts p = {.n = 7, .width = 1};
    struct leat_prompt_groups g;
    struct leat_error error;
    for (uint64_t i = 0; i < p.n; i++) {
        p.at[i] = (const uint8_t *)texts[i];
        p.lengths[i] = (uint32_t)strlen(texts[i]);
    }
    sort(&p, UINT64_MAX);
    assert_ok(leat_prompt_groups_make(p.order, p.common, p.lengths, p.n, 1, NULL, &g, &error));
    assert_int_equal(g.n, 2);
    assert_int_equal(g.at[0].prefix, 4);
    assert_int_equal(g.at[0].count, 4);
    assert_int_equal(g.at[1].prefix, 8);
    assert_int_equal(g.at[1].count, 3);
    assert_int_equal(g.order[0], 3);
    assert_int_equal(g.order[4], 0);
    leat_free(g.order);
    leat_free(g.at);
}

/* A chain: prompt i is the beginning of prompt i + 1. */
TEST(prompts_that_are_prefixes_of_each_other_take_no_deep_stack)
{
    enum { N = 3000 };
    static uint8_t bytes[N + 1];
    static const uint8_t *at[N];
    static uint32_t lengths[N], order[N], common[N], keys[N];
    struct leat_prompt_groups g;
    struct leat_error error;
    for (uint32_t i = 0; i < N; i++) {
        at[i] = bytes;
        lengths[i] = N - i;
    }
    struct leat_prompt_sort s = {
        .n = N, .at = at, .lengths = lengths, .width = 1, .order = order, .common = common, .keys = keys};
    while (!leat_prompt_sort(&s, 10000))
        ;
    assert_int_equal(order[0], N - 1);
    assert_int_equal(common[N - 1], N - 1);
    assert_ok(leat_prompt_groups_make(order, common, lengths, N, 1, NULL, &g, &error));
    assert_int_equal(g.tokens.least, N);
    assert_true(g.tokens.grouped < g.tokens.all / 10);
    leat_free(g.order);
    leat_free(g.at);
}

/* A cache as a list of (prompt, block), compared by tokens. */
struct listed {
    uint64_t prompt, end;
};
static uint64_t compute_plainly(const struct prompts *p, struct listed *list, uint64_t *n, uint64_t prompt,
                                uint64_t block, uint64_t blocks)
{
    uint64_t found = 0, all = p->lengths[prompt] / block;
    bool whole = true;
    for (uint64_t b = 1; b <= all; b++) {
        bool there = false;
        for (uint64_t k = 0; k < *n && !there; k++)
            there = list[k].end == b * block && has_prefix(p, list[k].prompt, prompt, b * block);
        whole &= there;
        found += whole ? block : 0;
    }
    for (uint64_t b = all; b > 0; b--) { /* to the end of the list, the newest */
        uint64_t kept = 0;
        for (uint64_t k = 0; k < *n; k++)
            if (list[k].end != b * block || !has_prefix(p, list[k].prompt, prompt, b * block))
                list[kept++] = list[k];
        list[kept++] = (struct listed){prompt, b * block};
        *n = kept;
    }
    if (*n > blocks) {
        memmove(list, list + (*n - blocks), blocks * sizeof *list);
        *n = blocks;
    }
    return found;
}

TEST(a_cache_has_the_blocks_that_a_list_by_last_use_has)
{
    for (uint64_t key = 0; key < 300; key++) {
        struct prompts p;
        struct leat_prompt_cache cache;
        struct leat_error error;
        struct listed list[MOST * TOKENS + TOKENS];
        make(&p, key);
        sort(&p, UINT64_MAX);
        const uint64_t block = draw(key, 7, 1, 4), blocks = draw(key, 8, 0, 30);
        assert_ok(leat_prompt_cache_init(&cache, p.order, p.common, p.lengths, p.n, block, blocks, &error));
        for (int pass = 0; pass < 2; pass++) {
            uint64_t n = 0;
            leat_prompt_cache_clear(&cache);
            for (uint64_t i = 0; i < 3 * p.n; i++) {
                const uint64_t prompt = draw(key, 9000 + i, 0, p.n - 1);
                assert_int_equal(leat_prompt_cache_compute(&cache, (uint32_t)prompt),
                                 compute_plainly(&p, list, &n, prompt, block, blocks));
            }
        }
        leat_prompt_cache_destroy(&cache);
    }
}

TEST(records_end_at_lines_and_those_of_csv_not_within_quotes)
{
    static const char text[] = "a,\"b\nc\"\"\n\"\nd\n\"";
    uint64_t ends[sizeof text], whole[sizeof text];
    bool quoted = false;
    assert_int_equal(leat_prompts_records(text, sizeof text - 1, false, &quoted, ends), 4);
    assert_int_equal(ends[0], 5);
    assert_false(quoted);
    const uint64_t n = leat_prompts_records(text, sizeof text - 1, true, &quoted, whole);
    assert_int_equal(n, 2);
    assert_int_equal(whole[0], 11);
    assert_true(quoted);
    for (uint64_t cut = 0; cut < sizeof text; cut++) {
        quoted = false;
        uint64_t k = leat_prompts_records(text, cut, true, &quoted, ends), first = k;
        k += leat_prompts_records(text + cut, sizeof text - 1 - cut, true, &quoted, ends + k);
        assert_int_equal(k, n);
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(ends[i] + (i < first ? 0 : cut), whole[i]);
    }
}

static int use(struct prompts *p, struct leat_error *error)
{
    struct leat_prompt_groups g;
    struct leat_prompt_cache cache = {0};
    sort(p, UINT64_MAX);
    int rc = leat_prompt_cache_init(&cache, p->order, p->common, p->lengths, p->n, 2, 5, error);
    leat_prompt_cache_destroy(&cache);
    if (rc)
        return rc;
    rc = leat_prompt_groups_make(p->order, p->common, p->lengths, p->n, 1, p->decode, &g, error);
    leat_free(g.order);
    leat_free(g.at);
    return rc;
}

TEST(any_allocation_for_groups_may_fail)
{
    struct prompts p;
    uint64_t key = 0;
    do
        make(&p, key++);
    while (p.n < MOST / 2);
    for (int64_t n = 0;; n++) {
        struct leat_error error = {.code = 0};
        fail_allocation(n);
        const int rc = use(&p, &error);
        if (!allocation_failed()) {
            assert_ok(rc);
            assert_true(n > 9);
            break;
        }
        assert_int_equal(rc, LEAT_E_NOMEM);
    }
}

TEST_MAIN()
