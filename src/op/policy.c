/*
 * Changes are carried out in runs: neighbouring changes of color are one list (adjust.h), which works in place; one of
 * geometry goes from one image to another. The result and an image in the scratch take turns so that the last run ends
 * in the result:
 *
 *     in --colors--> scratch --colors in place--> scratch --rotate--> out --colors in place--> out
 */
#include "op/policy.h"

#include <string.h>

#include "base/elementary.h"
#include "base/random.h"
#include "op/adjust.h"
#include "op/affine.h"
#include "op/stage.h"

/* ---- arguments ---- */

void leat_policy_parse(struct leat_policy_args *args, enum leat_filter filter, struct leat_args *json)
{
    args->filter = leat_args_warp(json, filter);
    leat_args_fill(json, 0, &args->fill);
}

int leat_policy_infer(const void *from, const struct leat_place *place, struct leat_type *type,
                      struct leat_effect *effect, struct leat_error *error)
{
    const struct leat_policy_args *args = from;
    int rc = leat_infer_gray_or_rgb(from, place, type, effect, error);
    return rc ? rc : leat_fill_check(&args->fill, place, type, error);
}

/* ---- strengths ---- */

/* As torch.linspace gives it: in float, rounded once. */
static double linear(double from, double to, unsigned bin, unsigned bins)
{
    float begin = (float)from, end = (float)to, step = bins > 1 ? (end - begin) / (float)(bins - 1) : 0;
    double up = (double)begin + (double)step * bin, down = (double)end - (double)step * (bins - 1 - bin);
    return (double)(float)(bin < bins / 2 || bins == 1 ? up : down);
}

static double strength_of(const struct leat_change *change, const struct leat_strengths *s, uint32_t w, uint32_t h)
{
    double most = 0;
    switch (change->kind) {
    case LEAT_CHANGE_SHEAR_X:
    case LEAT_CHANGE_SHEAR_Y:
        most = s->shear;
        break;
    case LEAT_CHANGE_TRANSLATE_X:
        most = s->translate * (s->pixels ? 1 : w);
        break;
    case LEAT_CHANGE_TRANSLATE_Y:
        most = s->translate * (s->pixels ? 1 : h);
        break;
    case LEAT_CHANGE_ROTATE:
        most = s->rotate;
        break;
    case LEAT_CHANGE_BRIGHTNESS:
    case LEAT_CHANGE_COLOR:
    case LEAT_CHANGE_CONTRAST:
    case LEAT_CHANGE_SHARPNESS:
        most = s->blend;
        break;
    case LEAT_CHANGE_POSTERIZE: {
        float fewer = s->bins > 1 ? (float)change->bin / (float)((s->bins - 1) / (double)s->posterized) : 0;
        return (double)leat_round_even((double)((float)s->posterize - fewer));
    }
    case LEAT_CHANGE_SOLARIZE:
        return linear(1, 0, change->bin, s->bins);
    default:
        return 0;
    }
    double strength = linear(0, most, change->bin, s->bins);
    return change->negative ? -strength : strength;
}

enum leat_change_kind leat_change_draw(uint64_t key, uint64_t counter)
{
    enum leat_change_kind kind = (enum leat_change_kind)leat_draw_below(key, counter, LEAT_CHANGE_EQUALIZE + 2);
    return kind > LEAT_CHANGE_EQUALIZE ? LEAT_CHANGE_IDENTITY : kind;
}

bool leat_change_idle(const struct leat_change *change, const struct leat_strengths *strengths)
{
    if (change->kind <= LEAT_CHANGE_SHARPNESS)
        return strength_of(change, strengths, 1, 1) == 0;
    return change->kind == LEAT_CHANGE_IDENTITY ||
           (change->kind == LEAT_CHANGE_POSTERIZE && strength_of(change, strengths, 1, 1) >= 8);
}

/* ---- a change ---- */

/* A change of color as a step of adjust.h; false: it is none, or changes nothing. */
static bool as_color(const struct leat_change *change, const struct leat_strengths *strengths, struct leat_adjust *step)
{
    static const enum leat_adjust_kind kinds[] = {[LEAT_CHANGE_BRIGHTNESS] = LEAT_ADJUST_BRIGHTNESS,
                                                  [LEAT_CHANGE_COLOR] = LEAT_ADJUST_SATURATION,
                                                  [LEAT_CHANGE_CONTRAST] = LEAT_ADJUST_CONTRAST,
                                                  [LEAT_CHANGE_SHARPNESS] = LEAT_ADJUST_SHARPNESS,
                                                  [LEAT_CHANGE_POSTERIZE] = LEAT_ADJUST_POSTERIZE,
                                                  [LEAT_CHANGE_SOLARIZE] = LEAT_ADJUST_SOLARIZE,
                                                  [LEAT_CHANGE_AUTOCONTRAST] = LEAT_ADJUST_AUTOCONTRAST,
                                                  [LEAT_CHANGE_EQUALIZE] = LEAT_ADJUST_EQUALIZE,
                                                  [LEAT_CHANGE_INVERT] = LEAT_ADJUST_INVERT};
    if (change->kind < LEAT_CHANGE_BRIGHTNESS || change->kind > LEAT_CHANGE_INVERT)
        return false;
    double strength = strength_of(change, strengths, 1, 1);
    *step = (struct leat_adjust){.kind = kinds[change->kind], .amount = strength};
    if (change->kind <= LEAT_CHANGE_SHARPNESS)
        step->amount += 1;
    else if (change->kind == LEAT_CHANGE_SOLARIZE)
        step->amount *= 255;
    return true;
}

