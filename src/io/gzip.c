#include "io/gzip.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/blocks.h"

enum { WINDOW = 32 << 10, INPUT = 64 << 10, AHEAD = 8 << 20, GZIP = 15 + 16 };

struct point {
    uint64_t in;    /* the next byte of the file */
    uint64_t hash;  /* of the decoded bytes up to the next point */
    z_stream state; /* copied each time that the block is decoded; it stays where it is, for zlib points back to it */
};

/* A gzip file with its access points: the user of a file of blocks. */
struct gzip {
    struct leat_io_file *file;
    void (*convert)(void *user, uint64_t offset, uint8_t *bytes, uint64_t length);
    void *user;
    size_t n;
    struct point points[LEAT_GZIP_POINTS];
    uint64_t starts[LEAT_GZIP_POINTS + 1]; /* the start of each among the decoded bytes, and their number */
};

/* Input of an inflate, read piece by piece. */
struct input {
    struct leat_io_file *file;
    uint64_t at, end; /* the next byte to be read; the end of the needed ones, once known */
    uint8_t bytes[INPUT];
};

bool leat_gzip_recognise(const uint8_t *head, size_t n)
{
    return n >= 3 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8;
}

/* Makes sure that there is input, unless the file has no more. */
static int feed(struct input *in, z_stream *z, struct leat_error *error)
{
    uint64_t left = in->file->size - in->at;
    if (z->avail_in || !left)
        return LEAT_OK;
    uInt n = left < INPUT ? (uInt)left : INPUT;
    if (in->at < in->end)
        leat_blocks_ahead(in->file, in->at, in->end - in->at < AHEAD ? in->end - in->at : AHEAD);
    int rc = leat_io_read(in->file, in->at, n, in->bytes, error);
    z->next_in = in->bytes;
    z->avail_in = n;
    in->at += n;
    return rc;
}

static uint64_t place(const struct input *in, const z_stream *z)
{
    return in->at - z->avail_in;
}

static int inflate_failed(const struct input *in, const z_stream *z, int rc, struct leat_error *error)
{
    if (rc == Z_MEM_ERROR)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to decode %s", in->file->path);
    const char *what = rc == Z_BUF_ERROR ? "it ends in the middle" : z->msg ? z->msg : "it is no gzip data";
    return leat_io_damaged(in->file, place(in, z), what, error);
}

/* Behind a member: another one, zeroes up to the end (tapes leave them), or the end. */
static int next_member(struct input *in, z_stream *z, bool *more, struct leat_error *error)
{
    int rc = feed(in, z, error);
    *more = !rc && z->avail_in && *z->next_in;
    while (!rc && !*more && z->avail_in) {
        for (uInt i = 0; i < z->avail_in; i++)
            if (z->next_in[i])
                return leat_io_damaged(in->file, place(in, z) + i, "there are bytes behind its end", error);
        z->avail_in = 0;
        rc = feed(in, z, error);
    }
    return rc;
}

size_t leat_gzip_head(const uint8_t *head, size_t n, uint8_t *out, size_t room)
{
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)head, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)room};
    if (inflateInit2(&z, GZIP) != Z_OK)
        return 0;
    inflate(&z, Z_SYNC_FLUSH);
    inflateEnd(&z);
    return room - z.avail_out;
}

/* ---- the first reading ----------------------------------------------------------------------- */

struct scan {
    struct gzip *g; /* NULL: no points are kept */
    const struct leat_gzip_options *options;
    uint64_t out;       /* bytes decoded */
    XXH3_state_t *hash; /* of the bytes decoded since the last point */
    uint8_t decoded[WINDOW];
};

static int keep_point(struct scan *s, uint64_t in, z_stream *z, struct leat_error *error)
{
    struct gzip *g = s->g;
    if (!g || (g->n && s->out - g->starts[g->n - 1] < s->options->block_bytes) || g->n == LEAT_GZIP_POINTS)
        return LEAT_OK;
    struct point *p = &g->points[g->n];
    if (inflateCopy(&p->state, z) != Z_OK)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to index %s", g->file->path);
    p->in = in;
    if (g->n)
        p[-1].hash = XXH3_64bits_digest(s->hash);
    XXH3_64bits_reset(s->hash);
    g->starts[g->n++] = s->out;
    return LEAT_OK;
}

