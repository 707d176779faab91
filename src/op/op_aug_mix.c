/*
 * AugMix: Hendrycks et al., "AugMix: A Simple Data Processing Method to Improve Robustness and Uncertainty", 2019; as
 * torchvision.transforms.v2. Several chains of changes start from the image; their results are added up with the image
 * itself, by shares:
 *
 *     m image + (1 - m) (s[0] chain 0 + s[1] chain 1 + ...)     m: Beta(alpha, alpha), s: Dirichlet(alpha, ...)
 *
 * Draws: under the key mixed with 0, the shares, from a running counter. Under the key mixed with 1 + i, of chain i: 0:
 * its length; for change j of it, 1 + 3j: which; 2 + 3j: its strength; 3 + 3j: negative below 1/2.
 */
#include <math.h>

#include "base/elementary.h"
#include "base/random.h"
#include "op/filter.h"
#include "op/policy.h"

LEAT_VECTORIZE

#define MAX_WIDTH 64
#define BINS 10

struct augmix_args {
    struct leat_policy_args common;
    int64_t severity, width, depth;
    double alpha;
    bool all;
};

static const struct leat_strengths strengths = {
    .bins = BINS, .shear = 0.3, .translate = 1 / 3.0, .rotate = 30, .blend = 0.9, .posterize = 4, .posterized = 4};

static void parse(void *into, struct leat_args *json)
{
    struct augmix_args *args = into;
    leat_args_int(json, "severity", 1, BINS, 3, &args->severity);
    leat_args_int(json, "mixture_width", 1, MAX_WIDTH, 3, &args->width);
    leat_args_int(json, "chain_depth", INT32_MIN, LEAT_MAX_CHANGES, -1, &args->depth);
    leat_args_double(json, "alpha", 1e-3, 1e6, 1, &args->alpha);
    leat_args_bool(json, "all_ops", true, &args->all);
    leat_policy_parse(&args->common, LEAT_FILTER_BILINEAR, json);
    args->depth = args->depth > 0 ? args->depth : 0;
}

/* ---- draws ---- */

static unsigned draw_chain(const struct augmix_args *args, uint64_t key, unsigned i,
                           struct leat_change changes[LEAT_MAX_CHANGES])
{
    uint64_t own = leat_key_mix(key, 1 + i);
    unsigned n = args->depth ? (unsigned)args->depth : 1 + (unsigned)leat_draw_below(own, 0, 3), made = 0;
    for (unsigned j = 0; j < n; j++) {
        unsigned kinds = args->all ? LEAT_CHANGE_EQUALIZE + 1 : LEAT_CHANGE_EQUALIZE + 1 - 4;
        enum leat_change_kind kind = (enum leat_change_kind)leat_draw_below(own, 1 + 3 * j, kinds);
        if (!args->all && kind >= LEAT_CHANGE_BRIGHTNESS) /* without the four that blend */
            kind += 4;
        struct leat_change change = {.kind = kind,
                                     .bin = (unsigned)leat_draw_below(own, 2 + 3 * j, (uint64_t)args->severity),
                                     .negative = leat_draw_unit(own, 3 + 3 * j) < 0.5};
        if (!leat_change_idle(&change, &strengths))
            changes[made++] = change;
    }
    return made;
}

/* Uniform in (0, 1). */
static double open_unit(uint64_t key, uint64_t *counter)
{
    return leat_draw_unit(key, (*counter)++) + 0x1p-54;
}

/* The logarithm of a number from Gamma(alpha, 1): Marsaglia and Tsang, "A Simple Method for Generating Gamma
 * Variables", ACM Transactions on Mathematical Software 26, 2000; its normal numbers by Box and Muller. */
static double draw_log_gamma(uint64_t key, double alpha, uint64_t *counter)
{
    double less = alpha < 1 ? leat_math_log(open_unit(key, counter)) / alpha : 0;
    double d = (alpha < 1 ? alpha + 1 : alpha) - 1 / 3.0, c = 1 / sqrt(9 * d);
    for (;;) {
        double radius = sqrt(-2 * leat_math_log(open_unit(key, counter)));
        double x = radius * leat_math_cos(6.283185307179586 * open_unit(key, counter)), v = 1 + c * x;
        double u = open_unit(key, counter);
        if (v <= 0)
            continue;
        v = v * v * v;
        if (leat_math_log(u) < 0.5 * x * x + d - d * v + d * leat_math_log(v))
            return leat_math_log(d * v) + less;
    }
}

