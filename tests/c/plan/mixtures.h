/* Mixtures drawn from a number, for tests. */
#ifndef LEAT_TEST_PLAN_MIXTURES_H
#define LEAT_TEST_PLAN_MIXTURES_H

#include <math.h>

#include "common.h"

enum { MAX_ROWS = 20000, MOST = 16 };

static struct leat_plan_row rows[MAX_ROWS];

/* A mixture of samples in order, with shares drawn from `key`. */
struct made {
    struct leat_plan_source sources[MOST];
    uint64_t tokens[MOST][90]; /* of their rows, where these vary in length */
    struct leat_plan_spec spec;
};

static inline void draw_shares(uint64_t key, uint32_t n, double *shares)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += shares[k] = 0.01 + leat_draw_unit(key, k) * (draw(key, 100 + k, 0, 3) ? 1 : 0.02);
    for (uint32_t k = 0; k < n; k++)
        shares[k] /= sum;
}

static inline void draw_mixture(uint64_t key, uint32_t n, struct made *m)
{
    double shares[MOST];
    *m = (struct made){.spec = {.mixed = true, .n_sources = n, .seed = key, .global_batch = 64, .world_size = 1}};
    m->spec.sources = m->sources;
    draw_shares(leat_key_mix(key, 1), n, shares);
    for (uint32_t k = 0; k < n; k++)
        m->sources[k] = (struct leat_plan_source){.count = draw(key, 200 + k, 1, 90),
                                                  .share = shares[k],
                                                  .exhausted = LEAT_EXHAUSTED_REPEAT,
                                                  .order = {.order = LEAT_ORDER_SHUFFLED}};
}

static inline struct leat_plan *open_mixture(const struct made *m)
{
    struct leat_plan *plan;
    struct leat_error error = {0};
    assert_ok(leat_plan_new(&m->spec, &plan, &error));
    return plan;
}

static inline uint64_t read_epoch(struct leat_plan *plan, uint64_t epoch)
{
    const uint64_t n = walk(&plan, 1, (struct leat_position){epoch, 0}, rows, MAX_ROWS);
    assert_int_equal(n, leat_plan_epoch_rows(plan, epoch));
    return n;
}

/* The bound of docs/order.md, for n sources whose shares change. */
static inline double bound_of(uint32_t n)
{
    const double levels = ceil(log2(n));
    return levels * (levels + 1) / 4 + 1e-6;
}

/* Shares of which none is small, so that epochs are not long. */
static inline void draw_even_shares(uint64_t key, uint32_t n, double *shares)
{
    draw_shares(key, n, shares);
    for (uint32_t k = 0; k < n; k++)
        shares[k] = 0.2 * shares[k] + 0.8 / n;
}

/* Shares of tokens, of rows that vary in length. */
static inline void draw_lengths(uint64_t key, uint64_t longest, struct made *m)
{
    for (uint32_t k = 0; k < m->spec.n_sources; k++) {
        const uint64_t most = draw(key, 8000 + k, 1, longest);
        for (uint32_t i = 0; i < 90; i++)
            m->tokens[k][i] = draw(leat_key_mix(key, k), i, 0, 3) ? draw(leat_key_mix(key, k), 100 + i, 0, most) : 0;
        m->tokens[k][0] = most;
        m->sources[k].tokens = 0;
        m->sources[k].row_tokens = m->tokens[k];
    }
}

/* Random sources of all kinds, with decisions and a schedule. */
static inline void draw_anything(uint64_t t, struct made *m, struct leat_mix_point *points, double (*shares)[MOST])
{
    const uint32_t n = (uint32_t)draw(t, 0, 2, MOST);
    draw_mixture(t, n, m);
    for (uint32_t k = 0; k < n; k++) {
        m->sources[k].exhausted = (enum leat_exhausted)draw(t, 600 + k, 0, 2);
        m->sources[k].limit = draw(t, 700 + k, 0, 2);
        m->sources[k].tokens = t % 3 ? 0 : draw(t, 800 + k, 1, 900);
        m->sources[k].share = 0.2 * m->sources[k].share + 0.8 / n;
    }
    if (t % 5 > 2)
        draw_lengths(t, t % 2 ? 40 : 4000, m);
    if (t % 4 == 1 || t % 3 == 0)
        m->spec.epoch_rows = draw(t, 900, 20, 400);
    for (uint64_t i = 0; t % 2 && i < 4; i++) {
        draw_even_shares(leat_key_mix(t, 50 + i), n, shares[i]);
        points[i] = (struct leat_mix_point){i ? points[i - 1].row + draw(t, 910 + i, 1, 300) : 0, shares[i]};
        m->spec.schedule = points;
        m->spec.n_points = 4;
        m->spec.linear = t % 8 == 3;
    }
}

#endif