/* One call of inflate, and its result. */
static int step(struct scan *s, struct input *in, z_stream *z, int *state, struct leat_error *error)
{
    int rc = feed(in, z, error);
    if (rc)
        return rc;
    z->next_out = s->decoded;
    z->avail_out = sizeof s->decoded;
    *state = inflate(z, Z_NO_FLUSH);
    size_t n = sizeof s->decoded - z->avail_out;
    s->out += n;
    if (s->g)
        XXH3_64bits_update(s->hash, s->decoded, n);
    if (n && (rc = s->options->sink(s->options->user, s->decoded, n, error)))
        return rc;
    return *state == Z_OK || *state == Z_STREAM_END ? LEAT_OK : inflate_failed(in, z, *state, error);
}

static int scan(struct scan *s, struct input *in, struct leat_error *error)
{
    z_stream z = {0};
    bool more = true;
    if (inflateInit2(&z, GZIP) != Z_OK)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to decode %s", in->file->path);
    int rc = keep_point(s, 0, &z, error);
    while (!rc && more) {
        int state = Z_OK;
        rc = step(s, in, &z, &state, error);
        if (!rc && state == Z_STREAM_END) {
            rc = next_member(in, &z, &more, error);
            inflateReset(&z);
        }
        if (!rc && more)
            rc = keep_point(s, place(in, &z), &z, error);
    }
    inflateEnd(&z);
    return rc;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static int decode_block(void *user, size_t block, uint8_t *to, struct leat_error *error)
{
    struct gzip *g = user;
    struct point *p = &g->points[block];
    const uint64_t bytes = g->starts[block + 1] - g->starts[block];
    struct input *in = leat_alloc(sizeof *in);
    z_stream z;
    if (!in || inflateCopy(&z, &p->state) != Z_OK) {
        leat_free(in);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to decode %s", g->file->path);
    }
    in->file = g->file;
    in->at = p->in;
    in->end = block + 1 < g->n ? p[1].in : g->file->size;
    z.next_out = to;
    z.avail_in = 0;
    int rc = LEAT_OK;
    for (uint64_t done = 0; !rc && done < bytes; done = (uint64_t)(z.next_out - to)) {
        z.avail_out = bytes - done < UINT32_MAX ? (uInt)(bytes - done) : UINT32_MAX;
        if ((rc = feed(in, &z, error)))
            break;
        int state = inflate(&z, Z_NO_FLUSH);
        if (state == Z_STREAM_END) /* the next member follows at once */
            inflateReset(&z);
        else if (state != Z_OK)
            rc = inflate_failed(in, &z, state, error);
    }
    inflateEnd(&z);
    leat_free(in);
    if (rc || leat_hash64(to, (size_t)bytes) == p->hash)
        return rc;
    return leat_fail_at(error, LEAT_E_CHANGED, g->file->path, (int64_t)p->in,
                        "%s holds other bytes than when it was opened: open it again", g->file->path);
}

static void convert(void *user, uint64_t offset, uint8_t *bytes, uint64_t length)
{
    const struct gzip *g = user;
    g->convert(g->user, offset, bytes, length);
}

static void close_gzip(void *user)
{
    struct gzip *g = user;
    for (size_t i = 0; i < g->n; i++)
        inflateEnd(&g->points[i].state);
    leat_io_release(g->file);
    leat_free(g);
}

int leat_gzip_open(struct leat_io_file *file, const struct leat_gzip_options *options, struct leat_io_file **out,
                   struct leat_error *error)
{
    struct scan *s = leat_new(struct scan);
    struct input *in = leat_new(struct input);
    struct gzip *g = out ? leat_new(struct gzip) : NULL;
    int rc = LEAT_E_NOMEM;
    if (out)
        *out = NULL;
    if (!s || !in || (out && !g) || (out && !(s->hash = XXH3_createState()))) {
        leat_fail(error, rc, "no memory to decode %s", file->path);
        goto out;
    }
    in->file = file;
    in->end = file->size;
    s->g = g;
    s->options = options;
    if (g) {
        g->file = leat_io_retain(file);
        g->convert = options->convert;
        g->user = options->user;
    }
    rc = scan(s, in, error);
    if (!rc && g) {
        g->points[g->n - 1].hash = XXH3_64bits_digest(s->hash);
        g->starts[g->n] = s->out;
        rc = leat_blocks_open(&(struct leat_blocks){.path = file->path,
                                                    .n = g->n,
                                                    .starts = g->starts,
                                                    .decode = decode_block,
                                                    .convert = options->convert ? convert : NULL,
                                                    .close = close_gzip,
                                                    .user = g},
                              out, error);
        g = rc ? g : NULL;
    }
out:
    if (g)
        close_gzip(g);
    if (s)
        XXH3_freeState(s->hash);
    leat_free(s);
    leat_free(in);
    return rc;
}
