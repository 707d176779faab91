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
 * Six rounds are plenty where a round function has hundreds of inputs. Where it has a handful, pairs of samples land
 * unevenly over keys (measured by chi-square: visible up to 12 rounds for n = 5, up to 8 for n = 10), so small ranges
 * get 20; their cost does not matter.
 */
#include "base/permute.h"

#include <assert.h>

#include "base/random.h"

#define SMALL (UINT64_C(1) << 16) /* below it more rounds are run */

static uint64_t square_root_up(uint64_t n)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit; bit >>= 1)
        if ((root | bit) * (root | bit) < n) /* the largest root with root^2 < n; one more is the root rounded up */
            root |= bit;
    return root + 1;
}

struct leat_permutation leat_permutation_init(uint64_t n, uint64_t key)
{
    assert(n >= 1 && n <= UINT64_C(1) << 63);
    struct leat_permutation p = {.n = n, .a = square_root_up(n)};
    p.b = (n + p.a - 1) / p.a;
    p.reciprocal = UINT64_MAX / p.b;
    p.rounds = n < SMALL ? LEAT_PERMUTE_MAX_ROUNDS : 6;
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

uint64_t leat_permute(const struct leat_permutation *p, uint64_t i)
{
    do {
        /* floor(i * floor((2^64 - 1) / b) / 2^64) is i / b or one less, for every i. */
        uint64_t x = (uint64_t)(((unsigned __int128)i * p->reciprocal) >> 64), y = i - x * p->b;
        if (y >= p->b) {
            x++;
            y -= p->b;
        }
        for (unsigned r = 0; r < p->rounds; r += 2) {
            x = add_modulo(x, spread(y, p->keys[r], p->a), p->a);
            y = add_modulo(y, spread(x, p->keys[r + 1], p->b), p->b);
        }
        i = x * p->b + y;
    } while (i >= p->n);
    return i;
}
