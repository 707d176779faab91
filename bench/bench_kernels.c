/*
 * Times of the pixel, record and token kernels on one core, all instruction sets of this machine in turns. Built by
 * hand, against a build of the library:
 *
 *     gcc -O2 -D_GNU_SOURCE -Isrc -Iinclude bench/bench_kernels.c -Wl,--whole-archive build/gcc/libleat_core.a \
 *         -Wl,--no-whole-archive -ljpeg -lspng -lwebp -lxxhash -ljansson -lm -o bench_kernels
 *
 * photo     330 x 330 RGBX rows, hot in cache -> 224 x 224, half of them mirrored, normalised, float32 NCHW; rows of 64
 *           photos in turn, so that the destination is memory, not cache
 * raw       RandomCrop 224 of uint8 256 x 256 x 3 at rest, NHWC, mirrored never, by halves, always
 * gather    4096 rows of 52, 104 and 8 bytes from random places of 650 MB
 * widen     rows of 2048 uint16 to int64
 *
 * Prints medians; `memcpy` is what copying the same bytes costs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "codec/photo/photo.h"
#include "kernels/kernels.h"
#include "op/program.h"

enum { PHOTOS = 64, IN = 330, OUT = 224, ROUNDS = 101 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, compare);
    return times[n / 2];
}

/* What stage_run.c does, without the decoder. Each part runs over all rows by itself, the ring staying in cache. Parts:
 * 0 all, 1 weights, 2 across, 3 down, 4 values. */
static void photo(const struct leat_kernels *k, const struct leat_store *store, struct leat_axis axes[2],
                  const uint8_t *image, bool flip, uint8_t *ring, float *dst, double parts[5])
{
    struct leat_axis *across = &axes[0], *down = &axes[1];
    int64_t t0 = leat_clock_ns();
    leat_axis_compute(across, IN, 0, IN, OUT, LEAT_FILTER_ANTIALIAS);
    leat_axis_compute(down, IN, 0, IN, OUT, LEAT_FILTER_ANTIALIAS);
    if (k->prepare)
        k->prepare(across, 0, OUT, 4, 3);
    int64_t t1 = leat_clock_ns();
    size_t slot = OUT * 3 + LEAT_ROW_PADDING;
    for (uint32_t y = 0; y < IN; y++)
        k->horizontal(across, 0, OUT, 4, 3, image + (size_t)(y % 16) * IN * 4, ring + y % down->taps * slot);
    int64_t t2 = leat_clock_ns();
    uint8_t *result = ring + down->taps * slot;
    for (uint32_t y = 0; y < OUT; y++) {
        const uint8_t *rows[64];
        for (uint32_t t = 0; t < down->taps; t++)
            rows[t] = ring + (down->first[y] + t) % down->taps * slot;
        k->vertical(rows, down->weights + (size_t)y * down->taps, (down->end[y] - down->first[y] + 3) & ~3u, result,
                    OUT * 3);
    }
    int64_t t3 = leat_clock_ns();
    leat_store_fn run = k->store(store);
    for (uint32_t y = 0; y < OUT; y++) {
        uint8_t *d = (uint8_t *)(dst + y * OUT);
        uint8_t *const to[4] = {d, d + OUT * OUT * 4, d + 2 * OUT * OUT * 4, NULL};
        run(store, result, OUT, flip, to);
    }
    int64_t t4 = leat_clock_ns();
    double now[5] = {(double)(t4 - t0), (double)(t1 - t0), (double)(t2 - t1), (double)(t3 - t2), (double)(t4 - t3)};
    memcpy(parts, now, sizeof now);
}

