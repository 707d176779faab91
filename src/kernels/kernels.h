/*
 * The loops over pixels, records and tokens, in portable C, for AVX2 and for AVX-512. The results of all three are
 * equal byte for byte: the arithmetic of a resize is integer, and values go through tables (or through arithmetic that
 * was compared with the table, all 256 entries, when the program was compiled).
 *
 * None takes a lock, allocates, or touches memory outside of its arguments, except for the named padding.
 */
#ifndef LEAT_KERNELS_KERNELS_H
#define LEAT_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "kernels/resample.h"
#include "leat/leat.h"

/* So many bytes after the last pixel of a row that is read, or written by the passes of a resize, are accessible. */
#define LEAT_ROW_PADDING 64

/* The way from bytes of pixels to values of a row of the output. */
struct leat_store {
    unsigned pixel;    /* bytes per pixel of the source, 1 to 4 */
    unsigned channels; /* of them used, the first ones */
    unsigned size;     /* bytes per value of the output: 1, 2, 4 or 8 */
    enum leat_dtype dtype;
    bool planar;          /* each channel to its own row, else interleaved in dst[0] */
    bool identity;        /* size 1, and the table changes nothing */
    bool stream;          /* the result is large and not read soon: may bypass the caches; then leat_kernels.fence */
    const void *table[4]; /* per channel 256 values */
    bool affine; /* floats of at most 32 bits: value(v) == rounded (fma(v, a, b) + fma(v, c, d)), compared for all v */
    float a[4], b[4], c[4], d[4];
};
/* n pixels; with `flip` in reverse order. dst[c]: the row of channel c. */
typedef void (*leat_store_fn)(const struct leat_store *store, const uint8_t *src, size_t n, bool flip,
                              uint8_t *const dst[4]);
typedef void (*leat_convert_fn)(const void *src, void *dst, size_t n);

struct leat_kernels {
    enum leat_isa isa;
    /* Makes axis->plan for calls of `horizontal` with these numbers: output pixels [begin, begin + n). NOMEM. `reserve`
     * makes room for the largest such plan. Both may be NULL. */
    int (*reserve)(struct leat_axis *axis, uint32_t out, unsigned taps);
    int (*prepare)(struct leat_axis *axis, uint32_t begin, uint32_t n, unsigned pixel, unsigned channels);
    /* One row along the axis: output pixels [begin, begin + n) of a row of axis->in pixels of 1 or 4 bytes; the first
     * `channels` bytes (1 to 4) of each are made and packed. */
    void (*horizontal)(const struct leat_axis *axis, uint32_t begin, uint32_t n, unsigned pixel, unsigned channels,
                       const uint8_t *src, uint8_t *dst);
    /* n bytes, each the weighted sum of the bytes of `taps` rows. Rows under weight 0 may be any readable row. */
    void (*vertical)(const uint8_t *const *rows, const int32_t *weights, unsigned taps, uint8_t *dst, size_t n);
    /* The loop for a store, and for a conversion between two types. */
    leat_store_fn (*store)(const struct leat_store *store);
    leat_convert_fn (*convert)(enum leat_dtype from, enum leat_dtype to); /* NULL: leat_values_convert */
    /* Pixels of 3 bytes (or 2) to pixels of 4, the rest of each 255. */
    void (*expand)(const uint8_t *src, unsigned pixel, size_t n, uint8_t *dst);
    /* Called after stores with `stream`, before another thread reads. May be NULL. */
    void (*fence)(void);
    /* Copies values of `bytes` bytes to dst + i * bytes; pointers to them stand at *first and every `stride` bytes
     * after it. */
    void (*gather)(const void *const *first, size_t stride, size_t n, size_t bytes, uint8_t *dst);
};

static inline const uint8_t *leat_gather_row(const void *const *first, size_t stride, size_t i)
{
    return *(const uint8_t *const *)((const uint8_t *)first + i * stride);
}

extern const struct leat_kernels leat_kernels_portable, leat_kernels_avx2, leat_kernels_avx512;

/* The common part of instruction sets. AVX-512 gains nothing over AVX2 at copying small values, or at mirroring pixels
 * of three bytes. */
void leat_mirror_3_avx2(const struct leat_store *store, const uint8_t *src, size_t n, bool flip, uint8_t *const dst[4]);
void leat_gather_avx2(const void *const *first, size_t stride, size_t n, size_t bytes, uint8_t *dst);

/* The kernels of an instruction set; of a lower one if this build or machine has no such. */
static inline const struct leat_kernels *leat_kernels(enum leat_isa isa)
{
    return LEAT_OF_ISA(isa, &leat_kernels);
}

/* Tries to find a, b, c, d for tables that are v * scale + offset, rounded; sets `affine`. */
void leat_store_find_affine(struct leat_store *store, const double *scale, const double *offset);

#endif
