/*
 * Random numbers of rows (leat/random.h): blocks of Philox, a chunk at a time that stays in the first cache, and the
 * numbers made from these. Only additions, multiplications, divisions and exact scaling, each of which is rounded as
 * IEEE 754 says, so the same numbers come from any machine and from the same formulas in torch
 * (python/leat/functions/philox.py).
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kernels/philox.h"
#include "leat/random.h"

#define CHUNK 1024 /* words */

void leat_philox_portable(uint64_t key, uint32_t call, uint64_t first, size_t blocks, uint32_t *out)
{
    for (size_t i = 0; i < blocks; i++) {
        const uint64_t block = first + i;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), call, 0};
        leat_philox_block(key, counter, out + 4 * i);
    }
}

static leat_philox_fn blocks_fn(void)
{
    return LEAT_OF_ISA(leat_cpu_isa(), &leat_philox);
}

/* ---- from words to numbers -------------------------------------------------------------------- */

/* The inverse of the normal distribution, by rational functions of degree 7. All take x and give P(x) / Q(x). */
LEAT_INLINE double ratio(const double p[8], const double q[7], double x)
{
    const double above = ((((((p[7] * x + p[6]) * x + p[5]) * x + p[4]) * x + p[3]) * x + p[2]) * x + p[1]) * x + p[0];
    const double below = (((((q[6] * x + q[5]) * x + q[4]) * x + q[3]) * x + q[2]) * x + q[1]) * x + q[0];
    return above / (below * x + 1.0);
}

static const double A[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                            1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                            3.3430575583588128105e+4, 2.5090809287301226727e+3};
static const double B[7] = {4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
                            2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
                            5.2264952788528545610e+3};
static const double C[8] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                            3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                            2.27238449892691845833e-2, 7.74545014278341407640e-4};
static const double D[7] = {2.05319162663775882187e0,  1.67638483018380384940e0,  6.89767334985100004550e-1,
                            1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
                            1.05075007164441684324e-9};
static const double E[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                            2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                            2.71155556874348757815e-5, 2.01033439929228813265e-7};
static const double F[7] = {5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
                            7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
                            2.04426310338993978564e-15};

#define CENTRE 0.425

LEAT_INLINE double normal_of_centre(double q)
{
    return q * ratio(A, B, 0.180625 - q * q);
}

/* leat_math_log, without a branch and in numbers of one width, so that it goes into vectors. */
LEAT_INLINE double log_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t fraction = bits & UINT64_C(0xfffffffffffff);
    const uint64_t above = ((fraction - UINT64_C(0x6a09e667f3bcd)) >> 63) ^ 1; /* 1: m is at least the root of 2 */
    const uint64_t exponent = ((bits >> 52) + above) | UINT64_C(0x4330000000000000); /* 2^52 and its bits */
    const uint64_t reduced = fraction | (UINT64_C(1023) - above) << 52;
    double e, m;
    memcpy(&e, &exponent, sizeof e);
    memcpy(&m, &reduced, sizeof m);
    e -= 0x1p52 + 1023;
    const double s = (m - 1.0) / (m + 1.0), t = s * s;
    const double sum =
        (((((((((1.0 / 21 * t + 1.0 / 19) * t + 1.0 / 17) * t + 1.0 / 15) * t + 1.0 / 13) * t + 1.0 / 11) * t +
            1.0 / 9) *
               t +
           1.0 / 7) *
              t +
          1.0 / 5) *
             t +
         1.0 / 3) *
            t +
        1.0;
    return e * 0x1.62e42fee00000p-1 + (2.0 * s * sum + e * 0x1.a39ef35793c76p-33);
}

/* The square root of a number from 2 to 40, by Heron's method from a value that half its exponent gives. That of
 * libraries for vectors, which torch uses, may be off by the last bit. */
LEAT_INLINE double root_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits >> 1) + UINT64_C(0x1ff7a3be00000000);
    double y;
    memcpy(&y, &bits, sizeof y);
    y = 0.5 * (y + x / y);
    y = 0.5 * (y + x / y);
    y = 0.5 * (y + x / y);
    return 0.5 * (y + x / y);
}

enum { GROUP = 256, TAILS = 16 };

/* The tails of a group, and behind them any: x of each, without sign. */
LEAT_INLINE void tails_of(const double *restrict q, double *restrict x, size_t n)
{
    for (size_t at = 0; at < n; at += TAILS) {
        double r[TAILS];
        int far = 0;
        for (size_t i = 0; i < TAILS; i++)
            r[i] = root_of(-log_of(0.5 - fabs(q[at + i])));
        for (size_t i = 0; i < TAILS; i++)
            x[at + i] = ratio(C, D, r[i] - 1.6);
        for (size_t i = 0; i < TAILS; i++)
            far |= r[i] > 5.0;
        for (size_t i = 0; far && i < TAILS; i++)
            if (r[i] > 5.0)
                x[at + i] = ratio(E, F, r[i] - 5.0);
    }
}

