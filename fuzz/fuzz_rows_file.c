/*
 * Any bytes as a file of row indexes. The first byte says whether checksums are made right first. Rows that are found
 * lie in the file and can be read or are refused; rows appended then are found again, whatever the bytes are.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "format/rows_file.h"
#include "leat/leat.h"

#define FUZZ_ASSERT(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

enum { HEADER = 40, BLOCK = 32, ENTRY = 32, MOST = 1 << 16 };
static char folder[64];
static struct leat_rows_file file;

static void clean(void)
{
    unlink(file.path);
    rmdir(folder);
}

static void make_file(void)
{
    snprintf(folder, sizeof folder, "%s/leat-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    FUZZ_ASSERT(mkdtemp(folder));
    FUZZ_ASSERT(!leat_rows_file_init(&file, folder, "/r", 1 << 20));
    atexit(clean);
}

/* A header of this folder, and the checksums of blocks as far as these follow each other. */
static void repair(uint8_t *p, size_t n)
{
    if (n < HEADER)
        return;
    memcpy(p + 8, "leatrows", 8);
    leat_put_u32(p + 16, 2);
    leat_put_u32(p + 20, 2);
    memcpy(p + 32, "/r\0\0\0\0\0", 8);
    leat_put_u64(p, leat_hash64(p + 8, HEADER - 8));
    for (size_t at = HEADER; n - at >= BLOCK;) {
        uint8_t *block = p + at;
        uint64_t entries = leat_get_u32(block + 16), payload = leat_get_u64(block + 24);
        memcpy(block + 8, "rowblock", 8);
        if (entries * ENTRY > n - at - BLOCK)
            return;
        leat_put_u64(block, leat_hash64(block + 8, BLOCK - 8 + entries * ENTRY));
        if (payload > n - at - BLOCK - entries * ENTRY)
            return;
        at += BLOCK + entries * ENTRY + payload;
    }
}

struct seen {
    uint64_t size;
    const struct leat_rows_record *appended;
    size_t n_appended, n;
};

static void found(void *user, const struct leat_rows_record *record)
{
    static uint8_t rows[LEAT_ROWS_LONGEST];
    struct seen *seen = user;
    uint64_t photo = 0;
    FUZZ_ASSERT(record->length <= LEAT_ROWS_LONGEST);
    FUZZ_ASSERT(record->place <= seen->size && 16 + record->length <= seen->size - record->place);
    bool read = leat_rows_file_read(&file, &record->key, record->place, record->length, rows, &photo);
    for (size_t i = 0; i < seen->n_appended; i++) {
        const struct leat_rows_record *a = &seen->appended[i];
        if (memcmp(&a->key, &record->key, sizeof a->key) || a->place != record->place)
            continue;
        FUZZ_ASSERT(read && a->photo == photo && a->length == record->length &&
                    (!a->length || !memcmp(a->rows, rows, a->length)));
        seen->n++;
    }
}

static uint64_t size_of(void)
{
    struct stat st;
    return stat(file.path, &st) ? 0 : (uint64_t)st.st_size;
}

static void forget(void)
{
    if (file.reader >= 0)
        close(file.reader);
    file.reader = -1;
    file.generation = file.end = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static uint8_t copy[MOST];
    if (!file.path)
        make_file();
    if (length < 1 || length > MOST)
        return 0;
    memcpy(copy, data + 1, length - 1);
    if (data[0] & 1)
        repair(copy, length - 1);
    int fd = open(file.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_ASSERT(fd >= 0 && write(fd, copy, length - 1) == (ssize_t)(length - 1));
    close(fd);

    struct leat_rows_record records[] = {
        {.key = {1, 2, 3}, .hint = 4, .length = 5, .photo = 10, .rows = (const uint8_t *)"12345"},
        {.key = {6, 7, 8}, .hint = 9, .length = 1, .photo = 11, .rows = (const uint8_t *)"x"},
        {.key = {12, 13, 14}, .hint = 15, .photo = 16},
    };
    struct seen seen = {.size = size_of()};
    forget();
    file.restart = data[0] & 2;
    leat_rows_file_load(&file, found, &seen);
    FUZZ_ASSERT(leat_rows_file_begin(&file, 0, found, &seen) == LEAT_OK);
    FUZZ_ASSERT(leat_rows_file_write(&file, records, 3));
    leat_rows_file_end(&file);
    forget();
    seen = (struct seen){.size = size_of()};
    leat_rows_file_load(&file, found, &seen);
    seen = (struct seen){.size = size_of(), .appended = records, .n_appended = 3};
    file.end = 0; /* from the beginning again, now that there is a reader */
    FUZZ_ASSERT(leat_rows_file_begin(&file, 0, found, &seen) == LEAT_OK);
    leat_rows_file_end(&file);
    FUZZ_ASSERT(seen.n == 3);
    return 0;
}
