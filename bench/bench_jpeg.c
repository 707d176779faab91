/*
 * Cycles of the stages of the JPEG codec on one core, all instruction sets of this machine in turns. Built by hand,
 * against a build of the library:
 *
 *     gcc -O2 -D_GNU_SOURCE -Isrc -Iinclude bench/bench_jpeg.c -Wl,--whole-archive build/gcc/libleat_core.a \
 *         -Wl,--no-whole-archive -ljpeg -lspng -lwebp -lxxhash -ljansson -lm -o bench_jpeg
 *     ./bench_jpeg [PHOTO.JPEG ...]
 *
 * unpack    blocks from the decode-fast form, a row of MCUs at a time, as a picture asks for them: all coefficients,
 * the DC alone, the middle half of the columns (per block of these). Of all photos, warm in cache; `pack` makes that
 * form from coefficients, the entropy coding left out idct      rows of 62 blocks, hot in cache: dense blocks, blocks
 * within rows and columns 0 to 3 (last <= 9), DC only; and some rows of blocks of the photos, warm in cache
 *
 * Prints lower quartiles. A cycle is one addition of a chain of additions timed in the same run, so it is the core's
 * own, not the time stamp counter's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

#include "base/random.h"
#include "codec/jpeg/fast_format.h"
#include "codec/jpeg/frame.h"
#include "codec/jpeg/idct.h"

enum { ROUNDS = 201 };

static const char *const isas[] = {"portable", "avx2", "avx512"};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The fast rounds are those that nobody disturbed. */
static double quartile(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, compare);
    return times[n / 4];
}

/* Time that this thread has run. */
static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double cycles_per_ns(void)
{
    double times[101];
    for (int r = 0; r < 101; r++) {
        double begin = now_ns();
        uint64_t x = 0;
#define STEP x++, ({ __asm__ volatile("" : "+r"(x)); })
        for (int i = 0; i < 20000; i++)
            STEP, STEP, STEP, STEP, STEP, STEP, STEP, STEP, STEP, STEP;
        times[r] = now_ns() - begin;
    }
    return 200000 / quartile(times, 101);
}

/* ---- inverse DCT ---- */

/* n rows of blocks; row i has count[i] blocks, all of one quantisation table. */
struct rows {
    int16_t **coefficients;
    uint8_t **last;
    const uint16_t **quant;
    size_t *count, n, blocks;
};

static void add_row(struct rows *rows, const int16_t *coefficients, size_t n, const uint16_t *quant)
{
    rows->coefficients = realloc(rows->coefficients, (rows->n + 1) * sizeof *rows->coefficients);
    rows->last = realloc(rows->last, (rows->n + 1) * sizeof *rows->last);
    rows->quant = realloc(rows->quant, (rows->n + 1) * sizeof *rows->quant);
    rows->count = realloc(rows->count, (rows->n + 1) * sizeof *rows->count);
    int16_t *k = rows->coefficients[rows->n] = aligned_alloc(64, n * 128);
    uint8_t *last = rows->last[rows->n] = malloc(n);
    memcpy(k, coefficients, n * 128);
    for (size_t i = 0; i < n; i++) {
        last[i] = 63;
        while (last[i] && !k[i * 64 + leat_jpeg_natural[last[i]]])
            last[i]--;
    }
    rows->quant[rows->n] = quant;
    rows->count[rows->n++] = n;
    rows->blocks += n;
}

static void free_rows(struct rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        free(rows->coefficients[i]);
        free(rows->last[i]);
    }
    free(rows->coefficients);
    free(rows->last);
    free(rows->quant);
    free(rows->count);
}

/* A row of blocks whose coefficients up to `end` in zigzag order are drawn. */
static void add_drawn(struct rows *rows, unsigned end, const uint16_t *quant)
{
    enum { N = 62 };
    static int16_t k[N * 64];
    memset(k, 0, sizeof k);
    for (uint64_t i = 0; i < N; i++)
        for (uint64_t j = 0; j <= end; j++)
            k[i * 64 + leat_jpeg_natural[j]] =
                (int16_t)((int64_t)leat_draw_below(end, i * 64 + j, 16) - 8) | (j == end);
    add_row(rows, k, N, quant);
}

