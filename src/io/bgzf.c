/* BGZF: bgzf.h. Blocks are found by their sizes alone: 22 bytes are read of each. */
#include "io/bgzf.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "io/interrupt.h"

enum { HEAD = LEAT_BGZF_HEAD, FIXED = 12, TAIL = 8, EMPTY = 5, MOST = 64 << 10, ASK = 4096, PATH = 4096 };

/* The bytes of the block that has this header; 0: it is none. The field of its size stands first in every file there
 * is. */
static uint32_t size_of(const uint8_t *h)
{
    if (h[0] != 0x1f || h[1] != 0x8b || h[2] != 8 || !(h[3] & 4) || leat_get_u16(h + 10) < 6 || h[12] != 'B' ||
        h[13] != 'C' || leat_get_u16(h + 14) != 2)
        return 0;
    const uint32_t size = leat_get_u16(h + 16) + UINT32_C(1);
    return size >= FIXED + leat_get_u16(h + 10) + (uint32_t)TAIL ? size : 0;
}

bool leat_bgzf_recognise(const uint8_t *head, size_t n)
{
    return n >= HEAD && size_of(head);
}

struct table {
    struct leat_frame *at;
    size_t n, room;
};

static bool add(struct table *t, uint64_t in, uint64_t out)
{
    if (!leat_grow(&t->at, &t->room, t->n + 2, sizeof *t->at))
        return false;
    t->at[t->n++] = (struct leat_frame){in, out};
    return true;
}

/* The decoded bytes of the block that these are, by its tail. One that says it is empty has to look it: no body to
 * speak of, and the checksum of nothing. UINT32_MAX: it does not. */
static uint32_t decoded_of(uint32_t size, uint32_t head, const uint8_t *tail)
{
    const uint32_t decoded = leat_get_u32(tail + 4);
    return decoded || (!leat_get_u32(tail) && size - head - TAIL <= EMPTY) ? decoded : UINT32_MAX;
}

static uint32_t head_of(const uint8_t *h)
{
    return FIXED + (uint32_t)leat_get_u16(h + 10);
}

/* Reads the block at `at`: its size in the file, and that of its decoded bytes. */
static int measure(struct leat_io_file *file, uint64_t at, uint32_t *size, uint32_t *decoded, struct leat_error *error)
{
    uint8_t bytes[HEAD], tail[TAIL];
    if (file->size - at < HEAD)
        return leat_io_damaged(file, at, "it ends in the middle of a block's header", error);
    int rc = leat_io_read(file, at, HEAD, bytes, error);
    if (rc)
        return rc;
    if (!(*size = size_of(bytes)))
        return leat_io_damaged(file, at, "there is no block of BGZF", error);
    if (*size > file->size - at)
        return leat_io_damaged(file, at, "it ends in the middle of a block", error);
    rc = leat_io_read(file, at + *size - TAIL, TAIL, tail, error);
    *decoded = rc ? 0 : decoded_of(*size, head_of(bytes), tail);
    return rc || *decoded <= MOST
               ? rc
               : leat_io_damaged(file, at, "a block of BGZF does not have the length it says", error);
}

/* From block to block. */
static int walk(struct leat_io_file *file, struct table *t, struct leat_error *error)
{
    uint64_t at = 0, out = 0, last = 0;
    uint32_t size = 0, decoded = 1;
    for (uint64_t i = 0; at < file->size; i++, at += size) {
        int rc = measure(file, at, &size, &decoded, error);
        if (!rc && i % ASK == ASK - 1 && leat_io_interrupted())
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was interrupted", file->path);
        if (!rc && decoded && !add(t, at, out))
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", file->path);
        if (rc)
            return rc;
        last = at;
        out += decoded;
    }
    if (decoded)
        return leat_io_damaged(file, at, "the empty block at its end is missing: it was cut", error);
    if (!leat_grow(&t->at, &t->room, t->n + 1, sizeof *t->at))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", file->path);
    t->at[t->n] = (struct leat_frame){last, out};
    return LEAT_OK;
}

/* The table of FILE.gzi: u64 n, then of each block but the first its start in the file and among the decoded bytes, the
 * empty one too. False: it does not fit, as far as its numbers and the last block show; each block says for itself when
 * it is decoded. */
