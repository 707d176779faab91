/*
 * Steps are first reduced to the needs of a row: neighbouring functions of single values become one table, and a step
 * that needs to have seen the image (its mean, extremes or histograms) becomes a table once it has. A pass takes rows
 * through as many steps as it can while they are in the cache:
 *
 *     row of the image --> rows of one channel each --> table, saturation, hue ... --> sharpness --> row of the result
 *                                                              |
 *                                                              `--> statistics, for the first step of the next pass
 *
 * If the steps are only tables that all channels share, and sharpness, pixels stay as they lie.
 */
#include "op/adjust.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/random.h"
#include "op/filter.h"

LEAT_VECTORIZE

#include "op/adjust_rows.h"
#include "op/byte_table.h"

#define MAX_CHANNELS 4
#define MAX_OPS 8 /* of a pass */
#define ALIGN(n) (((size_t)(n) + 63) & ~(size_t)63)

/* ---- tables ---- */

/* Whether a step is a function of single values, the same for all channels. */
static bool is_pointwise(enum leat_adjust_kind kind)
{
    return kind == LEAT_ADJUST_BRIGHTNESS || kind == LEAT_ADJUST_INVERT || kind == LEAT_ADJUST_POSTERIZE ||
           kind == LEAT_ADJUST_SOLARIZE;
}

static void blend_values(int from, double factor, uint8_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = blend(from, values[i], (float)factor);
}

static void change_values(const struct leat_adjust *step, uint8_t *values, size_t n)
{
    if (step->kind == LEAT_ADJUST_BRIGHTNESS)
        blend_values(0, step->amount, values, n);
    for (size_t i = 0; i < n && step->kind == LEAT_ADJUST_INVERT; i++)
        values[i] = (uint8_t)~values[i];
    for (size_t i = 0; i < n && step->kind == LEAT_ADJUST_POSTERIZE; i++)
        values[i] &= (uint8_t)(0xff00u >> (unsigned)step->amount);
    for (size_t i = 0; i < n && step->kind == LEAT_ADJUST_SOLARIZE; i++)
        values[i] = (uint8_t)(values[i] >= step->amount ? 255 - values[i] : values[i]);
}

void leat_adjust_draw_order(uint64_t key, uint64_t first, unsigned n, uint8_t order[4])
{
    for (unsigned i = 0; i < MAX_CHANNELS; i++)
        order[i] = (uint8_t)i;
    for (unsigned i = n - 1; i && i < MAX_CHANNELS; i--) {
        uint64_t k = leat_draw_below(key, first + n - 1 - i, i + 1);
        uint8_t last = order[i];
        order[i] = order[k];
        order[k] = last;
    }
}

/* The statistics of a pass about the rows behind its steps. */
struct statistics {
    uint64_t sum;
    uint8_t low[MAX_CHANNELS], high[MAX_CHANNELS];
    uint32_t counts[MAX_CHANNELS][4][256];
};

static void stretch_table(uint8_t low, uint8_t high, uint8_t table[256])
{
    if (high <= low)
        return;
    double scale = 255.0 / (high - low), offset = -low * scale;
    for (unsigned v = 0; v < 256; v++) {
        double x = table[v] * scale + offset;
        table[v] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
    }
}

static void equalize_table(uint32_t counts[4][256], uint8_t table[256])
{
    uint64_t total = 0, last = 0, below;
    uint8_t even[256];
    for (unsigned v = 0; v < 256; v++) {
        counts[0][v] += counts[1][v] + counts[2][v] + counts[3][v];
        total += counts[0][v];
        last = counts[0][v] ? counts[0][v] : last;
    }
    uint64_t step = (total - last) / 255;
    if (!step)
        return;
    below = step / 2;
    for (unsigned v = 0; v < 256; v++) {
        even[v] = (uint8_t)(below / step < 255 ? below / step : 255);
        below += counts[0][v];
    }
    for (unsigned v = 0; v < 256; v++)
        table[v] = even[table[v]];
}

static void learned_table(const struct leat_adjust *step, struct statistics *found, uint64_t pixels, unsigned channel,
                          uint8_t table[256])
{
    if (step->kind == LEAT_ADJUST_CONTRAST)
        blend_values((int)((double)found->sum / (double)pixels + 0.5), step->amount, table, 256);
    else if (step->kind == LEAT_ADJUST_AUTOCONTRAST)
        stretch_table(found->low[channel], found->high[channel], table);
    else
        equalize_table(found->counts[channel], table);
}

