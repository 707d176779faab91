/*
 * ColorJitter: brightness, contrast, saturation and hue, in an order that is drawn. Arguments and distributions are
 * those of torchvision.transforms.v2, the pixels those of its Pillow backend, byte for byte:
 *
 *     brightness   blend(0, v, factor)               blend(a, b, f) = a + f (b - a) in float32, cut to 0..255
 *     contrast     blend(mean, v, factor)            mean of the image's grey values, rounded
 *     saturation   blend(grey of the pixel, v, factor)
 *     hue          RGB -> HSV in bytes, H + factor * 255, -> RGB
 *
 * Whatever stands between two contrasts is one pass over the image. Of an image with one channel saturation and hue
 * change nothing. Brightness alone is a function of single values: a map.
 *
 * Draws: 0 to 3: the factors, in the order above; 4 to 6: the order of the four.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "op/filter.h"

LEAT_VECTORIZE

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, KINDS };

static const char *const names[KINDS] = {"brightness", "contrast", "saturation", "hue"};

/*
 * Hue and saturation as Pillow computes them, in float and double, by table: the hue of a pixel follows from which
 * channel is the largest and which the smallest (6 cases), from chroma = largest - smallest and from largest - middle.
 */
struct hue_tables {
    uint8_t hue[6][256 * 257 / 2];     /* [case][triangle(chroma) + largest - middle] */
    uint8_t saturation[256 * 257 / 2]; /* [triangle(largest) + chroma] */
};

struct jitter_args {
    bool given[KINDS];
    double low[KINDS], high[KINDS];
    struct hue_tables *tables; /* where hue is given */
};

LEAT_INLINE size_t triangle(unsigned n)
{
    return (size_t)n * (n + 1) / 2;
}

static struct hue_tables *new_tables(void)
{
    struct hue_tables *t = leat_new(struct hue_tables);
    for (unsigned n = 0; t && n < 256; n++)
        for (unsigned k = 0; k <= n; k++) {
            float x = n ? (float)k / (float)n : 0;
            const float hue[6] = {
                1.0f - x, x - 1.0f, (float)(3.0 - x), (float)(2.0 + x - 1.0), (float)(5.0 - x), (float)(4.0 + x - 1.0)};
            for (int i = 0; i < 6; i++)
                t->hue[i][triangle(n) + k] = (uint8_t)((double)(float)fmod(hue[i] / 6.0 + 1.0, 1.0) * 255.0);
            t->saturation[triangle(n) + k] = (uint8_t)(x * 255.0);
        }
    return t;
}

/* ---- arguments ---- */

static void parse(void *into, struct leat_args *json)
{
    struct jitter_args *args = into;
    for (int i = 0; i < KINDS; i++) {
        double range[2], center = i == HUE ? 0 : 1, most = i == HUE ? 0.5 : 1e6;
        unsigned n = leat_args_doubles(json, names[i], 1, 2, range);
        if (n == 1 && range[0] >= 0) {
            range[1] = center + range[0];
            range[0] = i != HUE && range[0] > center ? 0 : center - range[0];
        }
        if (n && (range[0] > range[1] || range[0] < (i == HUE ? -0.5 : 0) || range[1] > most))
            leat_args_wrong(json, names[i],
                            i == HUE ? "a number from 0 to 0.5, or (low, high) within -0.5 and 0.5"
                                     : "a number from 0, or (low, high) from 0");
        args->given[i] = n && (range[0] != center || range[1] != center);
        args->low[i] = args->given[i] ? range[0] : 0;
        args->high[i] = args->given[i] ? range[1] : 0;
    }
    if (args->given[HUE] && !json->status && !(args->tables = new_tables()))
        json->status = leat_fail(json->error, LEAT_E_NOMEM, "No memory for a ColorJitter.");
}

static void end(void *from)
{
    leat_free(((struct jitter_args *)from)->tables);
}

static uint64_t hash(const void *from)
{
    return leat_hash64(from, offsetof(struct jitter_args, tables));
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct jitter_args *args = from;
    if (leat_type_channels(type) != 1 && leat_type_channels(type) != 3)
        return leat_op_misfit(place, type, "an image of 1 or 3 channels", error);
    effect->maps =
        !args->given[CONTRAST] && (leat_type_channels(type) == 1 || (!args->given[SATURATION] && !args->given[HUE]));
    return LEAT_OK;
}

