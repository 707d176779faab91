/* A JSONL file: opening never crashes, whatever is read afterwards can be read, and the index that is kept gives the
 * same as the one that was made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "format/source.h"
#include "format/text_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int __real_leat_text_scan_file(struct leat_io_file *file, const struct leat_text_scan *options,
                               struct leat_text_index *out, struct leat_error *error);
int __wrap_leat_text_scan_file(struct leat_io_file *file, const struct leat_text_scan *options,
                               struct leat_text_index *out, struct leat_error *error);
int __wrap_leat_text_scan_file(struct leat_io_file *file, const struct leat_text_scan *options,
                               struct leat_text_index *out, struct leat_error *error)
{
    struct leat_text_scan shorter = *options;
    shorter.longest = 4096;
    return __real_leat_text_scan_file(file, &shorter, out, error);
}

int __real_leat_text_stream_begin(const char *path, const struct leat_text_scan *options, struct leat_text_stream **out,
                                  struct leat_error *error);
int __wrap_leat_text_stream_begin(const char *path, const struct leat_text_scan *options, struct leat_text_stream **out,
                                  struct leat_error *error);
int __wrap_leat_text_stream_begin(const char *path, const struct leat_text_scan *options, struct leat_text_stream **out,
                                  struct leat_error *error)
{
    struct leat_text_scan shorter = *options;
    shorter.longest = 4096;
    return __real_leat_text_stream_begin(path, &shorter, out, error);
}

static uint64_t read_all(struct leat_source *s)
{
    struct leat_error error;
    uint64_t sum = s->count;
    for (uint64_t i = 0; i < s->count && i < 100; i++)
        for (size_t f = 0; f < s->n_fields; f++) {
            size_t failed;
            const void *row;
            struct leat_values values;
            if (s->storage[f] == LEAT_STORAGE_MAPPED) {
                if (!s->v->rows(s, f, &i, 1, NULL, &row, &failed, &error))
                    sum = sum * 31 + leat_hash64(row, leat_dtype_size(s->fields[f].dtype));
                continue;
            }
            if (leat_values_init(&values, 1, 1))
                abort();
            if (!s->v->compute(s, &f, 1, &i, 1, &values, &failed, &error))
                sum = sum * 31 + leat_hash64(values.at[0].data, (size_t)values.at[0].bytes);
            leat_values_destroy(&values);
        }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    for (int way = 0; way < 2; way++) {
        struct leat_source *s = NULL;
        options.on_bad = way ? LEAT_BAD_MARK : LEAT_BAD_SKIP;
        if (leat_format_jsonl.open(path, &options, &s, NULL))
            continue;
        (void)read_all(s);
        leat_source_close(s);
    }
    close(fd);
    return 0;
}
