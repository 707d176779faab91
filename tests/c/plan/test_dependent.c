/*
 * Dependent sampling: compared with its probabilities, computed by going through all that can happen. What is random is
 * drawn from numbers that are always the same, so that no test fails by chance.
 */
#include <math.h>

#include "../allocations.h"
#include "../test.h"
#include "base/random.h"

enum { MOST = 5, CODES = 3125, MOST_RUNS = 3 };

/* Draws of an order: of the least probable one some 40. */
#define SEEDS (20000 / test_every(4))

/* A set of samples, and how many of an epoch of it were read before tick 0. */
struct job {
    uint64_t n, before;
    int64_t ids[MOST];
};

/* Own samples, and another job: its epoch at tick 0, and the one after that if `next`. Or a third job, too. */
struct situation {
    const char *name;
    struct job own, other, third;
    bool next;
};

static const struct situation situations[] = {
    {.name = "equal", .own = {4, 0, {0, 1, 2, 3}}, .other = {4, 0, {0, 1, 2, 3}}},
    {.name = "disjoint", .own = {4, 0, {0, 1, 2, 3}}, .other = {4, 0, {4, 5, 6, 7}}},
    {.name = "a larger one around it", .own = {3, 0, {0, 1, 2}}, .other = {5, 0, {0, 1, 2, 3, 4}}},
    {.name = "a smaller one within it", .own = {5, 0, {0, 1, 2, 3, 4}}, .other = {3, 0, {0, 1, 2}}},
    {.name = "equally many, partly the same", .own = {4, 0, {0, 1, 2, 3}}, .other = {4, 0, {2, 3, 4, 5}}},
    {.name = "more, partly the same", .own = {3, 0, {0, 1, 2}}, .other = {5, 0, {1, 2, 3, 4, 5}}},
    {.name = "fewer, partly the same", .own = {4, 0, {0, 1, 2, 3}}, .other = {3, 0, {2, 3, 4}}},
    {.name = "in mid-epoch", .own = {4, 0, {0, 1, 2, 3}}, .other = {4, 2, {0, 1, 2, 3}}},
    {.name = "in mid-epoch, a larger one", .own = {3, 0, {0, 1, 2}}, .other = {5, 1, {0, 1, 2, 3, 4}}},
    {.name = "its epoch ends on the way", .own = {4, 0, {0, 1, 2, 3}}, .other = {4, 2, {0, 1, 2, 3}}, .next = true},
    {.name = "its epoch ends on the way, a smaller one",
     .own = {4, 0, {0, 1, 2, 3}},
     .other = {2, 1, {1, 2}},
     .next = true},
    {.name = "its epoch ends on the way, partly the same",
     .own = {4, 0, {0, 1, 2, 3}},
     .other = {4, 3, {2, 3, 4, 5}},
     .next = true},
    {.name = "two of them", .own = {4, 0, {0, 1, 2, 3}}, .other = {2, 0, {0, 1}}, .third = {3, 0, {1, 2, 3}}},
    {.name = "one sample", .own = {1, 0, {3}}, .other = {2, 0, {2, 3}}},
};

static void shuffle(const struct job *job, uint64_t key, int64_t *out)
{
    struct leat_error error = {0};
    assert_ok(leat_dependent_order(job->ids, job->n, NULL, 0, key, out, NULL, &error));
}

/* What the others of a situation read, drawn by a key, in arrays of the caller's. */
static size_t draw_runs(const struct situation *s, uint64_t key, int64_t orders[MOST_RUNS][MOST],
                        struct leat_dependent_run *runs)
{
    size_t n = 0;
    const struct job *o = &s->other;
    shuffle(o, leat_key_mix(key, 1), orders[0]);
    runs[n++] = (struct leat_dependent_run){orders[0] + o->before, o->n - o->before, 0};
    if (s->next) {
        shuffle(o, leat_key_mix(key, 2), orders[1]);
        runs[n++] = (struct leat_dependent_run){orders[1], o->n, o->n - o->before};
    }
    if (s->third.n) {
        shuffle(&s->third, leat_key_mix(key, 3), orders[2]);
        runs[n++] = (struct leat_dependent_run){orders[2] + s->third.before, s->third.n - s->third.before, 0};
    }
    return n;
}

/* ---- all that can happen --------------------------------------------------------------------- */

/* An order as one number. */
static size_t code_of(const struct job *own, const int64_t *order)
{
    size_t code = 0;
    for (uint64_t t = 0; t < own->n; t++)
        for (uint64_t i = 0; i < own->n; i++)
            if (order[t] == own->ids[i])
                code = code * MOST + i;
    return code;
}