typedef void (*grey_fn)(const uint8_t *src, size_t n, unsigned channels, uint8_t *dst);
typedef void (*saturate_fn)(const uint8_t *src, size_t n, float factor, uint8_t *dst);

#if defined(__x86_64__)
/*
 * 16 grey values of pixels in lanes. Weights become two signed bytes each; that of green, of 17 bits, comes
 * twice, by halves:
 *
 *     r 19595 + g 38470 + b 7471 = 256 (77 r + 75 g + 75 g + 29 b) - 117 r + 35 g + 35 g + 47 b
 */
static inline LEAT_TARGET_AVX512 __m512i grey_16(__m512i pixels)
{
    __m512i high = _mm512_dpbusd_epi32(_mm512_setzero_si512(), pixels, _mm512_set1_epi32(0x1d4b4b4d));
    __m512i low = _mm512_dpbusd_epi32(_mm512_set1_epi32(32768), pixels, _mm512_set1_epi32(0x2f23238b));
    return _mm512_srli_epi32(_mm512_add_epi32(low, _mm512_slli_epi32(high, 8)), 16);
}

/* r, g, g and b of each pixel in a lane. */
static inline LEAT_TARGET_AVX512 __m512i lanes_of(__m512i bytes)
{
    const __m512i first = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    const __m512i from =
        _mm512_add_epi32(_mm512_mullo_epi32(first, _mm512_set1_epi32(0x01010101)), _mm512_set1_epi32(0x02010100));
    return _mm512_permutexvar_epi8(from, bytes);
}

/* The places of the first three bytes of each lane. */
static inline LEAT_TARGET_AVX512 __m512i first_three(void)
{
    uint8_t places[64] = {0};
    for (unsigned i = 0; i < 48; i++)
        places[i] = (uint8_t)(i / 3 * 4 + i % 3);
    return _mm512_loadu_si512(places);
}

/* Each of 16 bytes three times. */
static inline LEAT_TARGET_AVX512 __m512i thrice(__m128i bytes)
{
    static const uint8_t places[64] = {0,  0,  0,  1,  1,  1,  2,  2,  2,  3,  3,  3,  4,  4,  4,  5,
                                       5,  5,  6,  6,  6,  7,  7,  7,  8,  8,  8,  9,  9,  9,  10, 10,
                                       10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15, 15};
    return _mm512_permutexvar_epi8(_mm512_loadu_si512(places), _mm512_castsi128_si512(bytes));
}

/* n pixels of three bytes to as many of one or of three, which may be the same. */
static LEAT_TARGET_AVX512 void grey_row_avx512(const uint8_t *src, size_t n, unsigned channels, uint8_t *dst)
{
    size_t i = 0;
    for (; i < n; i += 16) {
        const size_t some = n - i < 16 ? n - i : 16;
        const __mmask64 there = (UINT64_C(1) << 3 * some) - 1;
        const __m512i pixels = lanes_of(_mm512_maskz_loadu_epi8(there, src + 3 * i));
        const __m128i grey = _mm512_cvtepi32_epi8(grey_16(pixels));
        if (channels == 1 && some == 16)
            _mm_storeu_si128((__m128i *)(void *)(dst + i), grey);
        else if (channels == 1)
            _mm_mask_storeu_epi8(dst + i, (__mmask16)((1u << some) - 1), grey);
        else
            _mm512_mask_storeu_epi8(dst + 3 * i, there, thrice(grey));
    }
}

static inline LEAT_TARGET_AVX512 __m512i blend_16(__m512 from, __m512i values, __m512 factor)
{
    __m512 x = _mm512_mul_ps(factor, _mm512_sub_ps(_mm512_cvtepi32_ps(values), from));
    x = _mm512_max_ps(_mm512_add_ps(from, x), _mm512_setzero_ps());
    return _mm512_cvttps_epi32(_mm512_min_ps(x, _mm512_set1_ps(255)));
}

