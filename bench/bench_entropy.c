/*
 * How fast plain entropy decoding of photos is on this machine: the roof of `leat pack` with its check. Reads every
 * JPEG under a folder into memory, then decodes each to its end with jpeg_skip_scanlines on n threads, which is
 * libjpeg-turbo doing its entropy decoding and little else. Then, on one thread, each photo is decoded by libjpeg-turbo
 * and in the ways of src/codec/jpeg/huffman.h in turn; headers are not in the times, Huffman tables are. Built by hand,
 * against a build of the library:
 *
 *     gcc -O2 -D_GNU_SOURCE -Isrc -Iinclude bench/bench_entropy.c -Wl,--whole-archive build/gcc/libleat_core.a \
 *         -Wl,--no-whole-archive -ljpeg -lspng -lwebp -lxxhash -ljansson -lm -o bench_entropy
 *     bench_entropy FOLDER [THREADS] [ROUNDS]
 *
 *     579 photos, 62.6 MB, 2 threads: 3456 photos/s, 373.6 MB/s (median of 5 rounds)
 */
#include "jpegs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "codec/jpeg/huffman.h"
#include "codec/jpeg/idct.h"

static atomic_size_t next_photo, n_failed;

static void *work(void *unused)
{
    struct jpeg_decompress_struct cinfo;
    struct failure failure;
    (void)unused;
    create(&cinfo, &failure);
    for (size_t i; (i = atomic_fetch_add(&next_photo, 1)) < n_photos;)
        if (skim(&cinfo, &photos[i]))
            atomic_fetch_add(&n_failed, 1);
    jpeg_destroy_decompress(&cinfo);
    return NULL;
}

/* ---- libjpeg-turbo and src/codec/jpeg in turn ------------------------------------------------ */

enum stage { SKIM, COEFFICIENTS, TABLES, SCAN, READ_ALL, READ_ROWS, READ_INDEXED, STAGES };
static const char *const stage_names[STAGES] = {"libjpeg-turbo, skipping rows",
                                                "libjpeg-turbo, coefficients",
                                                "tables alone",
                                                "scan with row index",
                                                "all coefficients",
                                                "row by row",
                                                "by index, in pairs of rows"};

static int16_t *room_for(size_t blocks)
{
    static int16_t *all;
    static size_t all_blocks;
    if (blocks > all_blocks) {
        free(all);
        all_blocks = 2 * blocks;
        all = aligned_alloc(64, 128 * all_blocks);
        if (!all)
            exit(2);
        memset(all, 1, 128 * all_blocks);
    }
    return all;
}

/* All rows of a photo, `n` at a time, as a picture asks for them: into the same few rows of blocks. */
static bool read_rows(const struct leat_jpeg_frame *frame, struct leat_jpeg_source *source, uint32_t n)
{
    static uint8_t last[1 << 20];
    struct leat_jpeg_blocks blocks[LEAT_JPEG_ROWS_AT_ONCE][LEAT_JPEG_MAX_COMPONENTS];
    size_t at = 0;
    int16_t *to = room_for((size_t)2 * frame->mcus_w * 64);
    for (unsigned i = 0; i < LEAT_JPEG_ROWS_AT_ONCE; i++)
        for (unsigned c = 0; c < frame->n_components; c++) {
            blocks[i][c] = (struct leat_jpeg_blocks){to + 64 * at, last + at};
            at += (size_t)frame->component[c].v * frame->component[c].blocks_w;
        }
    if (at > sizeof last)
        return false;
    for (uint32_t r = 0; r < frame->mcus_h; r += n)
        if (source->read(source, r, frame->mcus_h - r < n ? frame->mcus_h - r : n, 0, frame->mcus_w, LEAT_JPEG_NEEDED8,
                         blocks, NULL))
            return false;
    return true;
}