static bool has(const int64_t *set, uint64_t n, int64_t id)
{
    for (uint64_t i = 0; i < n; i++)
        if (set[i] == id)
            return true;
    return false;
}

struct walk {
    const struct job *own;
    const struct leat_dependent_run *runs;
    size_t n_runs;
    double probability[CODES], shared; /* of each order; how many ticks are shared, expected */
};

/* The run of which most is expected at a tick, or NULL; *rest and *n: what it has left. */
static const struct leat_dependent_run *best_of(const struct walk *w, uint64_t tick, const int64_t *left,
                                                uint64_t n_left)
{
    const struct leat_dependent_run *best = NULL;
    double most = 0;
    for (size_t r = 0; r < w->n_runs; r++) {
        const struct leat_dependent_run *run = &w->runs[r];
        if (tick < run->begin || tick >= run->begin + run->n)
            continue;
        const uint64_t n = run->n - (tick - run->begin);
        uint64_t common = 0;
        for (uint64_t i = 0; i < n_left; i++)
            common += has(run->ids + (tick - run->begin), n, left[i]);
        if ((double)common / fmax((double)n, (double)n_left) > most) {
            most = (double)common / fmax((double)n, (double)n_left);
            best = run;
        }
    }
    return best;
}

/* `order` has what was taken up to a tick, with a probability; `run` is followed. */
static void go_on(struct walk *w, const struct leat_dependent_run *run, uint64_t tick, int64_t *order,
                  double probability)
{
    int64_t left[MOST];
    uint64_t n = 0;
    bool due = run && tick >= run->begin + run->n;
    if (probability <= 0)
        return;
    if (tick == w->own->n) {
        w->probability[code_of(w->own, order)] += probability;
        return;
    }
    for (uint64_t i = 0; i < w->own->n; i++)
        if (!has(order, tick, w->own->ids[i]))
            left[n++] = w->own->ids[i];
    for (size_t r = 0; r < w->n_runs; r++)
        due |= w->runs[r].begin == tick;
    run = due ? best_of(w, tick, left, n) : run;
    const int64_t *rest = run ? run->ids + (tick - run->begin) : NULL;
    const uint64_t others = run ? run->n - (tick - run->begin) : 0;
    /* The rest of each probability, beyond what is drawn together. */
    const double k = 1 / (double)n, j = others ? 1 / (double)others : 0;
    const double together = run && has(left, n, *rest) ? fmin(1, k / j) : 0;
    double weight[MOST], sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += weight[i] = k - (has(rest, others, left[i]) ? fmin(k, j) : 0);
    for (uint64_t i = 0; i < n; i++) {
        double p = together < 1 && sum > 0 ? (1 - together) * weight[i] / sum : 0;
        p += run && left[i] == *rest ? together : 0;
        order[tick] = left[i];
        for (size_t r = 0; r < w->n_runs; r++)
            if (tick >= w->runs[r].begin && tick < w->runs[r].begin + w->runs[r].n &&
                w->runs[r].ids[tick - w->runs[r].begin] == left[i]) {
                w->shared += probability * p;
                break;
            }
        go_on(w, run, tick + 1, order, probability * p);
    }
}

static struct walk *walk_all(const struct job *own, const struct leat_dependent_run *runs, size_t n_runs)
{
    struct walk *w = calloc(1, sizeof *w);
    int64_t order[MOST];
    assert_non_null(w);
    *w = (struct walk){.own = own, .runs = runs, .n_runs = n_runs};
    go_on(w, NULL, 0, order, 1);
    return w;
}

/* ---- chance ---------------------------------------------------------------------------------- */

/* Fails where counts of `of` draws differ from probabilities by more than chance allows once in some 10^7 times: the
 * mean of chi-square is the degrees of freedom f, its variance 2 f; its cube root is nearly normal (Wilson, Hilferty).
 */
static void assert_as_probable(const char *what, const uint64_t *counts, const double *probabilities, size_t cells,
                               uint64_t of)
{
    double chi = 0;
    size_t possible = 0;
    for (size_t c = 0; c < cells; c++) {
        const double want = probabilities[c] * (double)of;
        if (probabilities[c] < 1e-12) {
            assert_int_equal(counts[c], 0);
            continue;
        }
        chi += ((double)counts[c] - want) * ((double)counts[c] - want) / want;
        possible++;
    }
    if (possible < 2)
        return;
    const double f = (double)possible - 1, spread = 2 / (9 * f);
    const double z = (cbrt(chi / f) - (1 - spread)) / sqrt(spread);
    if (z > 5.2)
        fail_msg("%s: chi-square is %.1f, with %zu degrees of freedom", what, chi, possible - 1);
}