static void add_photo(struct rows *rows, const char *path, uint16_t (*quant)[64])
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return;
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_stdio_src(&d, f);
    jpeg_read_header(&d, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&d);
    for (int c = 0; c < d.num_components && c < 4; c++) {
        const jpeg_component_info *info = &d.comp_info[c];
        for (int i = 0; i < 64; i++)
            quant[c][i] = info->quant_table->quantval[i];
        for (unsigned y = 0; y < info->height_in_blocks; y += 37)
            add_row(rows, d.mem->access_virt_barray((j_common_ptr)&d, arrays[c], y, 1, FALSE)[0][0],
                    info->width_in_blocks, quant[c]);
    }
    jpeg_destroy_decompress(&d);
    fclose(f);
}

static void idct(enum leat_isa best, const char *name, const struct rows *rows, double ghz)
{
    static const char *const sizes[] = {"8", "4", "2", "1"};
    static _Alignas(64) uint8_t out[8 * 65536];
    for (int isa = 0; isa <= (int)best; isa++) {
        const struct leat_jpeg_idct *of = leat_jpeg_idct((enum leat_isa)isa);
        const leat_jpeg_idct_fn fns[] = {of->samples8, of->samples4, of->samples2, of->samples1};
        printf("idct    %-9s %-9s", isas[isa], name);
        for (int s = 0; s < 4; s++) {
            double times[ROUNDS];
            int rounds = rows->n > 10 ? 51 : ROUNDS;
            for (int r = 0; r < rounds; r++) {
                double begin = now_ns();
                size_t blocks = 0;
                for (size_t repeat = 0; repeat < 1 + 2000 / rows->blocks; repeat++, blocks += rows->blocks)
                    for (size_t i = 0; i < rows->n; i++)
                        fns[s](rows->coefficients[i], rows->last[i], rows->count[i], rows->quant[i], out,
                               (rows->count[i] * 8 + 127) & ~(size_t)63);
                times[r] = (now_ns() - begin) / (double)blocks;
            }
            double m = quartile(times, rounds);
            printf("  %s: %6.1f cycles %6.1f ns", sizes[s], m * ghz, m);
        }
        printf("\n");
    }
}

static void idcts(enum leat_isa best, int n, char **photos, double ghz)
{
    static uint16_t quant[64];
    for (int i = 0; i < 64; i++)
        quant[i] = (uint16_t)(3 + i / 4);
    static const struct {
        const char *name;
        unsigned end;
    } kinds[] = {{"dense", 63}, {"low", 9}, {"dc", 0}};
    for (size_t i = 0; i < 3; i++) {
        struct rows rows = {0};
        add_drawn(&rows, kinds[i].end, quant);
        idct(best, kinds[i].name, &rows, ghz);
        free_rows(&rows);
    }
    struct rows rows = {0};
    uint16_t(*tables)[64] = calloc((size_t)n * 4 + 1, sizeof *tables);
    for (int i = 0; i < n; i++)
        add_photo(&rows, photos[i], tables + (size_t)i * 4);
    if (rows.n)
        idct(best, "photos", &rows, ghz);
    free_rows(&rows);
    free(tables);
}

/* ---- the decode-fast form ---- */

static uint8_t *read_file(const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    if (f && !fseek(f, 0, SEEK_END) && (data = malloc(*length = (size_t)ftell(f)))) {
        rewind(f);
        *length = fread(data, 1, *length, f);
    }
    if (f)
        fclose(f);
    return data;
}