/* Shares that add up to 1: Dirichlet(alpha, ..., alpha). */
static void draw_shares(uint64_t key, double alpha, uint64_t *counter, unsigned n, double *shares)
{
    double most = -INFINITY, sum = 0;
    for (unsigned i = 0; i < n; i++) {
        shares[i] = draw_log_gamma(key, alpha, counter);
        most = shares[i] > most ? shares[i] : most;
    }
    for (unsigned i = 0; i < n; i++) {
        shares[i] = shares[i] - most < -700 ? 0 : leat_math_exp(shares[i] - most);
        sum += shares[i];
    }
    for (unsigned i = 0; i < n; i++)
        shares[i] /= sum;
}

/* ---- the image ---- */

struct mixing {
    unsigned n;
    float share[MAX_WIDTH + 1];
    const struct leat_image *from[MAX_WIDTH + 1];
};

LEAT_INLINE void mix_row(const struct mixing *m, size_t at, size_t n, uint8_t *restrict dst)
{
    enum { BLOCK = 256 };
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t some = n - done < BLOCK ? n - done : BLOCK;
        float sum[BLOCK] = {0};
        for (unsigned k = 0; k < m->n; k++) {
            const uint8_t *src = m->from[k]->base + at + done;
            for (size_t i = 0; i < some; i++)
                sum[i] += m->share[k] * (float)src[i];
        }
        for (size_t i = 0; i < some; i++)
            dst[done + i] = (uint8_t)(int32_t)sum[i];
    }
}

/* The images are packed alike. */
LEAT_INLINE void mix_images(const void *from, uint64_t key, const struct leat_image *in, const struct leat_image *out,
                            void *scratch)
{
    mix_row(from, 0, (size_t)in->w * in->h * in->channels, out->base);
}
LEAT_FILTER_FOR_EACH_ISA(mix_images)

static size_t image_bytes(const struct leat_image *in)
{
    return ((size_t)in->w * in->h * in->channels + 63) & ~(size_t)63;
}

static void plan(const void *from, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    const struct augmix_args *args = from;
    plan->scratch = (size_t)args->width * image_bytes(in) + leat_policy_scratch(in);
}

static void augmix(enum leat_isa isa, const void *from, uint64_t key, const struct leat_image *in,
                   const struct leat_image *out, void *scratch)
{
    const struct augmix_args *args = from;
    struct leat_change changes[LEAT_MAX_CHANGES];
    struct leat_image made[MAX_WIDTH];
    struct mixing mixing = {.n = 1 + (unsigned)args->width, .from = {in}};
    double own[2], shares[MAX_WIDTH];
    uint64_t counter = 0, weights = leat_key_mix(key, 0);
    draw_shares(weights, args->alpha, &counter, 2, own);
    draw_shares(weights, args->alpha, &counter, (unsigned)args->width, shares);
    mixing.share[0] = (float)own[0];
    for (unsigned i = 0; i < args->width; i++) {
        unsigned n = draw_chain(args, key, i, changes);
        made[i] = *out;
        made[i].base = (uint8_t *)scratch + i * image_bytes(in);
        if (n)
            leat_policy_run(isa, &args->common, &strengths, changes, n, in, &made[i],
                            (uint8_t *)scratch + (size_t)args->width * image_bytes(in));
        mixing.from[1 + i] = n ? &made[i] : in;
        mixing.share[1 + i] = (float)shares[i] * (float)own[1];
    }
    mix_images_on(isa, &mixing, key, in, out, NULL);
}

const struct leat_op_class leat_op_aug_mix = {.type = "AugMix",
                                              .input = LEAT_INPUT_PIXELS,
                                              .args_bytes = sizeof(struct augmix_args),
                                              .random = true,
                                              .images_only = true,
                                              .parse = parse,
                                              .infer = leat_policy_infer,
                                              .filter = augmix,
                                              .plan = plan};