/* n pixels of three bytes blended with their grey values, as saturate_block does. */
static LEAT_TARGET_AVX512 void saturate_row_avx512(const uint8_t *src, size_t n, float factor, uint8_t *dst)
{
    const __m512i byte = _mm512_set1_epi32(255), packed = first_three();
    const __m512 by = _mm512_set1_ps(factor);
    for (size_t i = 0; i < n; i += 16) {
        const __mmask64 there = (UINT64_C(1) << 3 * (n - i < 16 ? n - i : 16)) - 1;
        const __m512i pixels = lanes_of(_mm512_maskz_loadu_epi8(there, src + 3 * i));
        const __m512 grey = _mm512_cvtepi32_ps(grey_16(pixels));
        __m512i r = blend_16(grey, _mm512_and_si512(pixels, byte), by),
                g = blend_16(grey, _mm512_and_si512(_mm512_srli_epi32(pixels, 8), byte), by),
                b = blend_16(grey, _mm512_srli_epi32(pixels, 24), by);
        r = _mm512_or_si512(_mm512_or_si512(r, _mm512_slli_epi32(g, 8)), _mm512_slli_epi32(b, 16));
        _mm512_mask_storeu_epi8(dst + 3 * i, there, _mm512_permutexvar_epi8(packed, r));
    }
}
#endif

/* NULL: rows are parted, and the compiler's loops do as well. */
static grey_fn grey_row_of(enum leat_isa isa)
{
#if defined(__x86_64__)
    if (isa == LEAT_ISA_AVX512)
        return grey_row_avx512;
#endif
    return NULL;
}

static saturate_fn saturate_row_of(enum leat_isa isa)
{
#if defined(__x86_64__)
    if (isa == LEAT_ISA_AVX512)
        return saturate_row_avx512;
#endif
    return NULL;
}

/* ---- passes ---- */

enum op_kind { OP_TABLE, OP_SATURATE, OP_HUE, OP_GREY, OP_PERMUTE };
struct op {
    enum op_kind kind;
    bool same; /* OP_TABLE: for all channels */
    double amount;
    uint8_t order[MAX_CHANNELS];
    uint8_t table[MAX_CHANNELS][256];
};

struct pass {
    const struct leat_image *in, *out;
    struct op ops[MAX_OPS];
    unsigned n_ops;
    const struct leat_adjust *sharpness, *learns; /* the last word: NULL: not this */
    struct statistics found;
    bool flat;        /* pixels stay as they lie */
    unsigned planes;  /* the rows that a row of the image becomes */
    size_t n, stride; /* values of one, and from one to the next */
    size_t step;      /* values from a pixel to the next */
    uint8_t *rows, *made;
    leat_byte_table_fn table;
    grey_fn grey;
    saturate_fn saturate;
};

static bool learns(enum leat_adjust_kind kind)
{
    return kind == LEAT_ADJUST_CONTRAST || kind == LEAT_ADJUST_AUTOCONTRAST || kind == LEAT_ADJUST_EQUALIZE;
}

/* The table that the next step of the pass changes; NULL: there is no room. */
static struct op *table_op(struct pass *p)
{
    if (p->n_ops && p->ops[p->n_ops - 1].kind == OP_TABLE)
        return &p->ops[p->n_ops - 1];
    if (p->n_ops == MAX_OPS)
        return NULL;
    struct op *op = &p->ops[p->n_ops++];
    op->kind = OP_TABLE;
    op->same = true;
    for (unsigned c = 0; c < MAX_CHANNELS; c++)
        for (unsigned v = 0; v < 256; v++)
            op->table[c][v] = (uint8_t)v;
    return op;
}

/* Adds a step that needs to have seen nothing. False: the pass is full. */
static bool add(struct pass *p, const struct leat_adjust *step)
{
    unsigned channels = p->in->channels;
    if (is_pointwise(step->kind)) {
        struct op *op = table_op(p);
        for (unsigned c = 0; op && c < channels; c++)
            change_values(step, op->table[c], 256);
        return op;
    }
    if (channels != 3 && step->kind != LEAT_ADJUST_PERMUTE)
        return true;
    if (p->n_ops == MAX_OPS)
        return false;
    struct op *op = &p->ops[p->n_ops++];
    op->kind = step->kind == LEAT_ADJUST_SATURATION ? OP_SATURATE
               : step->kind == LEAT_ADJUST_HUE      ? OP_HUE
               : step->kind == LEAT_ADJUST_PERMUTE  ? OP_PERMUTE
                                                    : OP_GREY;
    op->amount = step->amount;
    memcpy(op->order, step->order, sizeof op->order);
    return true;
}

