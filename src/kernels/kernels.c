/* The check that lets kernels compute instead of looking up. */
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#include "kernels/values.h"

/*
 * The table's entry is the float32 nearest to v A + B. Splitting A and B at a power of two g makes the first of
 * fma(v, a, b) + fma(v, c, d) exact: a and b are multiples of g, and so is v a + b, below 2^24 g. The second is small,
 * so its rounding hardly ever shows in the sum: the comparison says when, and another g may do.
 */
static bool same(const struct leat_store *s, unsigned c, unsigned v, float x)
{
    uint16_t half = s->dtype == LEAT_F16 ? leat_float_to_half(x) : leat_float_to_bfloat(x);
    const uint8_t *entry = (const uint8_t *)s->table[c] + v * s->size;
    return !memcmp(entry, s->size == 4 ? (void *)&x : (void *)&half, s->size);
}

void leat_store_find_affine(struct leat_store *s, const double *scale, const double *offset)
{
    s->affine = false;
    if (!leat_dtype_is_float(s->dtype) || s->size > 4)
        return;
    for (unsigned c = 0; c < s->channels; c++) {
        double A = scale[c], B = offset[c], most = fabs(B) > fabs(255 * A + B) ? fabs(B) : fabs(255 * A + B);
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
            for (unsigned v = 0; v < 256 && good; v++)
                good = same(s, c, v, fmaf((float)v, s->a[c], s->b[c]) + fmaf((float)v, s->c[c], s->d[c]));
        }
        if (!good)
            return;
    }
    s->affine = true;
}
