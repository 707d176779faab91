/* Frames of zstd (RFC 8878): zstd.h. */
#include "io/zstd.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/transfer.h"
#include "io/blocks.h"
#include "io/interrupt.h"

enum { MAGIC_BYTES = 4, BLOCK = 128 << 10, INPUT = 256 << 10, LEVEL = 1, SHORT = 64 << 10 };
#define FRAME UINT32_C(0xfd2fb528)
#define SKIPPABLE UINT32_C(0x184d2a50)

static bool is_skippable(uint32_t word)
{
    return (word & ~UINT32_C(15)) == SKIPPABLE;
}

bool leat_zstd_recognise(const uint8_t *head, size_t n)
{
    return n >= MAGIC_BYTES && (leat_get_u32(head) == FRAME || is_skippable(leat_get_u32(head)));
}

bool leat_zstd_decoded_bytes(const uint8_t *head, size_t n, uint64_t *out)
{
    *out = ZSTD_getFrameContentSize(head, n);
    return *out != ZSTD_CONTENTSIZE_UNKNOWN && *out != ZSTD_CONTENTSIZE_ERROR;
}

/* ---- the starts of frames -------------------------------------------------------------------- */

/* Headers are read through a piece of the file, because blocks may be short. */
struct walk {
    struct leat_io_file *file;
    uint64_t at; /* of the piece */
    size_t n;
    bool summed; /* the frame that was passed last has a checksum */
    uint8_t bytes[64 << 10];
};

/* `n` bytes at `at`; NULL: the file has no more, or cannot be read (*rc). */
static const uint8_t *peek(struct walk *w, uint64_t at, size_t n, int *rc, struct leat_error *error)
{
    if (at > w->file->size || w->file->size - at < n)
        return NULL;
    if (at < w->at || at + n > w->at + w->n) {
        w->at = at;
        w->n = w->file->size - at < sizeof w->bytes ? (size_t)(w->file->size - at) : sizeof w->bytes;
        /* Blocks are mostly far apart: then only a header is read. */
        w->n = w->n < 512 || at == 0 ? w->n : 512;
        if ((*rc = leat_io_read(w->file, at, w->n, w->bytes, error))) {
            w->n = 0;
            return NULL;
        }
    }
    return w->bytes + (at - w->at);
}

/* Goes past the frame at *at. *most: bytes that it decodes to, at most; 0: it is skipped. */
static int pass_frame(struct walk *w, uint64_t *at, uint64_t *most, struct leat_error *error)
{
    static const uint8_t id_bytes[] = {0, 1, 2, 4}, size_bytes[] = {0, 2, 4, 8};
    const uint64_t begin = *at;
    int rc = LEAT_OK;
    const uint8_t *p = peek(w, *at, 5, &rc, error);
    *most = 0;
    if (!p)
        return rc ? rc : leat_io_damaged(w->file, begin, "it ends in the middle", error);
    const uint32_t word = leat_get_u32(p);
    if (is_skippable(word)) {
        if (!(p = peek(w, *at, 8, &rc, error)))
            return rc ? rc : leat_io_damaged(w->file, begin, "it ends in the middle", error);
        *at += 8 + (uint64_t)leat_get_u32(p + 4);
        return *at <= w->file->size ? LEAT_OK : leat_io_damaged(w->file, begin, "it ends in the middle", error);
    }
    if (word != FRAME)
        return leat_io_damaged(w->file, begin, "there is no frame of zstd", error);
    const uint8_t d = p[4];
    const bool single = d & 32;
    w->summed = d & 4;
    *at += 5 + (uint64_t)!single + id_bytes[d & 3] + (d >> 6 ? size_bytes[d >> 6] : (uint64_t)single);
    for (bool last = false; !last;) {
        if (!(p = peek(w, *at, 3, &rc, error)))
            return rc ? rc : leat_io_damaged(w->file, *at, "it ends in the middle", error);
        const uint32_t block = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
        last = block & 1;
        if ((block >> 1 & 3) == 3)
            return leat_io_damaged(w->file, *at, "a block that is none", error);
        *at += 3 + ((block >> 1 & 3) == 1 ? 1 : (uint64_t)(block >> 3));
        *most += (block >> 1 & 3) < 2 ? block >> 3 : BLOCK;
    }
    *at += d & 4 ? 4 : 0;
    return *at <= w->file->size ? LEAT_OK : leat_io_damaged(w->file, begin, "it ends in the middle", error);
}

