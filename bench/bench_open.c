/*
 * What opening ten million samples and taking the first shuffled batch costs, in seconds and in memory of the process.
 * Makes the files once, where there are none; each measurement is of a fresh process, so that nothing is counted twice.
 *
 *     gcc -O2 -std=gnu11 -Iinclude bench/bench_open.c -Wl,--whole-archive build/gcc/libleat_core.a \
 *         -Wl,--no-whole-archive -ljpeg -lspng -lwebp -lxxhash -ljansson -lm -lpthread -o bench_open
 *     bench_open FOLDER [SAMPLES]
 *
 *     values   batch   256:  0.012 s   VmHWM +2.9 MB   RssAnon +2.0 MB   RssFile +0.8 MB
 *
 * `values` has a label (int64) and bytes of 0 to 15; `records` 13 float32, 26 int32 and a label. The page cache is warm
 * after the files were made or were read once; the level that is subtracted is that of the process before it opens.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "leat/leat.h"

static void stop(int rc, const struct leat_error *error)
{
    if (!rc)
        return;
    fprintf(stderr, "bench_open: %s: %s\n", leat_status_name(rc), error->message);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void make(const char *path, bool records, uint64_t count)
{
    const struct leat_field values[] = {{.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
                                        {.name = "text", .kind = LEAT_KIND_BYTES, .dtype = LEAT_U8}};
    const struct leat_field record[] = {
        {.name = "dense", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 1, .shape = {13}},
        {.name = "sparse", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I32, .ndim = 1, .shape = {26}},
        {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
    };
    struct leat_error error;
    struct leat_writer *writer;
    if (!access(path, R_OK))
        return;
    fprintf(stderr, "making %s\n", path);
    stop(leat_writer_open(path, records ? record : values, records ? 3 : 2, NULL, &writer, &error), &error);
    for (uint64_t i = 0; i < count; i++) {
        int64_t label = (int64_t)i;
        float dense[13] = {(float)i};
        int32_t sparse[26] = {(int32_t)i};
        const struct leat_value_ref refs[] = {
            {dense, sizeof dense, NULL}, {sparse, sizeof sparse, NULL}, {&label, 8, NULL}};
        const struct leat_value_ref two[] = {{&label, 8, NULL}, {"fifteen letters", i % 16, NULL}};
        stop(leat_writer_add(writer, records ? refs : two, NULL, &error), &error);
    }
    stop(leat_writer_finish(writer, &error), &error);
    leat_writer_free(writer, false);
}

/* A line of /proc/self/status, in kB. */
static long status_kb(const char *name)
{
    char line[256];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && kb < 0 && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
            kb = strtol(line + strlen(name) + 1, NULL, 10);
    if (f)
        fclose(f);
    return kb;
}

static void measure(const char *name, const char *path, uint64_t rows)
{
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    struct leat_error error;
    struct leat_dataset *dataset;
    struct leat_loader *loader;
    struct leat_batch *batch;
    uint64_t iteration;
    long all = status_kb("VmHWM"), anon = status_kb("RssAnon"), file = status_kb("RssFile");
    double begun = now();
    options.batch_size = rows;
    options.order = LEAT_ORDER_SHUFFLED;
    stop(leat_dataset_open(path, NULL, &dataset, &error), &error);
    stop(leat_loader_open(dataset, &options, &loader, &error), &error);
    stop(leat_loader_start(loader, &iteration, &error), &error);
    stop(leat_loader_next(loader, iteration, 60000, &batch, &error), &error);
    double seconds = now() - begun;
    printf("%-8s batch %5llu: %6.3f s   VmHWM +%.1f MB   RssAnon +%.1f MB   RssFile +%.1f MB\n", name,
           (unsigned long long)rows, seconds, (double)(status_kb("VmHWM") - all) / 1e3,
           (double)(status_kb("RssAnon") - anon) / 1e3, (double)(status_kb("RssFile") - file) / 1e3);
    leat_batch_free(batch);
    leat_loader_close(loader);
    leat_dataset_release(dataset);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"values", "records"};
    static const uint64_t sizes[] = {256, 4096};
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000000;
    if (argc < 2 || argc > 3 || !count) {
        fprintf(stderr, "usage: bench_open FOLDER [SAMPLES]\n");
        return 2;
    }
    for (int k = 0; k < 2; k++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/open-%s-%llu.leat", argv[1], names[k], (unsigned long long)count);
        for (int b = -1; b < 2; b++) {
            pid_t child = fork();
            int status = 0;
            if (!child) {
                if (b < 0)
                    make(path, k == 1, count);
                else
                    measure(names[k], path, sizes[b]);
                exit(0);
            }
            if (child < 0 || waitpid(child, &status, 0) < 0 || status)
                return 1;
        }
    }
    return 0;
}
