/* The index of the deflated members of a file of arrays: however it is changed, it is refused, or the bytes that are
 * read by it are the member's, or reading fails.
 *
 * An input says how the right file is changed: u32 bytes cut off | (u32 place, u8 xor) ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/arrays_kept.h"

enum { BYTES = 120000, BLOCK = 20000, RIGHT = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t plain[BYTES], packed[BYTES + 4096], right[RIGHT], got[BYTES];
static size_t right_bytes;
static struct leat_io_file *source;
static const struct leat_archive_member member = {.header = 7, .bytes = 11, .size = BYTES, .crc = 13, .deflated = true};

static int pass(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    return LEAT_OK;
}

static int wrong(void *user, uint64_t at, struct leat_error *error)
{
    return LEAT_E_CHANGED;
}

/* Makes a file of gzip, and lets what is kept of it be written. */
static void make_right(void)
{
    char folder[] = "/tmp/leat-fuzz-XXXXXX", path[64], index[96];
    struct leat_gzip_points points;
    struct leat_io_file *file, *decoded;
    struct leat_arrays_kept *kept;
    z_stream z = {.next_in = plain, .avail_in = BYTES, .next_out = packed, .avail_out = sizeof packed};
    for (uint32_t i = 0, x = 1; i < BYTES; i++) {
        x = x * 1664525 + 1013904223;
        plain[i] = (uint8_t)((uint32_t) "the cat sat on a mat "[(x >> 20) % 21] + i / 30000);
    }
    if (!mkdtemp(folder) || deflateInit2(&z, 6, Z_DEFLATED, 31, 5, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    deflateEnd(&z);
    const size_t n = sizeof packed - z.avail_out;
    snprintf(path, sizeof path, "%s/a", folder);
    snprintf(index, sizeof index, "%s.leat-index", path);
    FILE *out = fopen(path, "w");
    if (!out || fwrite(packed, 1, n, out) != n || fclose(out) || leat_io_open(path, &file, NULL) ||
        leat_io_from_memory("source", packed, n, &source, NULL) ||
        leat_gzip_open(source, &(struct leat_gzip_options){.sink = pass, .block_bytes = BLOCK, .keep = &points},
                       &decoded, NULL) ||
        leat_arrays_kept_load(file, NULL, &kept, NULL) || leat_arrays_kept_add(kept, &member, &points, NULL))
        abort();
    leat_arrays_kept_save(kept, NULL, NULL);
    leat_arrays_kept_free(kept);
    leat_io_release(decoded);
    leat_io_release(file);
    FILE *in = fopen(index, "r");
    if (!in || !(right_bytes = fread(right, 1, RIGHT, in)))
        abort();
    fclose(in);
    unlink(index);
    unlink(path);
    rmdir(folder);
}

static void read_all(struct leat_io_file *decoded)
{
    enum { SOME = 7000 };
    if (decoded->size != BYTES) /* whose end has no length of more than 32 bits */
        return;
    for (uint64_t at = 0; at < BYTES; at += SOME) {
        const uint64_t n = BYTES - at < SOME ? BYTES - at : SOME;
        if (!leat_io_read(decoded, at, n, got, NULL) && memcmp(got, plain + at, n) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct leat_arrays_kept *kept;
    struct leat_gzip_points points;
    struct leat_io_file *decoded;
    const char *index;
    uint64_t inode;
    if (!right_bytes)
        make_right();
    const size_t cut = size < 4 ? 0 : leat_get_u32(data) % (right_bytes + 1), n = right_bytes - cut;
    uint8_t *bytes = malloc(right_bytes);
    memcpy(bytes, right, right_bytes);
    for (size_t i = 4; i + 5 <= size; i += 5)
        bytes[leat_get_u32(data + i) % right_bytes] ^= data[i + 4];
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (leat_arrays_kept_trust(path, &kept, NULL))
        abort();
    if (leat_arrays_kept_points(kept, &member, &points, &index, &inode) &&
        !leat_gzip_reopen(source, &points, &(struct leat_gzip_options){.block_bytes = BLOCK, .wrong = wrong}, &decoded,
                          NULL)) {
        read_all(decoded);
        leat_io_release(decoded);
    } else if (size <= 4 && !cut) {
        abort(); /* nothing was changed */
    }
    leat_arrays_kept_free(kept);
    free(bytes);
    close(fd);
    return 0;
}