/* ---- what is drawn ---- */

struct drawn {
    double factor[KINDS];
    unsigned order[KINDS];
};

static struct drawn draw(const struct jitter_args *args, uint64_t key)
{
    struct drawn d = {.order = {BRIGHTNESS, CONTRAST, SATURATION, HUE}};
    for (unsigned i = 0; i < KINDS; i++)
        d.factor[i] = args->low[i] + leat_draw_unit(key, i) * (args->high[i] - args->low[i]);
    for (unsigned i = KINDS - 1; i; i--) {
        uint64_t k = leat_draw_below(key, KINDS - 1 + i, i + 1);
        unsigned last = d.order[i];
        d.order[i] = d.order[k];
        d.order[k] = last;
    }
    return d;
}

/* ---- rows of one channel each ---- */

LEAT_INLINE uint8_t blend(int from, int v, float factor)
{
    float x = (float)from + factor * (float)(v - from);
    x = x > 0 ? x : 0;
    return (uint8_t)(x < 255 ? x : 255);
}

LEAT_INLINE uint32_t grey(uint32_t r, uint32_t g, uint32_t b)
{
    return (r * 19595 + g * 38470 + b * 7471 + 32768) >> 16;
}

LEAT_INLINE void blend_row(uint8_t *p, size_t n, int from, float factor)
{
    for (size_t i = 0; i < n; i++)
        p[i] = blend(from, p[i], factor);
}

LEAT_INLINE void saturate_row(uint8_t *restrict r, uint8_t *restrict g, uint8_t *restrict b, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++) {
        int from = (int)grey(r[i], g[i], b[i]);
        r[i] = blend(from, r[i], factor);
        g[i] = blend(from, g[i], factor);
        b[i] = blend(from, b[i], factor);
    }
}

/* Rounded; no quotient lies in the middle. */
LEAT_INLINE uint8_t share(unsigned v, unsigned of)
{
    return (uint8_t)((v * of + 32512) / 65025);
}

LEAT_INLINE void hue_row(const struct hue_tables *t, uint8_t *restrict r, uint8_t *restrict g, uint8_t *restrict b,
                         size_t n, uint8_t shift)
{
    for (size_t i = 0; i < n; i++) {
        unsigned R = r[i], G = g[i], B = b[i], high = R > G ? R : G, low = R < G ? R : G;
        high = high > B ? high : B;
        low = low < B ? low : B;
        unsigned chroma = high - low, middle = R + G + B - high - low;
        unsigned s = t->saturation[triangle(high) + chroma];
        if (!s) {
            r[i] = g[i] = b[i] = (uint8_t)high;
            continue;
        }
        unsigned which = R == high ? (B == low ? 0 : 1) : G == high ? (R == low ? 2 : 3) : (G == low ? 4 : 5);
        unsigned h = (uint8_t)(t->hue[which][triangle(chroma) + high - middle] + shift), six = 6 * h,
                 sector = six / 255, rest = six - 255 * sector;
        uint8_t v = (uint8_t)high, p = share(high, (255 - s) * 255);
        uint8_t q = share(high, 65025 - s * (sector & 1 ? rest : 255 - rest)); /* the one between the two */
        r[i] = sector == 1 || sector == 4 ? q : sector == 2 || sector == 3 ? p : v;
        g[i] = sector == 0 || sector == 3 || sector == 6 ? q : sector == 1 || sector == 2 ? v : p;
        b[i] = sector == 2 || sector == 5 ? q : sector == 3 || sector == 4 ? v : p;
    }
}

/* ---- the image ---- */

struct jitter {
    const struct jitter_args *args;
    struct drawn drawn;
    unsigned steps[KINDS], n_steps;
    int mean; /* of contrast */
    uint8_t *row[3];
};

