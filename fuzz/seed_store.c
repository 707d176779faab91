/*
 * Writes the seeds of the store targets: `seed_store fuzz/corpus` in the root of the repository. Small files of the
 * writer's own, so that fuzzing starts behind header and checksums.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "store/photo_hooks.h"

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static int probe(const void *data, size_t length, struct leat_photo_facts *facts, struct leat_error *error)
{
    (void)data;
    (void)error;
    *facts = (struct leat_photo_facts){(uint32_t)length, 7, 3, 1};
    return LEAT_OK;
}
static const struct leat_photo_hooks hooks = {.probe = probe};

/* A file behind the byte that asks for checksums to be repaired. */
static void keep(const char *root, const char *target, const char *name, const char *from)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", root, target, name);
    FILE *in = fopen(from, "rb"), *out = fopen(path, "wb");
    if (!in || !out)
        fail(path);
    fputc(1, out);
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    if (fclose(out))
        fail(path);
}

static void make(const char *to, const struct leat_field *fields, size_t n, unsigned samples, uint64_t shard_bytes)
{
    struct leat_error error;
    struct leat_writer *w;
    struct leat_writer_options o = LEAT_WRITER_OPTIONS_INIT;
    static const char *const classes[] = {"one", "two"};
    uint8_t room[64];
    o.check = false;
    o.overwrite = true;
    o.classes = classes;
    o.n_classes = 2;
    o.num_threads = 1;
    o.shard_bytes = shard_bytes;
    int rc = leat_store_writer_open(to, fields, n, &o, &hooks, &w, &error);
    for (unsigned i = 0; i < samples && !rc; i++) {
        struct leat_value_ref values[8] = {{0}};
        for (unsigned b = 0; b < sizeof room; b++)
            room[b] = (uint8_t)('a' + leat_draw_below(i, b, 26));
        for (size_t f = 0; f < n; f++)
            values[f] = (struct leat_value_ref){room, fields[f].kind == LEAT_KIND_ARRAY ? 8 : i * 3 % 40, NULL};
        rc = leat_writer_add(w, values, NULL, &error);
    }
    if (!rc)
        rc = leat_writer_finish(w, &error);
    if (rc) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    leat_writer_free(w, false);
}

int main(int argc, char **argv)
{
    static const struct leat_field rows[] = {{.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
                                             {.name = "y", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {8}}};
    static const struct leat_field mixed[] = {{.name = "image", .kind = LEAT_KIND_IMAGE},
                                              {.name = "label", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
                                              {.name = "boxes", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 2, .shape = {-1, 2}},
                                              {.name = "text", .kind = LEAT_KIND_STR}};
    char folder[] = "/tmp/seed-store-XXXXXX", path[128];
    if (argc != 2 || !mkdtemp(folder))
        fail("usage: seed_store FOLDER");
    snprintf(path, sizeof path, "%s/a.leat", folder);
    make(path, rows, 2, 9, 0);
    keep(argv[1], "fuzz_store_file", "rows", path);
    make(path, mixed, 4, 5, 0);
    keep(argv[1], "fuzz_store_file", "mixed", path);
    make(path, mixed, 4, 0, 0);
    keep(argv[1], "fuzz_store_file", "empty", path);
    make(path, mixed, 4, 3, 1);
    keep(argv[1], "fuzz_store_manifest", "one-shard", path);
    unlink(path);
    snprintf(path, sizeof path, "%s/a.00000.leat", folder);
    unlink(path);
    rmdir(folder);
    return 0;
}
