/*
 * Any bytes in a file of columns: its header, or words and records of a small one that is otherwise whole. Whatever
 * they are, the file is refused, or rows of it are read, broken or missing, and others can be written.
 *
 *     byte 0        1: rows have keys; 2: the rest is a header; 4: with a checksum that is right
 *     else          patches: where (4 bytes, modulo the file's size), and 8 bytes that stand there then
 *
 * Replayed it takes 15 s: each input makes a file, opens it, reads it and writes to it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "columns/internal.h"

#define FUZZ_ASSERT(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

enum { ROWS = 12, PATCH = 12, MOST = 1 << 15 };
static char path[2][80], folder[64];
static struct {
    uint8_t *bytes;
    size_t size;
} whole[2];

static const struct leat_field fields[] = {
    {.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 1, .shape = {5}},
    {.name = "list", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I8, .ndim = 2, .shape = {-1, 2}},
};

/* In the place of the C library's: no disk is to be waited for. */
int fdatasync(int fd)
{
    return fd < 0 ? -1 : 0;
}

static void clean(void)
{
    unlink(path[0]);
    unlink(path[1]);
    rmdir(folder);
}

static int write_rows(struct leat_columns *c, uint64_t first, uint64_t n)
{
    for (uint64_t id = first; id < first + n; id++) {
        const float x[5] = {(float)id};
        const int8_t list[2 * ROWS] = {(int8_t)id};
        const int64_t offsets[2] = {0, (int64_t)(id % ROWS)};
        const struct leat_column columns[2] = {{x, LEAT_F32, NULL}, {list, LEAT_I8, offsets}};
        int rc = leat_columns_write(c, &id, leat_columns_keyed(c) ? &id : NULL, 1, columns, NULL);
        if (rc)
            return rc;
    }
    return LEAT_OK;
}

static void make(int keyed)
{
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    struct leat_columns *c;
    struct stat st;
    options.fields = fields;
    options.n_fields = 2;
    options.keyed = keyed;
    snprintf(path[keyed], sizeof path[keyed], "%s/%d", folder, keyed);
    FUZZ_ASSERT(!leat_columns_open(path[keyed], &options, &c, NULL));
    FUZZ_ASSERT(!write_rows(c, 0, ROWS) && !leat_columns_flush(c, NULL) && !write_rows(c, 0, ROWS / 2));
    leat_columns_close(c);
    int fd = open(path[keyed], O_RDONLY | O_CLOEXEC);
    FUZZ_ASSERT(fd >= 0 && !fstat(fd, &st));
    whole[keyed].size = (size_t)st.st_size;
    whole[keyed].bytes = malloc(whole[keyed].size);
    FUZZ_ASSERT(whole[keyed].bytes && pread(fd, whole[keyed].bytes, whole[keyed].size, 0) == st.st_size);
    close(fd);
}

static void make_files(void)
{
    snprintf(folder, sizeof folder, "%s/leat-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    FUZZ_ASSERT(mkdtemp(folder));
    make(0);
    make(1);
    atexit(clean);
}

/* The changes are undone. Only bytes that are not zero, or were written, have pages. */
static void restore(int fd, int keyed)
{
    FUZZ_ASSERT(!ftruncate(fd, 0) && !ftruncate(fd, (off_t)whole[keyed].size));
    static const uint8_t zeroes[4096];
    for (size_t at = 0; at < whole[keyed].size; at += sizeof zeroes)
        if (memcmp(whole[keyed].bytes + at, zeroes, sizeof zeroes))
            FUZZ_ASSERT(pwrite(fd, whole[keyed].bytes + at, sizeof zeroes, (off_t)at) == sizeof zeroes);
}

static void put_header(int fd, const uint8_t *data, size_t length, bool repaired)
{
    static uint8_t header[HEADER_BYTES];
    memset(header, 0, sizeof header);
    memcpy(header, data, length < sizeof header ? length : sizeof header);
    if (repaired) {
        memcpy(header, "leatcols", 8);
        leat_put_u32(header + 8, LEAT_COLUMNS_VERSION);
        leat_put_u64(header + 16, leat_hash64(header + 24, sizeof header - 24));
    }
    FUZZ_ASSERT(pwrite(fd, header, sizeof header, 0) == sizeof header);
}

static void use(struct leat_columns *c)
{
    uint64_t asked[ROWS + 1], *ids, *keys, n;
    size_t n_fields;
    const struct leat_field *found = leat_columns_fields(c, &n_fields);
    FUZZ_ASSERT(found && n_fields && n_fields <= LEAT_COLUMNS_MAX_FIELDS);
    for (uint64_t i = 0; i <= ROWS; i++)
        asked[i] = i;
    const uint64_t *k = leat_columns_keyed(c) ? asked : NULL;
    leat_columns_expect(c, asked, k, ROWS + 1);
    if (!leat_columns_list(c, &ids, &keys, &n, NULL)) {
        leat_free(ids);
        leat_free(keys);
    }
    if (n_fields != 2 || found[0].dtype != LEAT_F32 || found[0].ndim != 1 || found[0].shape[0] != 5 ||
        found[1].dtype != LEAT_I8 || found[1].ndim != 2 || found[1].shape[0] != -1 || found[1].shape[1] != 2)
        return;
    float x[(ROWS + 1) * 5];
    int64_t offsets[ROWS + 2];
    uint8_t present[ROWS + 1];
    struct leat_column_out out[2] = {{true, x, NULL}, {true, NULL, offsets}};
    int rc = leat_columns_gather(c, asked, k, ROWS + 1, out, true, present, NULL);
    FUZZ_ASSERT(rc || (offsets[ROWS + 1] >= 0 && offsets[0] == 0));
    if (!rc && offsets[ROWS + 1]) { /* all of it can be read */
        const uint64_t bytes = 2 * sizeof(float) * (uint64_t)offsets[ROWS + 1];
        FUZZ_ASSERT(leat_hash64(out[1].data, bytes) || !bytes);
    }
    leat_free(out[1].data);
    if (!write_rows(c, ROWS / 3, ROWS) && !leat_columns_flush(c, NULL)) {
        out[1].wanted = false;
        rc = leat_columns_gather(c, asked + ROWS / 3, k ? k + ROWS / 3 : NULL, 1, out, true, present, NULL);
        FUZZ_ASSERT(rc || (present[0] == LEAT_PRESENT && x[0] == ROWS / 3));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct leat_columns_options options = LEAT_COLUMNS_OPTIONS_INIT;
    struct leat_columns *c;
    if (!whole[1].bytes)
        make_files();
    if (length < 1 || length > MOST)
        return 0;
    const int keyed = data[0] & 1;
    int fd = open(path[keyed], O_RDWR | O_CLOEXEC);
    FUZZ_ASSERT(fd >= 0);
    if (data[0] & 2)
        put_header(fd, data + 1, length - 1, data[0] & 4);
    for (size_t at = 1; !(data[0] & 2) && at + PATCH <= length; at += PATCH) {
        const uint64_t where = leat_get_u32(data + at) % (whole[keyed].size - 8);
        FUZZ_ASSERT(pwrite(fd, data + at + 4, 8, (off_t)where) == 8);
    }
    options.read_only = data[0] & 8;
    if (!leat_columns_open(path[keyed], &options, &c, NULL)) {
        use(c);
        leat_columns_close(c);
    }
    restore(fd, keyed);
    close(fd);
    return 0;
}