LEAT_INLINE void load_row(struct jitter *j, const struct leat_image *in, uint32_t y, uint8_t *scratch)
{
    for (unsigned c = 0; c < in->channels; c++) {
        const uint8_t *s = in->base + c * in->plane + y * in->row;
        j->row[c] = scratch + c * (size_t)in->w;
        if (in->column == 1)
            memcpy(j->row[c], s, in->w);
        else
            for (size_t i = 0; i < in->w; i++)
                j->row[c][i] = s[3 * i];
    }
}

LEAT_INLINE void store_row(const struct jitter *j, const struct leat_image *out, uint32_t y)
{
    for (unsigned c = 0; c < out->channels; c++) {
        uint8_t *d = out->base + c * out->plane + y * out->row;
        if (out->column == 1)
            memcpy(d, j->row[c], out->w);
        else
            for (size_t i = 0; i < out->w; i++)
                d[3 * i] = j->row[c][i];
    }
}

LEAT_INLINE void change_row(const struct jitter *j, unsigned channels, size_t n, unsigned begin, unsigned end)
{
    for (unsigned s = begin; s < end; s++) {
        unsigned kind = j->steps[s];
        float factor = (float)j->drawn.factor[kind];
        if (kind == SATURATION)
            saturate_row(j->row[0], j->row[1], j->row[2], n, factor);
        else if (kind == HUE)
            hue_row(j->args->tables, j->row[0], j->row[1], j->row[2], n, (uint8_t)(int)(j->drawn.factor[HUE] * 255));
        else
            for (unsigned c = 0; c < channels; c++)
                blend_row(j->row[c], n, kind == CONTRAST ? j->mean : 0, factor);
    }
}

LEAT_INLINE uint64_t sum_grey(const struct jitter *j, unsigned channels, size_t n)
{
    const uint8_t *r = j->row[0], *g = j->row[channels / 2], *b = j->row[channels - 1];
    uint32_t sum = 0; /* of at most 65535 pixels */
    for (size_t i = 0; i < n; i++)
        sum += grey(r[i], g[i], b[i]);
    return sum;
}

LEAT_INLINE void jitter(const void *args, uint64_t key, const struct leat_image *in, const struct leat_image *out,
                        void *scratch)
{
    struct jitter j = {.args = args, .drawn = draw(args, key)};
    unsigned contrast = KINDS, first = 0;
    for (unsigned i = 0; i < KINDS; i++)
        if (j.args->given[j.drawn.order[i]] && (in->channels == 3 || j.drawn.order[i] < SATURATION)) {
            if (j.drawn.order[i] == CONTRAST)
                contrast = j.n_steps;
            j.steps[j.n_steps++] = j.drawn.order[i];
        }
    if (contrast < KINDS) {
        uint64_t sum = 0;
        for (uint32_t y = 0; y < in->h; y++) {
            load_row(&j, in, y, scratch);
            change_row(&j, in->channels, in->w, 0, contrast);
            sum += sum_grey(&j, in->channels, in->w);
            if (contrast)
                store_row(&j, out, y);
        }
        j.mean = (int)((double)sum / ((double)in->w * in->h) + 0.5);
        first = contrast;
    }
    for (uint32_t y = 0; y < in->h; y++) {
        load_row(&j, first ? out : in, y, scratch);
        change_row(&j, in->channels, in->w, first, j.n_steps);
        store_row(&j, out, y);
    }
}
LEAT_FILTER_FOR_EACH_ISA(jitter)

static void plan(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan)
{
    plan->scratch = (size_t)in->w * in->channels;
}

static void map_values(const void *from, uint64_t key, const struct leat_type *in, unsigned channel, const void *src,
                       void *dst, size_t n)
{
    const struct jitter_args *args = from;
    if (n)
        memcpy(dst, src, n);
    if (args->given[BRIGHTNESS])
        blend_row(dst, n, 0, (float)draw(args, key).factor[BRIGHTNESS]);
}

const struct leat_op_class leat_op_color_jitter = {.type = "ColorJitter",
                                                   .input = LEAT_INPUT_PIXELS,
                                                   .args_bytes = sizeof(struct jitter_args),
                                                   .random = true,
                                                   .parse = parse,
                                                   .end = end,
                                                   .hash = hash,
                                                   .infer = infer,
                                                   .map = map_values,
                                                   .filter = jitter_on,
                                                   .plan = plan};