static uint64_t factorial(uint64_t n)
{
    return n < 2 ? 1 : n * factorial(n - 1);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(an_order_has_each_sample_once_and_is_the_same_again)
{
    for (size_t k = 0; k < sizeof situations / sizeof *situations; k++)
        for (uint64_t seed = 0; seed < 50; seed++) {
            const struct situation *s = &situations[k];
            int64_t orders[MOST_RUNS][MOST], out[MOST], again[MOST];
            struct leat_dependent_run runs[MOST_RUNS];
            struct leat_error error = {0};
            uint64_t shared, found = 0;
            const size_t n = draw_runs(s, seed, orders, runs);
            assert_ok(leat_dependent_order(s->own.ids, s->own.n, runs, n, seed, out, &shared, &error));
            assert_ok(leat_dependent_order(s->own.ids, s->own.n, runs, n, seed, again, NULL, &error));
            assert_memory_equal(out, again, s->own.n * sizeof *out);
            for (uint64_t i = 0; i < s->own.n; i++)
                assert_true(has(out, s->own.n, s->own.ids[i]));
            for (uint64_t t = 0; t < s->own.n; t++) {
                bool both = false;
                for (size_t r = 0; r < n; r++)
                    both |=
                        t >= runs[r].begin && t < runs[r].begin + runs[r].n && runs[r].ids[t - runs[r].begin] == out[t];
                found += both;
            }
            assert_int_equal(shared, found);
        }
}

TEST(each_order_is_as_probable_as_all_that_can_happen_says)
{
    for (size_t k = 0; k < sizeof situations / sizeof *situations; k++)
        for (uint64_t draw = 0; draw < 3; draw++) {
            const struct situation *s = &situations[k];
            int64_t orders[MOST_RUNS][MOST], out[MOST];
            struct leat_dependent_run runs[MOST_RUNS];
            struct leat_error error = {0};
            uint64_t shared, *counts = calloc(CODES, sizeof *counts);
            double sum = 0;
            const size_t n = draw_runs(s, draw, orders, runs);
            struct walk *w = walk_all(&s->own, runs, n);
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                assert_ok(
                    leat_dependent_order(s->own.ids, s->own.n, runs, n, leat_key_mix(99, seed), out, &shared, &error));
                counts[code_of(&s->own, out)]++;
                sum += (double)shared;
            }
            assert_as_probable(s->name, counts, w->probability, CODES, SEEDS);
            assert_true(fabs(sum / SEEDS - w->shared) < 5 * (double)s->own.n / sqrt(SEEDS));
            free(counts);
            free(w);
        }
}

/* Over all orders of the others, which are as probable as each other. */
TEST(all_orders_are_exactly_as_probable_whoever_is_followed)
{
    for (size_t k = 0; k < sizeof situations / sizeof *situations; k++) {
        const struct situation *s = &situations[k];
        if (s->next || s->third.n)
            continue; /* two orders at once: the next test draws them */
        double *all = calloc(CODES, sizeof *all);
        const uint64_t n = s->other.n, orders = factorial(n);
        for (uint64_t number = 0; number < orders; number++) {
            int64_t rest[MOST], order[MOST];
            memcpy(rest, s->other.ids, sizeof rest);
            for (uint64_t i = 0, code = number; i < n; i++) {
                const uint64_t pick = code % (n - i);
                code /= n - i;
                order[i] = rest[pick];
                rest[pick] = rest[n - i - 1];
            }
            struct leat_dependent_run run = {order + s->other.before, n - s->other.before, 0};
            struct walk *w = walk_all(&s->own, &run, 1);
            for (size_t c = 0; c < CODES; c++)
                all[c] += w->probability[c] / (double)orders;
            free(w);
        }
        for (size_t c = 0; c < CODES; c++)
            if (all[c] > 0)
                assert_true(fabs(all[c] * (double)factorial(s->own.n) - 1) < 1e-9);
        free(all);
    }
}