/* The layout of rows in this pass. */
static void lay_out(struct pass *p, void *scratch)
{
    const struct leat_image *in = p->in, *out = p->out;
    p->flat = in->column == in->channels && out->column == in->channels && out->channels == in->channels && !p->learns;
    for (unsigned i = 0; i < p->n_ops; i++)
        p->flat = p->flat && p->ops[i].kind == OP_TABLE && p->ops[i].same;
    p->planes = p->flat ? 1 : in->channels;
    p->step = p->flat ? in->channels : 1;
    p->n = in->w * p->step;
    p->stride = ALIGN(p->n);
    p->rows = scratch;
    p->made = p->rows + 3 * p->planes * p->stride; /* behind those around a row that is sharpened */
}

size_t leat_adjust_scratch(const struct leat_image *in)
{
    return 4 * in->channels * ALIGN(in->w);
}

LEAT_INLINE void load_rows(const struct pass *p, uint32_t y, uint8_t *rows)
{
    const struct leat_image *in = p->in;
    const uint8_t *s = in->base + y * in->row;
    if (p->flat || in->column == 1)
        for (unsigned c = 0; c < p->planes; c++)
            memcpy(rows + c * p->stride, s + c * in->plane, p->n);
    else if (in->channels == 3)
        part_pixels(s, 3, rows, p->stride, p->n);
    else if (in->channels == 4)
        part_pixels(s, 4, rows, p->stride, p->n);
    else
        part_pixels(s, 2, rows, p->stride, p->n);
}

/* A result of other channels than the image is grey: the first channel of each. */
LEAT_INLINE void store_rows(const struct pass *p, uint32_t y, const uint8_t *rows)
{
    const struct leat_image *out = p->out;
    uint8_t *d = out->base + y * out->row;
    unsigned planes = p->flat ? 1 : out->channels;
    size_t stride = planes == p->planes ? p->stride : 0;
    if (p->flat || out->column == 1)
        for (unsigned c = 0; c < planes; c++)
            memcpy(d + c * out->plane, rows + c * stride, p->n);
    else if (planes == 3)
        join_pixels(rows, stride, 3, d, p->n);
    else if (planes == 4)
        join_pixels(rows, stride, 4, d, p->n);
    else
        join_pixels(rows, stride, 2, d, p->n);
}

LEAT_INLINE void permute(const struct pass *p, const struct op *op, uint8_t *rows)
{
    memcpy(p->made, rows, p->planes * p->stride);
    for (unsigned c = 0; c < p->planes; c++)
        memcpy(rows + c * p->stride, p->made + op->order[c] * p->stride, p->n);
}

LEAT_INLINE void change_rows(const struct pass *p, uint8_t *rows)
{
    uint8_t *r = rows, *g = rows + p->stride, *b = rows + 2 * p->stride;
    for (const struct op *op = p->ops; op < p->ops + p->n_ops; op++) {
        if (op->kind == OP_TABLE)
            for (unsigned c = 0; c < p->planes; c++)
                p->table(op->table[c], rows + c * p->stride, rows + c * p->stride, p->n);
        else if (op->kind == OP_SATURATE)
            BLOCKS(saturate_block, r, g, b, p->n, (float)op->amount);
        else if (op->kind == OP_HUE)
            BLOCKS(hue_block, r, g, b, p->n, (uint8_t)(int)(op->amount * 255));
        else if (op->kind == OP_GREY)
            BLOCKS(grey_block, r, g, b, p->n);
        else
            permute(p, op, rows);
    }
}

LEAT_INLINE void learn(struct pass *p, const uint8_t *rows)
{
    struct statistics *found = &p->found;
    if (p->learns->kind == LEAT_ADJUST_CONTRAST) {
        bool color = p->planes == 3;
        found->sum += sum_row(rows, rows + color * p->stride, rows + 2 * color * p->stride, p->n);
    }
    for (unsigned c = 0; c < p->planes && p->learns->kind != LEAT_ADJUST_CONTRAST; c++)
        if (p->learns->kind == LEAT_ADJUST_EQUALIZE)
            count_row(rows + c * p->stride, p->n, found->counts[c]);
        else
            extremes_row(rows + c * p->stride, p->n, &found->low[c], &found->high[c]);
}

