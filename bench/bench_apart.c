/*
 * What taking a JPEG apart and comparing what comes of it with the original costs beside libjpeg-turbo's entropy
 * decoding, on one core, photo after photo. Built by hand, against a release build of the library:
 *
 *     gcc -O2 -D_GNU_SOURCE -Isrc -Iinclude bench/bench_apart.c -Wl,--whole-archive build/release/libleat_core.a \
 *         -Wl,--no-whole-archive -ljpeg -lspng -lwebp -lxxhash -ljansson -lm -o bench_apart
 *     bench_apart FOLDER [ROUNDS]
 *
 * decode    libjpeg-turbo reads the entropy-coded bytes to their end (jpeg_skip_scanlines)
 * apart     leat_jpeg_take_apart
 * equals    leat_jpeg_together_equals
 * together  leat_jpeg_together
 *
 * Prints microseconds of processor time a photo, the median of the rounds.
 */
#include <fts.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <jpeglib.h>

#include "jpeg/coefficients.h"

enum { DECODE, APART, EQUALS, TOGETHER, STEPS, MAX_ROUNDS = 99 };
static const char *const names[STEPS] = {"decode", "apart", "equals", "together"};

struct photo {
    unsigned char *data;
    size_t length;
};
static struct photo *photos;
static size_t n_photos, room;
static unsigned failures;

struct failure {
    struct jpeg_error_mgr errors;
    jmp_buf out;
};

static void on_error(j_common_ptr cinfo)
{
    longjmp(((struct failure *)cinfo->err)->out, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
    (void)cinfo;
    (void)level;
}

static void decode(struct jpeg_decompress_struct *cinfo, const struct photo *photo)
{
    if (setjmp(((struct failure *)cinfo->err)->out)) {
        jpeg_abort_decompress(cinfo);
        failures++;
        return;
    }
    jpeg_mem_src(cinfo, photo->data, photo->length);
    jpeg_read_header(cinfo, TRUE);
    cinfo->out_color_space = cinfo->jpeg_color_space;
    jpeg_start_decompress(cinfo);
    if (cinfo->output_height > 1) /* asked to skip all of it, libjpeg-turbo would decode nothing */
        jpeg_skip_scanlines(cinfo, cinfo->output_height - 1);
    JSAMPARRAY row =
        cinfo->mem->alloc_sarray((j_common_ptr)cinfo, JPOOL_IMAGE, cinfo->output_width * (JDIMENSION)cinfo->output_components, 1);
    jpeg_read_scanlines(cinfo, row, 1);
    jpeg_finish_decompress(cinfo);
}

static void read_photo(const char *path, size_t length)
{
    FILE *file = fopen(path, "rb");
    unsigned char *data = file && length ? malloc(length) : NULL;
    if (data && fread(data, 1, length, file) == length && length > 2 && data[0] == 0xff && data[1] == 0xd8) {
        if (n_photos == room) {
            room = room ? 2 * room : 1024;
            photos = realloc(photos, room * sizeof *photos);
            if (!photos)
                exit(2);
        }
        photos[n_photos++] = (struct photo){data, length};
    } else {
        free(data);
    }
    if (file)
        fclose(file);
}

/* Time of this thread on a processor, in nanoseconds. */
static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(struct jpeg_decompress_struct *cinfo, struct leat_jpeg_apart *apart, double us[STEPS])
{
    for (size_t i = 0; i < n_photos; i++) {
        const struct photo *p = &photos[i];
        const struct leat_jpeg_coefficients *coefficients;
        const uint8_t *skeleton;
        uint8_t *out = NULL;
        size_t skeleton_length, length;
        int64_t t[STEPS + 1];
        t[0] = now();
        decode(cinfo, p);
        t[1] = now();
        if (leat_jpeg_take_apart(apart, p->data, p->length, &coefficients, &skeleton, &skeleton_length, NULL)) {
            failures++;
            continue;
        }
        t[2] = now();
        failures += !!leat_jpeg_together_equals(apart, skeleton, skeleton_length, coefficients, p->data, p->length, NULL);
        t[3] = now();
        failures += !!leat_jpeg_together(skeleton, skeleton_length, coefficients, p->length, &out, &length, NULL);
        t[4] = now();
        leat_free(out);
        for (unsigned s = 0; s < STEPS; s++)
            us[s] += (double)(t[s + 1] - t[s]) * 1e-3 / (double)n_photos;
    }
}

int main(int argc, char **argv)
{
    long rounds = argc > 2 ? atol(argv[2]) : 9;
    rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    FTS *tree = argc > 1 ? fts_open((char *[]){argv[1], NULL}, FTS_LOGICAL | FTS_NOCHDIR, NULL) : NULL;
    for (FTSENT *entry; tree && (entry = fts_read(tree));)
        if (entry->fts_info == FTS_F)
            read_photo(entry->fts_path, (size_t)entry->fts_statp->st_size);
    if (tree)
        fts_close(tree);
    if (!n_photos) {
        fprintf(stderr, "usage: bench_apart FOLDER [ROUNDS]\n");
        return 2;
    }
    struct jpeg_decompress_struct cinfo;
    struct failure failure;
    cinfo.err = jpeg_std_error(&failure.errors);
    failure.errors.error_exit = on_error;
    failure.errors.emit_message = on_message;
    jpeg_create_decompress(&cinfo);
    struct leat_jpeg_apart *apart = leat_jpeg_apart_new();
    if (!apart)
        return 2;
    double us[STEPS][MAX_ROUNDS];
    for (long r = 0; r < rounds; r++) {
        double of_round[STEPS] = {0};
        run(&cinfo, apart, of_round);
        for (unsigned s = 0; s < STEPS; s++)
            us[s][r] = of_round[s];
    }
    printf("%zu photos, %u failures, us a photo:", n_photos, failures);
    for (unsigned s = 0; s < STEPS; s++) {
        qsort(us[s], (size_t)rounds, sizeof(double), by_value);
        printf("  %s %.0f", names[s], us[s][rounds / 2]);
    }
    putchar('\n');
    leat_jpeg_apart_free(apart);
    jpeg_destroy_decompress(&cinfo);
    return 0;
}