/* Least time of some rounds over one photo, columns [x0, x1) of each `parts` of the width. */
static double unpack_photo(struct leat_jpeg_fast *fast, const uint8_t *data, size_t length, unsigned from, unsigned to,
                           unsigned parts, uint64_t needed, size_t *blocks)
{
    const struct leat_jpeg_frame *frame;
    struct leat_jpeg_source *source;
    double least = 1e18;
    for (int r = 0; r < 7; r++) {
        double begin = now_ns();
        if (leat_jpeg_fast_open(fast, data, length, &frame, &source, NULL))
            return 0;
        static int16_t room[1 << 21] __attribute__((aligned(64)));
        static uint8_t last[1 << 15];
        struct leat_jpeg_blocks one[1][LEAT_JPEG_MAX_COMPONENTS];
        const uint32_t x0 = frame->mcus_w * from / parts, x1 = frame->mcus_w * to / parts;
        size_t used = 0;
        for (unsigned c = 0; c < frame->n_components; c++) {
            one[0][c].coefficients = room + 64 * used;
            one[0][c].last = last + used;
            used += (size_t)(x1 - x0) * frame->component[c].h * frame->component[c].v;
        }
        if (used > sizeof last || x0 == x1)
            return 0;
        for (uint32_t y = 0; y < frame->mcus_h; y++)
            if (source->read(source, y, 1, x0, x1, needed, one, NULL))
                return 0;
        double time = now_ns() - begin;
        least = time < least ? time : least;
        *blocks = used * frame->mcus_h;
    }
    return least;
}

static void unpacks(enum leat_isa best, int n, char **photos, double ghz)
{
    static const struct {
        const char *name;
        unsigned from, to;
        uint64_t needed;
    } ways[] = {{"all", 0, 4, LEAT_JPEG_NEEDED8}, {"dc", 0, 4, LEAT_JPEG_NEEDED1}, {"half", 1, 3, LEAT_JPEG_NEEDED8}};
    double pack[3] = {0}, unpack[3][3] = {{0}};
    size_t blocks[3] = {0}, packed = 0, given = 0;
    struct leat_jpeg_apart *apart = leat_jpeg_apart_new();
    struct leat_jpeg_fast_writer writer = {.isa = best};
    for (int i = 0; i < n; i++) {
        const struct leat_jpeg_original original = {.orientation = 1, .image_kind = 1};
        const struct leat_jpeg_coefficients *coefficients;
        const uint8_t *skeleton;
        size_t length, skeleton_length;
        uint8_t *data = read_file(photos[i], &length);
        if (!data || leat_jpeg_take_apart(apart, data, length, &coefficients, &skeleton, &skeleton_length, NULL)) {
            free(data);
            continue;
        }
        for (int isa = 0; isa <= (int)best; isa++) {
            double least = 1e18;
            writer.isa = (enum leat_isa)isa;
            for (int r = 0; r < 3; r++) {
                double begin = now_ns();
                if (leat_jpeg_fast_write(&writer, coefficients, skeleton, skeleton_length, &original, NULL))
                    break;
                double time = now_ns() - begin;
                least = time < least ? time : least;
            }
            pack[isa] += least;
        }
        given += length;
        packed += writer.length;
        for (int isa = 0; isa <= (int)best; isa++) {
            struct leat_jpeg_fast *fast = leat_jpeg_fast_new((enum leat_isa)isa);
            for (int w = 0; w < 3; w++) {
                size_t of_photo = 0;
                unpack[isa][w] += unpack_photo(fast, writer.out, writer.length, ways[w].from, ways[w].to, 4,
                                               ways[w].needed, &of_photo);
                blocks[w] += isa ? 0 : of_photo;
            }
            leat_jpeg_fast_free(fast);
        }
        free(data);
    }
    for (int isa = 0; given && isa <= (int)best; isa++) {
        printf("unpack  %-9s", isas[isa]);
        for (int w = 0; w < 3; w++)
            printf("  %s: %6.1f cycles %6.1f ns", ways[w].name, unpack[isa][w] / (double)blocks[w] * ghz,
                   unpack[isa][w] / (double)blocks[w]);
        printf("  pack: %6.1f cycles %6.1f ns\n", pack[isa] / (double)blocks[0] * ghz, pack[isa] / (double)blocks[0]);
    }
    if (given)
        printf("unpack  %.4f times the bytes of the JPEGs, %.0f blocks a photo\n", (double)packed / (double)given,
               (double)blocks[0] / n);
    leat_jpeg_fast_writer_destroy(&writer);
    leat_jpeg_apart_free(apart);
}

int main(int argc, char **argv)
{
    double ghz = cycles_per_ns();
    printf("%.2f GHz\n", ghz);
    unpacks(leat_cpu_isa(), argc - 1, argv + 1, ghz);
    idcts(leat_cpu_isa(), argc - 1, argv + 1, ghz);
    return 0;
}