/* Adds the times of each stage. False: libjpeg-turbo has an error, or the decoder does not know the photo. */
static bool measure(const struct photo *photo, struct leat_jpeg_huffman *huffman, double *seconds, size_t *index_bytes)
{
    struct jpeg_decompress_struct cinfo;
    struct failure failure;
    volatile bool done = false;
    create(&cinfo, &failure);
    if (!setjmp(failure.out)) {
        struct leat_jpeg_frame frame;
        static struct leat_jpeg_rows rows;
        struct leat_jpeg_source *source;
        int16_t *of[LEAT_JPEG_MAX_COMPONENTS], *all;
        uint8_t *index = NULL;
        size_t blocks = 0, length = 0;
        double t[2 * STAGES];
        jpeg_mem_src(&cinfo, photo->data, photo->length);
        jpeg_read_header(&cinfo, TRUE);
        bool good = leat_jpeg_frame_of(&cinfo, &frame);
        for (unsigned c = 0; c < frame.n_components; c++)
            blocks += (size_t)frame.component[c].blocks_w * frame.component[c].blocks_h;
        all = room_for(blocks);
        for (unsigned c = 0; c < frame.n_components; c++) {
            of[c] = all;
            all += (size_t)64 * frame.component[c].blocks_w * frame.component[c].blocks_h;
        }
        t[0] = now();
        good = good && leat_jpeg_huffman_knows(huffman, &cinfo, &frame);
        t[1] = now();
        good = good && leat_jpeg_huffman_scan(huffman, &rows);
        t[2] = now();
        good = good && leat_jpeg_huffman_read_all(huffman, of);
        t[3] = now();
        good = good && leat_jpeg_rows_pack(&rows, &frame, photo->length, &index, &length) == LEAT_OK;
        t[4] = now();
        good = good && leat_jpeg_huffman_begin(huffman, NULL, 0, &source) && read_rows(&frame, source, 1);
        t[5] = now();
        good = good && leat_jpeg_huffman_begin(huffman, length ? index : NULL, length, &source) &&
               read_rows(&frame, source, 2);
        t[6] = now();
        skim_rows(&cinfo);
        t[7] = now();
        jpeg_mem_src(&cinfo, photo->data, photo->length);
        jpeg_read_header(&cinfo, TRUE);
        t[8] = now();
        jpeg_read_coefficients(&cinfo);
        t[9] = now();
        if (good) {
            const double tables = t[1] - t[0];
            seconds[TABLES] += tables;
            seconds[SCAN] += tables + t[2] - t[1];
            seconds[READ_ALL] += tables + t[3] - t[2];
            seconds[READ_ROWS] += tables + t[5] - t[4];
            seconds[READ_INDEXED] += tables + t[6] - t[5];
            seconds[SKIM] += t[7] - t[6];
            seconds[COEFFICIENTS] += t[9] - t[8];
            *index_bytes += length;
            done = true;
        }
    }
    jpeg_destroy_decompress(&cinfo);
    return done;
}

static void compare_stages(long rounds)
{
    static double seconds[STAGES][99];
    double ratio[99];
    struct leat_jpeg_huffman *huffman = leat_jpeg_huffman_new();
    size_t known = 0, index_bytes = 0;
    if (!huffman)
        exit(2);
    for (long r = 0; r < rounds; r++) {
        double sums[STAGES] = {0};
        known = index_bytes = 0;
        for (size_t i = 0; i < n_photos; i++)
            known += measure(&photos[i], huffman, sums, &index_bytes);
        for (int s = 0; s < STAGES; s++)
            seconds[s][r] = sums[s];
    }
    leat_jpeg_huffman_free(huffman);
    printf("%zu photos are known; row index: %.2f %% of their bytes. Of each %ld rounds' medians:\n", known,
           100.0 * (double)index_bytes / (double)total_bytes, rounds);
    for (int s = 0; s < STAGES; s++) {
        for (long r = 0; r < rounds; r++)
            ratio[r] = seconds[s][r] / seconds[SKIM][r];
        qsort(ratio, (size_t)rounds, sizeof *ratio, by_value);
        double times[99];
        memcpy(times, seconds[s], sizeof times);
        qsort(times, (size_t)rounds, sizeof *times, by_value);
        printf("  %-30s %7.1f us a photo, %.3f of libjpeg-turbo's\n", stage_names[s],
               1e6 * times[rounds / 2] / (double)known, ratio[rounds / 2]);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_entropy FOLDER [THREADS] [ROUNDS]\n");
        return 2;
    }
    long threads = argc > 2 ? atol(argv[2]) : sysconf(_SC_NPROCESSORS_ONLN), rounds = argc > 3 ? atol(argv[3]) : 5;
    threads = threads < 1 ? 1 : threads > 256 ? 256 : threads;
    rounds = rounds < 1 ? 1 : rounds > 99 ? 99 : rounds;
    read_photos(argv[1]);
    if (!n_photos) {
        fprintf(stderr, "%s: no JPEG there\n", argv[1]);
        return 2;
    }
    double seconds[99];
    for (long r = 0; r < rounds; r++) {
        pthread_t ids[256];
        struct timespec a, b;
        long started = 0;
        atomic_store(&next_photo, 0);
        clock_gettime(CLOCK_MONOTONIC, &a);
        while (started < threads && !pthread_create(&ids[started], NULL, work, NULL))
            started++;
        for (long t = 0; t < started; t++)
            pthread_join(ids[t], NULL);
        clock_gettime(CLOCK_MONOTONIC, &b);
        seconds[r] = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
    }
    qsort(seconds, (size_t)rounds, sizeof *seconds, by_value);
    const double median = seconds[rounds / 2];
    printf("%zu photos, %.1f MB, %ld threads: %.0f photos/s, %.1f MB/s (median of %ld rounds)", n_photos,
           (double)total_bytes * 1e-6, threads, (double)n_photos / median, (double)total_bytes * 1e-6 / median, rounds);
    if (n_failed)
        printf(", %zu broken", n_failed / (size_t)rounds);
    putchar('\n');
    compare_stages(rounds);
    return 0;
}