static void photos(enum leat_isa best)
{
    uint8_t *image = malloc((size_t)IN * IN * 4 + LEAT_ROW_PADDING),
            *ring = malloc((IN + OUT) * (OUT * 3 + LEAT_ROW_PADDING));
    float *dst = aligned_alloc(4096, (size_t)PHOTOS * 3 * OUT * OUT * sizeof(float));
    memset(dst, 0, (size_t)PHOTOS * 3 * OUT * OUT * sizeof(float));
    for (size_t i = 0; i < (size_t)IN * IN * 4; i++)
        image[i] = (uint8_t)leat_draw_u64(1, i);
    static float tables[3][256];
    static const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};
    double scale[3], offset[3];
    struct leat_store store = {.pixel = 3, .channels = 3, .size = 4, .dtype = LEAT_F32, .planar = true, .stream = true};
    for (unsigned c = 0; c < 3; c++) {
        for (unsigned v = 0; v < 256; v++)
            tables[c][v] = (float)((v / 255.0 - mean[c]) / std[c]);
        store.table[c] = tables[c];
        scale[c] = 1 / (255 * std[c]);
        offset[c] = -mean[c] / std[c];
    }
    leat_store_find_affine(&store, scale, offset);
    struct leat_axis axes[2] = {{0}, {0}};
    static double times[3][5][ROUNDS];
    for (int r = 0; r < ROUNDS; r++)
        for (int isa = 0; isa <= (int)best; isa++) {
            double parts[5];
            float *to = dst + (size_t)(r * 3 + isa) % PHOTOS * 3 * OUT * OUT;
            photo(leat_kernels((enum leat_isa)isa), &store, axes, image, r & 1, ring, to, parts);
            for (int p = 0; p < 5; p++)
                times[isa][p][r] = parts[p];
        }
    static const char *const names[] = {"portable", "avx2", "avx512"};
    for (int isa = 0; isa <= (int)best; isa++) {
        double m[5];
        for (int p = 0; p < 5; p++)
            m[p] = median(times[isa][p], ROUNDS) / 1000;
        printf("photo   %-9s %7.1f us   weights %5.1f  across %6.1f  down %6.1f  values %6.1f\n", names[isa], m[0],
               m[1], m[2], m[3], m[4]);
    }
    leat_axis_destroy(&axes[0]);
    leat_axis_destroy(&axes[1]);
    free(image);
    free(ring);
    free(dst);
}

/* Applies a program of one output to batches of rows from `mapping`. */
static double apply(struct leat_program *program, const uint8_t *mapping, size_t rows_there, size_t stride,
                    size_t batch, uint8_t *dst, int rounds)
{
    struct leat_scratch *scratch = leat_scratch_new(program);
    struct leat_row *rows = calloc(batch, sizeof *rows);
    double *times = calloc((size_t)rounds, sizeof *times);
    size_t row_bytes = leat_program_output(program, 0)->row_bytes;
    for (int r = 0; r < rounds; r++) {
        for (size_t i = 0; i < batch; i++)
            rows[i] =
                (struct leat_row){.data = mapping + leat_draw_below(7, (uint64_t)r * batch + i, rows_there) * stride,
                                  .key = (uint64_t)r * batch + i};
        int64_t begin = leat_clock_ns();
        leat_program_apply(program, 0, scratch, rows, batch, dst + (size_t)(r % 4) * batch * row_bytes, NULL);
        times[r] = (double)(leat_clock_ns() - begin) / (double)batch;
    }
    double m = median(times, rounds);
    free(times);
    free(rows);
    leat_scratch_free(scratch);
    return m;
}

/* The limit: memcpy of the same bytes, with no mirror and nothing asked for in advance. */
static double copy(const uint8_t *mapping, size_t rows_there, size_t stride, size_t bytes, size_t pieces, size_t step,
                   size_t batch, uint8_t *dst, int rounds)
{
    double *times = calloc((size_t)rounds, sizeof *times);
    for (int r = 0; r < rounds; r++) {
        int64_t begin = leat_clock_ns();
        for (size_t i = 0; i < batch; i++) {
            const uint8_t *s = mapping + leat_draw_below(7, (uint64_t)r * batch + i, rows_there) * stride;
            uint8_t *d = dst + ((size_t)(r % 4) * batch + i) * bytes * pieces;
            for (size_t p = 0; p < pieces; p++)
                memcpy(d + p * bytes, s + p * step, bytes);
        }
        times[r] = (double)(leat_clock_ns() - begin) / (double)batch;
    }
    double m = median(times, rounds);
    free(times);
    return m;
}

