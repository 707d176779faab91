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
#include "jpegs.h"

#include "codec/jpeg/coefficients.h"

enum { DECODE, APART, EQUALS, TOGETHER, STEPS, MAX_ROUNDS = 99 };
static const char *const names[STEPS] = {"decode", "apart", "equals", "together"};

static unsigned failures;

static void run(struct jpeg_decompress_struct *cinfo, struct leat_jpeg_apart *apart, double us[STEPS])
{
    for (size_t i = 0; i < n_photos; i++) {
        const struct photo *p = &photos[i];
        const struct leat_jpeg_coefficients *coefficients;
        const uint8_t *skeleton;
        uint8_t *out = NULL;
        size_t skeleton_length, length;
        double t[STEPS + 1];
        t[0] = now();
        failures += !!skim(cinfo, p);
        t[1] = now();
        if (leat_jpeg_take_apart(apart, p->data, p->length, &coefficients, &skeleton, &skeleton_length, NULL)) {
            failures++;
            continue;
        }
        t[2] = now();
        failures +=
            !!leat_jpeg_together_equals(apart, skeleton, skeleton_length, coefficients, p->data, p->length, NULL);
        t[3] = now();
        failures += !!leat_jpeg_together(skeleton, skeleton_length, coefficients, p->length, &out, &length, NULL);
        t[4] = now();
        leat_free(out);
        for (unsigned s = 0; s < STEPS; s++)
            us[s] += (t[s + 1] - t[s]) * 1e6 / (double)n_photos;
    }
}

int main(int argc, char **argv)
{
    long rounds = argc > 2 ? atol(argv[2]) : 9;
    rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    if (argc > 1)
        read_photos(argv[1]);
    if (!n_photos) {
        fprintf(stderr, "usage: bench_apart FOLDER [ROUNDS]\n");
        return 2;
    }
    struct jpeg_decompress_struct cinfo;
    struct failure failure;
    create(&cinfo, &failure);
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