/* m of q from -1/2 to 1/2, both excluded: the probability less 1/2. All have the centre's function first, in vectors.
 * Those that lie in a tail, three of twenty, are put together and have theirs. */
LEAT_INLINE void normals(const double *restrict q, double *restrict x, size_t m)
{
    double tail[GROUP + TAILS], found[GROUP + TAILS];
    uint16_t place[GROUP];
    uint64_t is_tail[GROUP];
    size_t n = 0;
    for (size_t i = 0; i < m; i++)
        x[i] = normal_of_centre(q[i]);
    for (size_t i = 0; i < m; i++)
        is_tail[i] = fabs(q[i]) > CENTRE;
    for (size_t i = 0; i < m; i++) {
        place[n] = (uint16_t)i;
        n += is_tail[i];
    }
    for (size_t i = 0; i < n; i++)
        tail[i] = q[place[i]];
    for (size_t i = 0; i < TAILS; i++)
        tail[n + i] = 0.45;
    tails_of(tail, found, n);
    for (size_t i = 0; i < n; i++)
        x[place[i]] = copysign(found[i], tail[i]);
}

LEAT_INLINE void normals_f32(const uint32_t *restrict words, void *restrict to, size_t n)
{
    float *out = to;
    for (size_t at = 0; at < n; at += GROUP) {
        double q[GROUP], x[GROUP];
        const size_t m = n - at < GROUP ? n - at : GROUP;
        for (size_t i = 0; i < m; i++)
            q[i] = ((double)(int32_t)(words[at + i] ^ UINT32_C(0x80000000)) + 0.5) * 0x1p-32;
        normals(q, x, m);
        for (size_t i = 0; i < m; i++)
            out[at + i] = (float)x[i];
    }
}

static inline uint64_t double_word(const uint32_t *words)
{
    return words[0] | (uint64_t)words[1] << 32;
}

LEAT_INLINE void normals_f64(const uint32_t *restrict words, void *restrict to, size_t n)
{
    double *out = to;
    for (size_t at = 0; at < n; at += GROUP) {
        double q[GROUP], x[GROUP];
        const size_t m = n - at < GROUP ? n - at : GROUP;
        for (size_t i = 0; i < m; i++) {
            const int64_t shifted = (int64_t)(double_word(words + 2 * (at + i)) >> 12) - (INT64_C(1) << 51);
            q[i] = ((double)shifted + 0.5) * 0x1p-52;
        }
        normals(q, x, m);
        memcpy(out + at, x, m * sizeof *x);
    }
}

LEAT_INLINE void uniforms_f32(const uint32_t *restrict words, void *restrict to, size_t n)
{
    float *out = to;
    size_t at = 0;
    for (; at + GROUP <= n; at += GROUP)
        for (size_t i = 0; i < GROUP; i++)
            out[at + i] = (float)(int32_t)(words[at + i] >> 8) * 0x1p-24F;
    for (; at < n; at++)
        out[at] = (float)(int32_t)(words[at] >> 8) * 0x1p-24F;
}

/* Each loop, compiled for each instruction set. */
#define FOR_ISA(LOOP, ISA, TARGET)                                                                                     \
    static TARGET void LOOP##_##ISA(const uint32_t *restrict words, void *restrict out, size_t n)                      \
    {                                                                                                                  \
        LOOP(words, out, n);                                                                                           \
    }
FOR_ISA(normals_f32, portable, )
FOR_ISA(normals_f64, portable, )
FOR_ISA(uniforms_f32, portable, )
#if defined(__x86_64__)
FOR_ISA(normals_f32, avx2, LEAT_TARGET_AVX2)
FOR_ISA(normals_f64, avx2, LEAT_TARGET_AVX2)
FOR_ISA(uniforms_f32, avx2, LEAT_TARGET_AVX2)
FOR_ISA(normals_f32, avx512, LEAT_TARGET_AVX512)
FOR_ISA(normals_f64, avx512, LEAT_TARGET_AVX512)
FOR_ISA(uniforms_f32, avx512, LEAT_TARGET_AVX512)
#endif

enum made { UNIFORM_F32, UNIFORM_F64, NORMAL_F32, NORMAL_F64, INTEGERS, KEYS };

struct numbers {
    enum made made;
    int64_t low;
    uint64_t range;
};

static bool takes_two_words(enum made made)
{
    return made != UNIFORM_F32 && made != NORMAL_F32;
}

/* n numbers of a chunk of words. The words may lie anywhere but in `out`. */
static void numbers_of(const struct numbers *what, const uint32_t *words, size_t n, void *out)
{
    double *d = out;
    int64_t *integers = out;
    const enum leat_isa isa = leat_cpu_isa();
    switch (what->made) {
    case UNIFORM_F32:
        LEAT_OF_ISA(isa, uniforms_f32)(words, out, n);
        break;
    case NORMAL_F32:
        LEAT_OF_ISA(isa, normals_f32)(words, out, n);
        break;
    case NORMAL_F64:
        LEAT_OF_ISA(isa, normals_f64)(words, out, n);
        break;
    case UNIFORM_F64:
        for (size_t i = 0; i < n; i++)
            d[i] = (double)(int64_t)(double_word(words + 2 * i) >> 11) * 0x1p-53;
        break;
    case INTEGERS:
        for (size_t i = 0; i < n; i++) {
            const uint64_t above = (uint64_t)(((unsigned __int128)double_word(words + 2 * i) * what->range) >> 64);
            integers[i] = (int64_t)((uint64_t)what->low + above);
        }
        break;
    case KEYS:
        for (size_t i = 0; i < n; i++)
            integers[i] = (int64_t)(double_word(words + 2 * i) >> 1);
        break;
    }
}