static struct leat_program *compile(enum leat_dtype dtype, enum leat_layout layout, unsigned ndim, int64_t a, int64_t b,
                                    int64_t c, const char *json)
{
    struct leat_field field = {
        .name = "x", .kind = LEAT_KIND_ARRAY, .dtype = dtype, .layout = layout, .ndim = ndim, .shape = {a, b, c}};
    struct leat_program *program = NULL;
    struct leat_error error = {0};
    if (leat_program_compile(&field, 1, json, NULL, 0, false, &program, &error))
        printf("%s\n", error.message);
    return program;
}

#define RAW                                                                                                            \
    "{\"operators\": {\"a\": {\"type\": \"RandomCrop\", \"size\": 224}, \"b\": {\"type\": \"RandomHorizontalFlip\", "  \
    "\"p\": %g}, \"c\": "                                                                                              \
    "{\"type\": \"ToLayout\", \"layout\": \"NHWC\"}}, \"outputs\": {\"x\": {\"field\": \"x\", \"chain\": [\"a\", "     \
    "\"b\", \"c\"]}}}"

int main(void)
{
    enum leat_isa best = leat_cpu_isa();
    photos(best);
    size_t bytes = (size_t)650 << 20;
    uint8_t *mapping = aligned_alloc(4096, bytes), *dst = aligned_alloc(4096, (size_t)160 << 20);
    memset(mapping, 3, bytes);
    memset(dst, 3, (size_t)160 << 20);
    double m, limit;
    for (int flip = 0; flip < 3; flip++) {
        char text[600];
        snprintf(text, sizeof text, RAW, flip / 2.0);
        struct leat_program *raw = compile(LEAT_U8, LEAT_LAYOUT_HWC, 3, 256, 256, 3, text);
        m = apply(raw, mapping, bytes / 196608, 196608, 256, dst, 15),
        limit = copy(mapping, bytes / 196608, 196608, 672, 224, 768, 256, dst, 15);
        printf("raw     %7.1f us an image, mirrored at %3.0f%%; memcpy %.1f us\n", m / 1000, flip * 50.0, limit / 1000);
        leat_program_free(raw);
    }
    static const int64_t sizes[] = {13, 26, 2};
    for (int i = 0; i < 3; i++) {
        struct leat_program *p = compile(LEAT_F32, LEAT_LAYOUT_NONE, 1, sizes[i], 0, 0,
                                         "{\"outputs\": {\"x\": {\"field\": \"x\", \"chain\": []}}}");
        size_t row = (size_t)sizes[i] * 4;
        m = apply(p, mapping, bytes / row - 1, row, 4096, dst, 101);
        limit = copy(mapping, bytes / row - 1, row, row, 1, 0, 4096, dst, 101);
        printf("gather  %7.1f ns a row of %zu bytes, memcpy %.1f ns\n", m, row, limit);
        leat_program_free(p);
    }
    struct leat_program *tokens =
        compile(LEAT_U16, LEAT_LAYOUT_NONE, 1, 2048, 0, 0,
                "{\"operators\": {\"a\": {\"type\": \"ToDtype\", \"dtype\": \"int64\"}}, \"outputs\": {\"x\": "
                "{\"field\": \"x\", \"chain\": [\"a\"]}}}");
    m = apply(tokens, mapping, (128 << 20) / 4096, 4096, 16, dst, 501);
    limit = copy(mapping, (128 << 20) / 4096, 4096, 4096, 4, 0, 16, dst, 501);
    printf("widen   %7.1f ns a row of 2048 u16 to i64, memcpy of as many bytes %.1f ns\n", m, limit);
    leat_program_free(tokens);
    free(mapping);
    free(dst);
    return 0;
}