/* The ring holds the rows above, at and below the one that is made; the first and the last row stay. */
LEAT_INLINE void sharpen(const struct pass *p)
{
    size_t slot = p->planes * p->stride;
    for (uint32_t y = 0; y <= p->in->h; y++) {
        if (y < p->in->h) {
            load_rows(p, y, p->rows + y % 3 * slot);
            change_rows(p, p->rows + y % 3 * slot);
        }
        if (y == 0)
            continue;
        uint32_t here = y - 1;
        uint8_t *rows = p->rows + here % 3 * slot;
        bool edge = here == 0 || y == p->in->h;
        for (unsigned c = 0; c < p->planes && !edge; c++) {
            uint8_t *around[3] = {p->rows + (here + 2) % 3 * slot + c * p->stride, rows + c * p->stride,
                                  p->rows + y % 3 * slot + c * p->stride};
            sharpen_row(around, p->step, p->n, (float)p->sharpness->amount, p->made + c * p->stride);
        }
        store_rows(p, here, edge ? rows : p->made);
    }
}

LEAT_INLINE void run_pass(const void *args, uint64_t key, const struct leat_image *in, const struct leat_image *out,
                          void *scratch)
{
    struct pass *p = *(struct pass *const *)args;
    if (p->sharpness) {
        sharpen(p);
        return;
    }
    if (p->flat && p->n_ops == 1) {
        const bool dense = in->row == p->n && out->row == p->n; /* all rows are one */
        for (uint32_t y = 0; y < (dense ? 1 : in->h); y++)
            p->table(p->ops[0].table[0], in->base + y * in->row, out->base + y * out->row, dense ? p->n * in->h : p->n);
        return;
    }
    const enum op_kind only =
        p->n_ops == 1 && !p->learns && in->column == 3 && out->column == out->channels ? p->ops[0].kind : OP_TABLE;
    if (p->grey && only == OP_GREY) {
        for (uint32_t y = 0; y < in->h; y++)
            p->grey(in->base + y * in->row, in->w, out->channels, out->base + y * out->row);
        return;
    }
    if (p->saturate && only == OP_SATURATE) {
        for (uint32_t y = 0; y < in->h; y++)
            p->saturate(in->base + y * in->row, in->w, (float)p->ops[0].amount, out->base + y * out->row);
        return;
    }
    for (uint32_t y = 0; y < in->h; y++) {
        load_rows(p, y, p->rows);
        change_rows(p, p->rows);
        if (p->learns)
            learn(p, p->rows);
        if (p->n_ops || !p->learns)
            store_rows(p, y, p->rows);
    }
}
LEAT_FILTER_FOR_EACH_ISA(run_pass)

void leat_adjust(enum leat_isa isa, const struct leat_adjust *steps, unsigned n, const struct leat_image *in,
                 const struct leat_image *out, void *scratch)
{
    struct pass pass = {.out = out,
                        .table = leat_byte_table_of(isa),
                        .grey = grey_row_of(isa),
                        .saturate = saturate_row_of(isa)},
                *p = &pass;
    const struct leat_image *source = in;
    for (unsigned i = 0; i < n || source != out;) {
        const struct leat_adjust *learned = p->learns;
        p->in = source;
        p->n_ops = 0;
        p->sharpness = p->learns = NULL;
        if (learned) {
            struct op *op = table_op(p);
            op->same = learned->kind == LEAT_ADJUST_CONTRAST;
            for (unsigned c = 0; c < in->channels; c++)
                learned_table(learned, &p->found, (uint64_t)in->w * in->h, c, op->table[c]);
            i++;
        }
        while (i < n && !learns(steps[i].kind) && steps[i].kind != LEAT_ADJUST_SHARPNESS && add(p, &steps[i]))
            i++;
        if (i < n && steps[i].kind == LEAT_ADJUST_SHARPNESS)
            p->sharpness = &steps[i++];
        else if (i < n && learns(steps[i].kind)) {
            p->learns = &steps[i];
            memset(&p->found, 0, sizeof p->found);
            memset(p->found.low, 255, sizeof p->found.low);
        }
        if (!learned && !p->n_ops && !p->sharpness && !p->learns && source == out)
            continue;
        lay_out(p, scratch);
        run_pass_on(isa, &p, 0, source, out, NULL);
        if (p->n_ops || !p->learns)
            source = out;
    }
}