static bool take_gzi(struct leat_io_file *file, const uint8_t *bytes, uint64_t n, struct table *t)
{
    const uint64_t blocks = n >= 8 ? leat_get_u64(bytes) : 0;
    uint32_t size, decoded;
    struct leat_frame last = {0, 0};
    if (n < 8 || (n - 8) % 16 || blocks != (n - 8) / 16 || !blocks || !leat_grow(&t->at, &t->room, blocks + 2, 16))
        return false;
    for (uint64_t i = 1; i <= blocks; i++) {
        const struct leat_frame next = {leat_get_u64(bytes + 16 * i - 8), leat_get_u64(bytes + 16 * i)};
        if (next.in <= last.in || next.in >= file->size || next.in - last.in > MOST || next.out < last.out ||
            next.out - last.out > MOST)
            return false;
        if (next.out > last.out)
            t->at[t->n++] = last;
        last = next;
    }
    /* the last entry is of the empty block, or what writers of old made, of the block before */
    if (measure(file, last.in, &size, &decoded, NULL))
        return false;
    if (decoded) {
        t->at[t->n++] = last;
        last = (struct leat_frame){last.in + size, last.out + decoded};
        if (last.in == file->size || measure(file, last.in, &size, &decoded, NULL) || decoded)
            return false;
    }
    t->at[t->n] = last;
    return t->n && last.in + size == file->size;
}

static bool read_gzi(struct leat_io_file *file, struct table *t)
{
    char path[PATH];
    struct leat_io_file *gzi = NULL;
    uint8_t *bytes = NULL;
    if (snprintf(path, sizeof path, "%s.gzi", file->path) >= PATH || leat_io_open(path, &gzi, NULL))
        return false;
    bool good = gzi->size <= file->size && (bytes = leat_alloc((size_t)gzi->size + 1)) &&
                !leat_io_read(gzi, 0, gzi->size, bytes, NULL) && take_gzi(file, bytes, gzi->size, t);
    if (!good)
        leat_log(LEAT_LOG_INFO, "%s does not fit %s: blocks are found without it", path, file->path);
    leat_io_release(gzi);
    leat_free(bytes);
    return good;
}

int leat_bgzf_find(struct leat_io_file *file, struct leat_frame **frames, size_t *n, struct leat_error *error)
{
    struct table t = {0};
    int rc = LEAT_OK;
    if (!read_gzi(file, &t)) {
        t.n = 0;
        rc = walk(file, &t, error);
    }
    if (rc)
        leat_free(t.at);
    *frames = rc ? NULL : t.at;
    *n = rc ? 0 : t.n;
    return rc;
}

static int decode(struct leat_io_file *file, uint64_t at, const uint8_t *bytes, size_t n, uint8_t *to, size_t out_bytes,
                  struct leat_error *error)
{
    const uint32_t size = n >= HEAD ? size_of(bytes) : 0;
    bool fits = size && size <= n && leat_get_u32(bytes + size - 4) == out_bytes;
    for (size_t at_next = size, next; fits && at_next < n; at_next += next) { /* empty blocks behind it */
        next = n - at_next >= HEAD ? size_of(bytes + at_next) : 0;
        fits = next && next <= n - at_next &&
               !decoded_of((uint32_t)next, head_of(bytes + at_next), bytes + at_next + next - TAIL);
    }
    if (!fits)
        return leat_io_damaged(file, at, "there is another block than was found when it was opened, or its .gzi says",
                               error);
    const size_t head = head_of(bytes);
    struct libdeflate_decompressor *z = libdeflate_alloc_decompressor();
    if (!z)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to decode %s", file->path);
    const bool whole =
        libdeflate_deflate_decompress(z, bytes + head, size - head - TAIL, to, out_bytes, NULL) == LIBDEFLATE_SUCCESS;
    libdeflate_free_decompressor(z);
    if (!whole || libdeflate_crc32(0, to, out_bytes) != leat_get_u32(bytes + size - TAIL))
        return leat_io_damaged(file, at, "a block does not decode to what its checksum says", error);
    return LEAT_OK;
}

int leat_bgzf_scan(struct leat_io_file *file, const struct leat_frame *frames, size_t n,
                   int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error), void *user,
                   struct leat_error *error)
{
    return leat_frames_scan(file, frames, n, decode, sink, user, error);
}

int leat_bgzf_open(struct leat_io_file *file, const struct leat_frame *frames, size_t n, struct leat_io_file **out,
                   struct leat_error *error)
{
    return leat_frames_open(file, frames, n, decode, out, error);
}
