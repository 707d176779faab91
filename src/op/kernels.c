/* Which kernels run, and the check that lets them compute instead of looking up. */
#include "op/kernels.h"

#include <math.h>
#include <string.h>

const struct leat_kernels *leat_kernels(enum leat_isa isa)
{
    return &leat_kernels_portable;
}

/*
 * The table's entry is the float32 nearest to v A + B. Splitting A and B at a power of two g makes the first of
 * fma(v, a, b) + fma(v, c, d) exact: a and b are multiples of g, and so is v a + b, below 2^24 g. The second is small,
 * so its rounding hardly ever shows in the sum: the comparison says when, and another g may do.
 */
void leat_store_find_affine(struct leat_store *s, const double *mean, const double *std)
{
    s->affine = false;
    for (unsigned c = 0; c < s->channels; c++) {
        const float *table = s->table[c];
        double A = 1.0 / (255.0 * std[c]), B = -mean[c] / std[c];
        double most = fabs(B) > fabs(255 * A + B) ? fabs(B) : fabs(255 * A + B);
        int top;
        frexp(most, &top);
        bool good = false;
        for (int bits = 24; bits > 16 && !good; bits--) {
            double g = ldexp(1.0, top - bits);
            s->a[c] = (float)(rint(A / g) * g);
            s->b[c] = (float)(rint(B / g) * g);
            s->c[c] = (float)(A - (double)s->a[c]);
            s->d[c] = (float)(B - (double)s->b[c]);
            good = true;
            for (int v = 0; v < 256 && good; v++) {
                float x = fmaf((float)v, s->a[c], s->b[c]) + fmaf((float)v, s->c[c], s->d[c]);
                good = !memcmp(&x, &table[v], sizeof x);
            }
        }
        if (!good)
            return;
    }
    s->affine = true;
}