static void draw(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, const struct numbers *what, void *out)
{
    const leat_philox_fn philox = blocks_fn();
    const size_t words = takes_two_words(what->made) ? 2 : 1, step = CHUNK / words;
    const size_t bytes = what->made == UNIFORM_F32 || what->made == NORMAL_F32 ? sizeof(float) : sizeof(double);
    uint32_t chunk[CHUNK];
    uint8_t *to = out;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = 0; i < n; i += step) {
            const size_t m = n - i < step ? (size_t)(n - i) : step;
            philox(keys[r], call, i * words / 4, (m * words + 3) / 4, chunk);
            numbers_of(what, chunk, m, to);
            to += m * bytes;
        }
}

/* ---- for users -------------------------------------------------------------------------------- */

void leat_random_words(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, uint32_t *out)
{
    const leat_philox_fn philox = blocks_fn();
    for (uint64_t r = 0; r < rows; r++, out += n) {
        uint32_t last[4];
        philox(keys[r], call, 0, (size_t)(n / 4), out);
        leat_philox_portable(keys[r], call, n / 4, 1, last);
        memcpy(out + n / 4 * 4, last, n % 4 * sizeof *last);
    }
}

static int draw_floats(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, enum leat_dtype dtype,
                       enum made f32, enum made f64, void *out, struct leat_error *error)
{
    if (dtype != LEAT_F32 && dtype != LEAT_F64)
        return leat_fail(error, LEAT_E_INVALID, "random numbers are float32 or float64, not %s",
                         leat_dtype_name(dtype));
    draw(keys, rows, call, n, &(struct numbers){.made = dtype == LEAT_F32 ? f32 : f64}, out);
    return LEAT_OK;
}

int leat_random_uniform(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, enum leat_dtype dtype,
                        void *out, struct leat_error *error)
{
    return draw_floats(keys, rows, call, n, dtype, UNIFORM_F32, UNIFORM_F64, out, error);
}

int leat_random_normal(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, enum leat_dtype dtype, void *out,
                       struct leat_error *error)
{
    return draw_floats(keys, rows, call, n, dtype, NORMAL_F32, NORMAL_F64, out, error);
}

int leat_random_integers(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, int64_t low, int64_t high,
                         int64_t *out, struct leat_error *error)
{
    if (low >= high)
        return leat_fail(error, LEAT_E_INVALID, "no integer is at least %lld and below %lld", (long long)low,
                         (long long)high);
    draw(keys, rows, call, n, &(struct numbers){INTEGERS, low, (uint64_t)high - (uint64_t)low}, out);
    return LEAT_OK;
}

/* ---- permutations: numbers sorted by random keys, equal ones by number ------------------------- */

/* Merges runs of `width` in `from` into runs of twice that in `to`: places, by their keys. */
static void merge_runs(const int64_t *keys, const int64_t *from, int64_t *to, uint64_t n, uint64_t width)
{
    for (uint64_t begin = 0; begin < n; begin += 2 * width) {
        const uint64_t middle = n - begin < width ? n : begin + width, end = n - begin < 2 * width ? n : middle + width;
        uint64_t a = begin, b = middle;
        for (uint64_t i = begin; i < end; i++)
            to[i] = b == end || (a < middle && keys[from[a]] <= keys[from[b]]) ? from[a++] : from[b++];
    }
}

int leat_random_permutation(const uint64_t *keys, uint64_t rows, uint32_t call, uint64_t n, int64_t *out,
                            struct leat_error *error)
{
    size_t bytes;
    int64_t *drawn = __builtin_mul_overflow(n, 2 * sizeof *drawn, &bytes) ? NULL : leat_alloc(bytes + 1);
    if (!drawn)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for permutations of %llu numbers", (unsigned long long)n);
    for (uint64_t r = 0; r < rows; r++, out += n) {
        int64_t *from = out, *to = drawn + n;
        draw(&keys[r], 1, call, n, &(struct numbers){.made = KEYS}, drawn);
        for (uint64_t i = 0; i < n; i++)
            from[i] = (int64_t)i;
        for (uint64_t width = 1; width < n; width *= 2) {
            merge_runs(drawn, from, to, n, width);
            int64_t *sorted = to;
            to = from;
            from = sorted;
        }
        if (from != out && n)
            memcpy(out, from, n * sizeof *out);
    }
    leat_free(drawn);
    return LEAT_OK;
}