TEST(all_orders_are_as_probable_if_the_others_are_drawn)
{
    for (size_t k = 0; k < sizeof situations / sizeof *situations; k++) {
        const struct situation *s = &situations[k];
        uint64_t *counts = calloc(CODES, sizeof *counts);
        struct walk *alone = walk_all(&s->own, NULL, 0); /* each order with the same probability */
        for (uint64_t seed = 0; seed < 2 * SEEDS; seed++) {
            int64_t orders[MOST_RUNS][MOST], out[MOST];
            struct leat_dependent_run runs[MOST_RUNS];
            struct leat_error error = {0};
            const size_t n = draw_runs(s, leat_key_mix(seed, 7), orders, runs);
            assert_ok(leat_dependent_order(s->own.ids, s->own.n, runs, n, leat_key_mix(seed, 8), out, NULL, &error));
            counts[code_of(&s->own, out)]++;
        }
        assert_as_probable(s->name, counts, alone->probability, CODES, 2 * SEEDS);
        free(counts);
        free(alone);
    }
}

/* Each follows what the other has left, in turn: an epoch says nothing about the next one of its job.
 *
 *     ticks    0 1 2 3 4 5 6 7 8
 *     a        first.. second.       of 4 samples
 *     b            first second      of 3 of these
 */
TEST(epochs_of_jobs_that_follow_each_other_are_independent)
{
    const struct job a = {4, 0, {0, 1, 2, 3}}, b = {3, 0, {1, 2, 3}};
    enum { CELLS_A = 24 * 24, CELLS_B = 6 * 6 };
    uint64_t in_a[CELLS_A] = {0}, in_b[CELLS_B] = {0};
    double alike_a[CELLS_A], alike_b[CELLS_B];
    size_t ranks_a[CODES] = {0}, ranks_b[CODES] = {0}, n_a = 0, n_b = 0;
    struct walk *all_a = walk_all(&a, NULL, 0), *all_b = walk_all(&b, NULL, 0);
    for (size_t c = 0; c < CODES; c++) {
        ranks_a[c] = all_a->probability[c] > 0 ? n_a++ : 0;
        ranks_b[c] = all_b->probability[c] > 0 ? n_b++ : 0;
    }
    assert_int_equal(n_a, 24);
    assert_int_equal(n_b, 6);
    for (uint64_t seed = 0; seed < 10 * SEEDS; seed++) {
        int64_t a1[MOST], a2[MOST], b1[MOST], b2[MOST];
        struct leat_error error = {0};
        shuffle(&a, leat_key_mix(seed, 1), a1);
        const struct leat_dependent_run rest_of_a1 = {a1 + 2, 2, 0};
        assert_ok(leat_dependent_order(b.ids, 3, &rest_of_a1, 1, leat_key_mix(seed, 2), b1, NULL, &error));
        const struct leat_dependent_run rest_of_b1 = {b1 + 2, 1, 0};
        assert_ok(leat_dependent_order(a.ids, 4, &rest_of_b1, 1, leat_key_mix(seed, 3), a2, NULL, &error));
        const struct leat_dependent_run rest_of_a2 = {a2 + 1, 3, 0};
        assert_ok(leat_dependent_order(b.ids, 3, &rest_of_a2, 1, leat_key_mix(seed, 4), b2, NULL, &error));
        in_a[ranks_a[code_of(&a, a1)] * 24 + ranks_a[code_of(&a, a2)]]++;
        in_b[ranks_b[code_of(&b, b1)] * 6 + ranks_b[code_of(&b, b2)]]++;
    }
    for (size_t i = 0; i < CELLS_A; i++)
        alike_a[i] = 1.0 / CELLS_A;
    for (size_t i = 0; i < CELLS_B; i++)
        alike_b[i] = 1.0 / CELLS_B;
    assert_as_probable("epochs of a", in_a, alike_a, CELLS_A, 10 * SEEDS);
    assert_as_probable("epochs of b", in_b, alike_b, CELLS_B, 10 * SEEDS);
    free(all_a);
    free(all_b);
}

/* How many ticks a run of `a` samples and an order of `b` share, `i` of them in both. */
static double expect_shared(int a, int b, int i)
{
    enum { ROOM = 61 };
    static double e[ROOM][ROOM][ROOM];
    assert_true(a < ROOM && b < ROOM && i <= a && i <= b);
    for (int na = 1; na <= a; na++)
        for (int nb = 1; nb <= b; nb++)
            for (int ni = 0; ni <= na && ni <= nb; ni++) {
                const double common = (double)ni / na, accepted = na < nb ? (double)na / nb : 1;
                const double less = ni ? e[na - 1][nb - 1][ni - 1] : 0;
                const double same = ni < na && ni < nb ? e[na - 1][nb - 1][ni] : 0;
                const double own = (double)(nb - ni) * na, both = na > nb ? (double)ni * (na - nb) : 0;
                e[na][nb][ni] = common * (accepted + less);
                if (ni < na)
                    e[na][nb][ni] += (1 - common) * (own * same + both * less) / (own + both);
            }
    return e[a][b][i];
}