int leat_zstd_find(struct leat_io_file *file, struct leat_frame **out, size_t *n, bool *is_long,
                   struct leat_error *error)
{
    struct walk *w = leat_new(struct walk);
    struct leat_frame *frames = NULL;
    size_t room = 0;
    uint64_t at = 0, most, open = 0; /* bytes that the last entry gives at most */
    int rc = w ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", file->path);
    *n = 0;
    *is_long = false;
    if (w)
        w->file = file;
    while (!rc && at < file->size) {
        const uint64_t begin = at;
        if ((rc = pass_frame(w, &at, &most, error)))
            break;
        if (leat_io_interrupted())
            rc = leat_fail(error, LEAT_E_CANCELLED, "reading %s was interrupted", file->path);
        *is_long = *is_long || most > LEAT_ZSTD_LONGEST;
        if (!*n || (open + most > SHORT && most)) {
            if (!leat_grow(&frames, &room, *n + 2, sizeof *frames)) {
                rc = leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", file->path);
                break;
            }
            frames[(*n)++] = (struct leat_frame){.in = begin};
            open = 0;
        }
        open += most;
    }
    leat_free(w);
    if (rc || !*n) {
        leat_free(frames);
        *out = NULL;
        return rc ? rc : leat_io_damaged(file, 0, "it is empty", error);
    }
    frames[*n] = (struct leat_frame){.in = file->size};
    *out = frames;
    return LEAT_OK;
}

int leat_zstd_look_for_sums(struct leat_io_file *file, uint64_t from, uint64_t to, bool *summed, bool *unsummed,
                            struct leat_error *error)
{
    struct walk *w = leat_new(struct walk);
    uint64_t most;
    int rc = w ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", file->path);
    if (w)
        w->file = file;
    for (uint64_t at = from; at < to && !rc && !(rc = pass_frame(w, &at, &most, error));)
        if (most)
            *(w->summed ? summed : unsummed) = true;
    leat_free(w);
    return rc;
}

/* ---- decoding -------------------------------------------------------------------------------- */

struct scan {
    ZSTD_DStream *z;
    uint8_t *in, *out;
    size_t out_room;
    uint64_t total;
    int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error);
    void *user;
};

static int scan_part(struct scan *s, struct leat_io_file *file, uint64_t begin, uint64_t end, struct leat_error *error)
{
    size_t state = 0;
    for (uint64_t at = begin; at < end;) {
        const size_t n = end - at < INPUT ? (size_t)(end - at) : INPUT;
        int rc = leat_io_read(file, at, n, s->in, error);
        ZSTD_inBuffer in = {s->in, n, 0};
        bool full = false;
        while (!rc && (in.pos < in.size || full)) {
            ZSTD_outBuffer out = {s->out, s->out_room, 0};
            state = ZSTD_decompressStream(s->z, &out, &in);
            if (ZSTD_isError(state))
                rc = leat_io_damaged(file, at + in.pos, ZSTD_getErrorName(state), error);
            else if (out.pos)
                rc = s->sink(s->user, s->out, out.pos, error);
            full = state && out.pos == out.size; /* state 0: the frame is decoded, and given out whole */
            s->total += out.pos;
        }
        if (rc)
            return rc;
        if (leat_io_interrupted())
            return leat_fail(error, LEAT_E_CANCELLED, "reading %s was interrupted", file->path);
        at += n;
    }
    return state ? leat_io_damaged(file, end, "it ends in the middle", error) : LEAT_OK;
}

int leat_zstd_scan(struct leat_io_file *file, struct leat_frame *frames, size_t n,
                   int (*sink)(void *user, const uint8_t *bytes, size_t n, struct leat_error *error), void *user,
                   struct leat_error *error)
{
    struct scan s = {.z = ZSTD_createDStream(),
                     .in = leat_alloc(INPUT),
                     .out_room = ZSTD_DStreamOutSize(),
                     .sink = sink,
                     .user = user};
    s.out = leat_alloc(s.out_room);
    int rc = s.z && s.in && s.out ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to decode %s", file->path);
    for (size_t i = 0; i < n && !rc; i++) {
        frames[i].out = s.total;
        rc = scan_part(&s, file, frames[i].in, frames[i + 1].in, error);
    }
    frames[n].out = s.total;
    ZSTD_freeDStream(s.z);
    leat_free(s.in);
    leat_free(s.out);
    return rc;
}

