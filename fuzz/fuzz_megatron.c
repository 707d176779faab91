/* The index of a data set of Megatron: opening never crashes, and every document lies within its file. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "w");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t tokens[64];
    char folder[64], index[96], bin[96];
    snprintf(folder, sizeof folder, "/dev/shm/leat-fuzz-megatron.%ld", (long)getpid());
    mkdir(folder, 0700);
    snprintf(index, sizeof index, "%s/a.idx", folder);
    snprintf(bin, sizeof bin, "%s/a.bin", folder);
    put(index, data, size);
    put(bin, tokens, sizeof tokens);
    struct leat_source *s;
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    if (!leat_format_megatron.open(index, &options, &s, NULL)) {
        for (uint64_t i = 0; i < s->count; i++) {
            struct leat_extent e;
            size_t failed;
            if (s->v->extents(s, 0, &i, 1, &e, &failed, NULL) || e.offset > sizeof tokens ||
                e.length > sizeof tokens - e.offset)
                abort();
        }
        leat_source_close(s);
    }
    unlink(index);
    unlink(bin);
    rmdir(folder);
    return 0;
}