TEST(as_many_ticks_are_shared_as_expected)
{
    static const int cases[][3] = {{60, 60, 60}, {60, 60, 30}, {20, 60, 20}, {60, 20, 20},
                                   {30, 60, 10}, {60, 30, 10}, {50, 60, 45}, {60, 60, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const int a = cases[k][0], b = cases[k][1], i = cases[k][2];
        struct job {
            int64_t ids[64];
        } own, other;
        double sum = 0, squares = 0, nested = 0;
        for (int n = 0; n < 64; n++) {
            own.ids[n] = n;
            other.ids[n] = n < i ? n : 1000 + n;
        }
        enum { TIMES = 2000 };
        for (uint64_t seed = 0; seed < TIMES; seed++) {
            int64_t order[64], out[64];
            uint64_t shared;
            struct leat_error error = {0};
            assert_ok(
                leat_dependent_order(other.ids, (uint64_t)a, NULL, 0, leat_key_mix(seed, 1), order, NULL, &error));
            const struct leat_dependent_run run = {order, (uint64_t)a, 0};
            assert_ok(leat_dependent_order(own.ids, (uint64_t)b, &run, 1, leat_key_mix(seed, 2), out, &shared, &error));
            sum += (double)shared;
            squares += (double)shared * (double)shared;
        }
        const double mean = sum / TIMES, spread = sqrt(fmax(squares / TIMES - mean * mean, 0) / TIMES);
        assert_true(fabs(mean - expect_shared(a, b, i)) <= 4.5 * spread + 1e-9);
        for (int t = 0; i == a && a < b && t < a;
             t++) /* within a larger set: what the sets have in common, each tick */
            nested += (double)(a - t) / (b - t);
        if (nested > 0)
            assert_true(fabs(nested - expect_shared(a, b, i)) < 1e-9);
    }
    assert_true(fabs(expect_shared(60, 60, 60) - 60) < 1e-9);
}

TEST(who_reads_the_same_set_from_the_same_tick_on_reads_the_same)
{
    enum { N = 100000 };
    int64_t *ids = calloc(N, sizeof *ids), *first = calloc(N, sizeof *first), *out = calloc(N, sizeof *out);
    struct leat_error error = {0};
    uint64_t shared;
    for (int i = 0; i < N; i++)
        ids[i] = ((int64_t)i * 7919) << 20;
    assert_ok(leat_dependent_order(ids, N, NULL, 0, 1, first, NULL, &error));
    assert_memory_not_equal(first, ids, N * sizeof *ids);
    const struct leat_dependent_run runs[2] = {{ids, N / 2, 0}, {first, N, 0}}; /* the better one is followed */
    assert_ok(leat_dependent_order(ids, N, runs, 2, 2, out, &shared, &error));
    assert_memory_equal(out, first, N * sizeof *out);
    assert_int_equal(shared, N);
    free(ids);
    free(first);
    free(out);
}

TEST(what_cannot_be_is_refused)
{
    const int64_t twice[] = {1, 2, 1}, below[] = {1, -2}, good[] = {1, 2, 3};
    int64_t out[3];
    struct leat_error error = {0};
    assert_int_equal(leat_dependent_order(twice, 3, NULL, 0, 1, out, NULL, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "sample 1 is there twice"));
    assert_int_equal(leat_dependent_order(below, 2, NULL, 0, 1, out, NULL, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "sample -2 does not exist"));
    const struct leat_dependent_run run = {twice, 3, 0};
    assert_int_equal(leat_dependent_order(good, 3, &run, 1, 1, out, NULL, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "the order of another has sample 1 twice"));
    assert_int_equal(leat_dependent_order(good, UINT32_MAX, NULL, 0, 1, out, NULL, &error), LEAT_E_RANGE);
    assert_ok(leat_dependent_order(good, 0, &run, 1, 1, out, NULL, &error));
}

TEST(every_allocation_may_fail_once)
{
    int64_t orders[MOST_RUNS][MOST], out[MOST];
    struct leat_dependent_run runs[MOST_RUNS];
    struct leat_error error = {0};
    const size_t n_runs = draw_runs(&situations[12], 1, orders, runs);
    int n = 0;
    for (bool done = false; !done; n++) {
        fail_allocation(n);
        int rc = leat_dependent_order(situations[12].own.ids, 4, runs, n_runs, 1, out, NULL, &error);
        done = !allocation_failed();
        assert_int_equal(rc, done ? LEAT_OK : LEAT_E_NOMEM);
    }
    assert_true(n > 5);
}

TEST_MAIN()