static int decode_frame(struct leat_io_file *file, uint64_t at, const uint8_t *bytes, size_t n, uint8_t *to,
                        size_t out_bytes, struct leat_error *error)
{
    const size_t got = ZSTD_decompress(to, out_bytes, bytes, n);
    if (got == out_bytes)
        return LEAT_OK;
    return leat_io_damaged(
        file, at, ZSTD_isError(got) ? ZSTD_getErrorName(got) : "a frame has another length than when it was read",
        error);
}

int leat_zstd_open(struct leat_io_file *file, const struct leat_frame *frames, size_t n, struct leat_io_file **out,
                   struct leat_error *error)
{
    return leat_frames_open(file, frames, n, decode_frame, out, error);
}

/* ---- copies ---------------------------------------------------------------------------------- */

struct leat_zstd_copy {
    int descriptor;
    const char *path;
    ZSTD_CCtx *z;
    struct leat_frame *frames;
    size_t n, room, filled, out_room;
    uint64_t in, out; /* bytes written, bytes compressed */
    uint8_t *open, *packed;
};

int leat_zstd_copy_begin(int descriptor, const char *path, struct leat_zstd_copy **out, struct leat_error *error)
{
    struct leat_zstd_copy *c = *out = leat_new(struct leat_zstd_copy);
    if (c) {
        *c = (struct leat_zstd_copy){.descriptor = descriptor,
                                     .path = path,
                                     .z = ZSTD_createCCtx(),
                                     .out_room = ZSTD_compressBound(LEAT_ZSTD_COPY_FRAME),
                                     .open = leat_alloc(LEAT_ZSTD_COPY_FRAME)};
        c->packed = leat_alloc(c->out_room);
    }
    if (c && c->z && c->open && c->packed && leat_grow(&c->frames, &c->room, 2, sizeof *c->frames)) {
        ZSTD_CCtx_setParameter(c->z, ZSTD_c_compressionLevel, LEVEL);
        ZSTD_CCtx_setParameter(c->z, ZSTD_c_checksumFlag, 1);
        return LEAT_OK;
    }
    if (c)
        leat_zstd_copy_end(c, NULL, NULL, NULL, NULL);
    *out = NULL;
    return leat_fail(error, LEAT_E_NOMEM, "no memory to write %s", path);
}

static int write_frame(struct leat_zstd_copy *c, struct leat_error *error)
{
    const size_t n = ZSTD_compress2(c->z, c->packed, c->out_room, c->open, c->filled);
    if (ZSTD_isError(n) || !leat_grow(&c->frames, &c->room, c->n + 2, sizeof *c->frames))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to write %s", c->path);
    if (leat_write_at(c->descriptor, c->packed, n, c->in) < n)
        return leat_fail_errno(error, LEAT_E_IO, "cannot write %s", c->path);
    c->frames[c->n++] = (struct leat_frame){c->in, c->out};
    c->in += n;
    c->out += c->filled;
    c->filled = 0;
    return LEAT_OK;
}

int leat_zstd_copy_add(struct leat_zstd_copy *c, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    int rc = LEAT_OK;
    while (n && !rc) {
        const size_t left = LEAT_ZSTD_COPY_FRAME - c->filled, part = n < left ? n : left;
        memcpy(c->open + c->filled, bytes, part);
        c->filled += part;
        bytes += part;
        n -= part;
        if (c->filled == LEAT_ZSTD_COPY_FRAME)
            rc = write_frame(c, error);
    }
    return rc;
}

int leat_zstd_copy_end(struct leat_zstd_copy *c, struct leat_frame **frames, size_t *n, uint64_t *bytes,
                       struct leat_error *error)
{
    int rc = frames && c->filled ? write_frame(c, error) : LEAT_OK;
    if (frames && !rc) {
        c->frames[c->n] = (struct leat_frame){c->in, c->out};
        *frames = c->frames;
        *n = c->n;
        *bytes = c->in;
        c->frames = NULL;
    }
    ZSTD_freeCCtx(c->z);
    leat_free(c->open);
    leat_free(c->packed);
    leat_free(c->frames);
    leat_free(c);
    return rc;
}
