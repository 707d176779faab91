/*
 * The processor's time for a photo of which a card makes the pixels, beside pixels that the processor makes: one core,
 * random-resized crops of 224 and flips, the ways in turns, by this thread's own clock. Built by hand, against a build
 * of the library:
 *
 *     gcc -O2 -D_GNU_SOURCE -Isrc -Iinclude -o bench_on_card bench/bench_on_card.c \
 *         -Wl,--whole-archive build/release/libleat_core.a -Wl,--no-whole-archive \
 *         $(ldd build/release/libleat.so.0.1.0 | sed -n 's,.*=> \(/[^ ]*\) .*,\1,p')
 *     ./bench_on_card PHOTO.JPEG ...
 *
 * Prints medians of microseconds a photo, the share that the card decodes, and the bytes that travel of a photo.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "codec/jpeg/card_plan.h"
#include "codec/jpeg/fast.h"
#include "op/program.h"

enum { ROUNDS = 9, CROPS = 2, SIDE = 224, WAYS = 8 };
enum { PIXELS_INDEXED, BLOCKS_INDEXED, PIXELS, BLOCKS, PIXELS_SCANNED, CODED_SCANNED, CODED, FAST };
static const char *const names[WAYS] = {"pixels, by the row index", "blocks, by the row index", "pixels, without index",
                                        "blocks, without index",    "pixels, scanned first",    "coded, scanned first",
                                        "coded, by the row index",  "the decode-fast form"};

struct photo {
    uint8_t *original, *fast, *rows;
    size_t length, fast_length, rows_length;
};

static struct leat_error error;
static uint8_t *memory;
static size_t memory_bytes;
static uint64_t travelled;

static int take(struct leat_room *room, size_t output, uint64_t bytes, void **found, struct leat_error *e)
{
    (void)room, (void)output, (void)e;
    if (bytes > memory_bytes) {
        free(memory);
        memory = malloc(memory_bytes = bytes);
    }
    travelled += bytes;
    *found = memory;
    return memory ? LEAT_OK : LEAT_E_NOMEM;
}

static void need(bool there, const char *what)
{
    if (there)
        return;
    fprintf(stderr, "%s: %s\n", what, error.message);
    exit(1);
}

static struct photo open_photo(const char *path, struct leat_scratch *scratch, const struct leat_program *program,
                               struct leat_jpeg_packer *packer, uint8_t *pixels)
{
    struct photo p = {0};
    const uint8_t *fast = NULL;
    FILE *file = fopen(path, "rb");
    need(file && !fseek(file, 0, SEEK_END), path);
    p.length = (size_t)ftell(file);
    rewind(file);
    p.original = calloc(1, p.length + 64);
    need(fread(p.original, 1, p.length, file) == p.length, path);
    fclose(file);
    const struct leat_row row = {.data = p.original, .length = p.length, .info.size = {1, 1}, .scan_to_end = true};
    need(leat_program_apply(program, 0, scratch, &row, 1, pixels, &error) == 1, path);
    const uint8_t *rows = leat_scratch_rows(scratch, &p.rows_length);
    p.rows = p.rows_length ? memcpy(malloc(p.rows_length), rows, p.rows_length) : NULL;
    if (!leat_jpeg_pack(packer, p.original, p.length, 1, 1, &fast, &p.fast_length, &error))
        p.fast = memcpy(malloc(p.fast_length), fast, p.fast_length);
    return p;
}

static struct leat_row row_of(const struct photo *p, unsigned way, uint64_t key)
{
    struct leat_row row = {.data = p->original, .length = p->length, .key = key, .info.size = {1, 1}};
    row.info.health = way == CODED ? LEAT_HEALTH_GOOD : LEAT_HEALTH_UNCHECKED;
    row.scan_to_end = way == PIXELS_SCANNED || way == CODED_SCANNED;
    if (way == PIXELS_INDEXED || way == BLOCKS_INDEXED || way == CODED)
        row.info.rows = p->rows, row.info.rows_length = (uint32_t)p->rows_length;
    if (way == FAST)
        row.data = p->fast, row.length = p->fast_length, row.info.form = LEAT_FORM_FAST;
    return row;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static const char *const texts[2] = {
        "{\"operators\": {\"a\": {\"type\": \"Decode\"}, \"b\": {\"type\": \"RandomResizedCrop\", \"size\": [224, "
        "224]}, \"c\": {\"type\": \"RandomHorizontalFlip\"}, \"d\": {\"type\": \"ToLayout\", \"layout\": \"NHWC\"}}, "
        "\"outputs\": {\"x\": {\"field\": \"image\", \"chain\": [\"a\", \"b\", \"c\", \"d\"]}}}",
        "{\"operators\": {\"a\": {\"type\": \"Decode\"}, \"b\": {\"type\": \"RandomResizedCrop\", \"size\": [224, "
        "224]}, \"c\": {\"type\": \"RandomHorizontalFlip\"}}, \"outputs\": {\"x\": {\"field\": \"image\", \"chain\": "
        "[\"a\", \"b\", \"c\"], \"decode\": \"card\"}}}"};
    const struct leat_field field = {.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8};
    struct leat_program *program[2];
    struct leat_scratch *scratch[2];
    struct leat_room room = {take};
    struct leat_jpeg_packer *packer = leat_jpeg_packer_new();
    uint8_t *pixels = malloc(3 * SIDE * SIDE + 64);
    for (unsigned i = 0; i < 2; i++) {
        need(!leat_program_compile(&field, 1, texts[i], NULL, 0, LEAT_OPEN_STACKS, &program[i], &error), "program");
        scratch[i] = leat_scratch_new(program[i]);
        leat_scratch_give_room(scratch[i], &room);
    }
    const int n = argc - 1;
    struct photo *photos = calloc((size_t)n + 1, sizeof *photos);
    for (int i = 0; i < n; i++)
        photos[i] = open_photo(argv[1 + i], scratch[0], program[0], packer, pixels);
    double us[WAYS][ROUNDS], share[WAYS] = {0}, bytes[WAYS] = {0};
    for (int round = 0; round < ROUNDS; round++)
        for (unsigned way = 0; way < WAYS; way++) {
            const bool card = way != PIXELS_INDEXED && way != PIXELS && way != PIXELS_SCANNED;
            unsigned made = 0, there = 0;
            travelled = 0;
            const double begin = now_us();
            for (int i = 0; i < CROPS * n; i++) {
                const struct photo *p = &photos[i % n];
                const struct leat_row row = row_of(p, way, (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15));
                struct leat_card_photo told = {0};
                uint64_t steps[2];
                size_t failed;
                if (!row.data)
                    continue;
                made++;
                if (!card)
                    need(leat_program_apply(program[0], 0, scratch[0], &row, 1, pixels, &error) == 1, argv[1 + i % n]);
                else
                    need(!leat_program_apply_tuple(program[1], 0, scratch[1], &row, (void *const[]){NULL, &told}, steps,
                                                   &failed, &error),
                         argv[1 + i % n]);
                there += told.form >= LEAT_CARD_FAST;
            }
            us[way][round] = (now_us() - begin) / made;
            share[way] = (double)there / made;
            bytes[way] = card ? (double)travelled / made + sizeof(struct leat_card_photo) : 3.0 * SIDE * SIDE;
        }
    for (unsigned way = 0; n && way < WAYS; way++) {
        qsort(us[way], ROUNDS, sizeof us[way][0], compare);
        printf("%-26s %7.1f us (%.1f to %.1f), %5.1f%% on the card, %8.0f bytes\n", names[way], us[way][ROUNDS / 2],
               us[way][0], us[way][ROUNDS - 1], 100 * share[way], bytes[way]);
    }
    return 0;
}
