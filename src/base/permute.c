/*
 * The keyed permutation behind shuffled orders and splits.
 *
 *     i = x * b + y,  x in [0, a), y in [0, b)
 *
 *     even rounds:  x = x + f(y) mod a            f: two multiplications and a shift, scaled to the range by a third
 *     odd rounds:   y = y + f(x) mod b
 *
 * Adding modulo a and b instead of xoring bits keeps the rectangle within sqrt(n) of n, so that a second walk is rare
 * and a loop over permute() has no branch that is hard to predict; a network on bits would walk up to four times.
 *
 * Six rounds are plenty if a round function has hundreds of inputs. If it has fewer, pairs of samples land unevenly
 * over keys. By chi-square it is seen up to 12 rounds for n = 5, up to 8 for n = 64 and up to 6 for n = 256; from n =
 * 400 on six rounds do not show. So ranges below 256 get 20 and those below 4096 get 8.
 */
#include "base/permute.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "base/random.h"

#define SMALL 256 /* below these more rounds are run */
#define MEDIUM 4096

/* For 1 <= n <= 2^63. sqrt() is rounded correctly by IEEE 754, so what it gives is the root or next to it. */
static uint64_t square_root_up(uint64_t n)
{
    uint64_t root = (uint64_t)sqrt((double)n);
    while (root * root >= n)
        root--;
    while (root * root < n)
        root++;
    return root;
}

struct leat_permutation leat_permutation_init(uint64_t n, uint64_t key)
{
    assert(n >= 1 && n <= UINT64_C(1) << 63);
    struct leat_permutation p = {.n = n, .a = square_root_up(n)};
    p.b = (n + p.a - 1) / p.a;
    p.reciprocal = UINT64_MAX / p.b;
    p.rounds = n < SMALL ? LEAT_PERMUTE_MAX_ROUNDS : n < MEDIUM ? 8 : 6;
    for (unsigned r = 0; r < p.rounds; r++)
        p.keys[r] = leat_key_mix(key, r);
    return p;
}

/* Some value below `range` that depends on all bits of x and key. */
static inline uint64_t spread(uint64_t x, uint64_t key, uint64_t range)
{
    x = (x ^ key) * UINT64_C(0x9fb21c651e98df25);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return (uint64_t)(((unsigned __int128)x * range) >> 64);
}

static inline uint64_t add_modulo(uint64_t x, uint64_t y, uint64_t modulus)
{
    uint64_t sum = x + y;
    return sum >= modulus ? sum - modulus : sum;
}

/* i as a place in the rectangle. */
static inline void split(const struct leat_permutation *p, uint64_t i, uint64_t *x, uint64_t *y)
{
    /* floor(i * floor((2^64 - 1) / b) / 2^64) is i / b or one less, for every i. */
    uint64_t quotient = (uint64_t)(((unsigned __int128)i * p->reciprocal) >> 64), rest = i - quotient * p->b;
    bool less = rest >= p->b;
    *x = quotient + less;
    *y = less ? rest - p->b : rest;
}

/* An even round and the odd one after it. */
static inline void two_rounds(const struct leat_permutation *p, const uint64_t *keys, uint64_t *x, uint64_t *y)
{
    *x = add_modulo(*x, spread(*y, keys[0], p->a), p->a);
    *y = add_modulo(*y, spread(*x, keys[1], p->b), p->b);
}

static inline uint64_t walk_once(const struct leat_permutation *p, uint64_t i)
{
    uint64_t x, y;
    split(p, i, &x, &y);
    for (unsigned r = 0; r < p->rounds; r += 2)
        two_rounds(p, p->keys + r, &x, &y);
    return x * p->b + y;
}

uint64_t leat_permute(const struct leat_permutation *p, uint64_t i)
{
    do {
        i = walk_once(p, i);
    } while (i >= p->n);
    return i;
}

/* One walk is a chain of multiplications that each wait for the one before; four side by side fill the multiplier. */
void leat_permute_many(const struct leat_permutation *permutation, uint64_t *values, size_t n)
{
    const struct leat_permutation p = *permutation; /* apart from `values`: its fields stay in registers */
    for (; n >= 4; n -= 4, values += 4) {
        uint64_t x0, x1, x2, x3, y0, y1, y2, y3;
        split(&p, values[0], &x0, &y0);
        split(&p, values[1], &x1, &y1);
        split(&p, values[2], &x2, &y2);
        split(&p, values[3], &x3, &y3);
        for (unsigned r = 0; r < p.rounds; r += 2) {
            two_rounds(&p, p.keys + r, &x0, &y0);
            two_rounds(&p, p.keys + r, &x1, &y1);
            two_rounds(&p, p.keys + r, &x2, &y2);
            two_rounds(&p, p.keys + r, &x3, &y3);
        }
        values[0] = x0 * p.b + y0;
        values[1] = x1 * p.b + y1;
        values[2] = x2 * p.b + y2;
        values[3] = x3 * p.b + y3;
        for (int j = 0; j < 4; j++)
            if (values[j] >= p.n)
                values[j] = leat_permute(&p, values[j]);
    }
    for (; n; n--, values++)
        *values = leat_permute(&p, *values);
}