/* A change of geometry: the source of pixels of the result. */
static void as_affine(const struct leat_change *change, const struct leat_strengths *strengths, uint32_t w, uint32_t h,
                      double m[6])
{
    double strength = strength_of(change, strengths, w, h);
    const double same[6] = {1, 0, 0, 0, 1, 0};
    memcpy(m, same, sizeof same);
    if (change->kind == LEAT_CHANGE_ROTATE)
        leat_affine_rotate(strength, w / 2.0, h / 2.0, m);
    else if (change->kind == LEAT_CHANGE_SHEAR_X)
        m[1] = strength;
    else if (change->kind == LEAT_CHANGE_SHEAR_Y)
        m[3] = strength;
    else
        m[change->kind == LEAT_CHANGE_TRANSLATE_X ? 2 : 5] = -(double)(int64_t)strength;
}

static void fill_row(uint8_t *dst, size_t n, unsigned pixel, const uint8_t *fill)
{
    for (size_t i = 0; i < n && pixel > 1; i++)
        memcpy(dst + i * pixel, fill, pixel);
    if (pixel == 1 && n)
        memset(dst, *fill, n);
}

/* Moves by whole pixels: the image's pixel at (x, y) goes to (x + right, y + below). */
static void shift(const struct leat_image *in, const struct leat_image *out, int64_t right, int64_t below,
                  const uint8_t *fill)
{
    unsigned pixel = (unsigned)in->column, planes = pixel == 1 ? in->channels : 1;
    size_t w = in->w, blank = (size_t)(right < 0 ? -right : right), kept = blank < w ? w - blank : 0;
    blank = w - kept;
    for (unsigned c = 0; c < planes; c++)
        for (int64_t y = 0; y < out->h; y++) {
            uint8_t *dst = out->base + c * out->plane + (size_t)y * out->row;
            size_t shown = y - below >= 0 && y - below < in->h ? kept : 0, filled = shown ? blank : w;
            const uint8_t *src = shown ? in->base + c * in->plane + (size_t)(y - below) * in->row : NULL;
            fill_row(right < 0 ? dst + shown * pixel : dst, filled, pixel, fill + c);
            if (shown && right < 0)
                memcpy(dst, src + blank * pixel, kept * pixel);
            else if (shown)
                memcpy(dst + blank * pixel, src, kept * pixel);
        }
}

static void move(enum leat_isa isa, const struct leat_policy_args *args, const double m[6], const struct leat_image *in,
                 const struct leat_image *out)
{
    uint8_t fill[LEAT_MAX_CHANNELS];
    leat_fill_bytes(&args->fill, in, fill);
    if (m[0] == 1 && m[1] == 0 && m[3] == 0 && m[4] == 1)
        shift(in, out, -(int64_t)m[2], -(int64_t)m[5], fill);
    else
        leat_affine(isa, in, out, m, args->filter, fill);
}

/* ---- the list ---- */

#define ALIGN(n) (((size_t)(n) + 63) & ~(size_t)63)

size_t leat_policy_scratch(const struct leat_image *in)
{
    return ALIGN((size_t)in->w * in->h * in->channels) + leat_adjust_scratch(in);
}

void leat_policy_run(enum leat_isa isa, const struct leat_policy_args *args, const struct leat_strengths *strengths,
                     const struct leat_change *changes, unsigned n, const struct leat_image *in,
                     const struct leat_image *out, void *scratch)
{
    struct leat_image other = *out, now = *in;
    struct leat_adjust colors[LEAT_MAX_CHANGES];
    unsigned moves = 0;
    other.base = (uint8_t *)scratch + leat_adjust_scratch(in);
    for (unsigned i = 0; i < n; i++)
        moves += changes[i].kind <= LEAT_CHANGE_ROTATE && !leat_change_idle(&changes[i], strengths);
    for (unsigned i = 0; i < n;) {
        unsigned run = 0;
        for (; i < n && (leat_change_idle(&changes[i], strengths) || as_color(&changes[i], strengths, &colors[run]));
             i++)
            run += !leat_change_idle(&changes[i], strengths);
        if (run) {
            struct leat_image to = now.base != in->base ? now : moves % 2 ? other : *out;
            leat_adjust(isa, colors, run, &now, &to, scratch);
            now = to;
        }
        if (i == n)
            break;
        double m[6];
        struct leat_image to = --moves % 2 ? other : *out;
        as_affine(&changes[i++], strengths, in->w, in->h, m);
        move(isa, args, m, &now, &to);
        now = to;
    }
    if (now.base == in->base) /* all of them change nothing */
        leat_adjust(isa, NULL, 0, in, out, scratch);
}

bool leat_policy_skips(const struct leat_strengths *strengths, const struct leat_change *changes, unsigned n)
{
    while (n && leat_change_idle(&changes[n - 1], strengths))
        n--;
    return !n;
}

void leat_policy_plan(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    plan->scratch = leat_policy_scratch(in);
}
