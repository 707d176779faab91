#include "io/gzip.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <string.h>
#include <xxhash.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/blocks.h"
#include "io/guard.h"

enum { WINDOW = LEAT_GZIP_WINDOW, INPUT = 64 << 10, AHEAD = 8 << 20, GZIP = 15 + 16, RAW = -15, TAIL = 8 };

struct point {
    uint64_t in;    /* the next byte of the file */
    uint64_t hash;  /* of the decoded bytes up to the next point */
    uint32_t crc;   /* their CRC-32, if the points are kept */
    z_stream state; /* copied each time that the block is decoded; it stays where it is, for zlib points back to it */
};

/* A gzip file with its access points: the user of a file of blocks. */
struct gzip {
    struct leat_io_file *file;
    void (*convert)(void *user, uint64_t offset, uint8_t *bytes, uint64_t length);
    int (*wrong)(void *user, uint64_t at, struct leat_error *error); /* NULL: the points were not kept */
    void *user;
    size_t n, points_room, starts_room;
    struct point **points;
    uint64_t *starts; /* n + 1: of each among the decoded bytes, and their number */
};

/* Input of an inflate, read piece by piece. */
struct input {
    struct leat_io_file *file;
    uint64_t at, end; /* the next byte to be read; the end of the needed ones, once known */
    uint8_t before;   /* the byte before `bytes` */
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
    in->before = z->next_in > in->bytes ? z->next_in[-1] : in->before;
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
    struct leat_gzip_points *keep; /* NULL: none are to be kept, or cannot be */
    size_t room, windows;          /* points and windows that there is room for */
    uint64_t out;                  /* bytes decoded */
    XXH3_state_t *hash;            /* of the bytes decoded since the last point */
    uint32_t crc;                  /* theirs, too */
    uint8_t decoded[WINDOW];
};

void leat_gzip_points_free(struct leat_gzip_points *points)
{
    leat_free(points->points);
    leat_free(points->windows);
    *points = (struct leat_gzip_points){0};
}

static void keep_none(struct scan *s)
{
    if (s->keep)
        leat_gzip_points_free(s->keep);
    s->keep = NULL;
}

/* Whether there is to be a point here. */
static bool is_place(struct scan *s, const z_stream *z)
{
    const struct gzip *g = s->g;
    enum { LAST = 64, BETWEEN = 128 }; /* in the last block of deflate; between two */
    if (!g || !g->n)
        return g;
    const uint64_t bytes = s->out - g->starts[g->n - 1];
    if (bytes < s->options->block_bytes || g->n == LEAT_GZIP_POINTS)
        return false;
    if (s->keep && bytes - s->options->block_bytes > LEAT_GZIP_LONGEST)
        keep_none(s);
    return !s->keep || (z->data_type & (LAST | BETWEEN)) == BETWEEN;
}

/* A point that is to be the next one of g->points. NULL: no memory. */
static struct point *new_point(struct gzip *g)
{
    return leat_grow(&g->points, &g->points_room, g->n + 1, sizeof(struct point *)) &&
                   leat_grow(&g->starts, &g->starts_room, g->n + 2, sizeof *g->starts)
               ? leat_new(struct point)
               : NULL;
}

/* Takes down the point where the input is, for an index; its checksums follow. */
static int keep_for_index(struct scan *s, const struct input *in, const z_stream *z, struct leat_error *error)
{
    const size_t n = s->g->n;
    struct leat_gzip_points *keep = s->keep;
    uInt bytes = 0;
    if (!keep)
        return LEAT_OK;
    if (!leat_grow(&keep->points, &s->room, n + 2, sizeof *keep->points))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to index %s", s->g->file->path);
    struct leat_gzip_point *p = &keep->points[n];
    *p = (struct leat_gzip_point){.in = place(in, z), .out = s->out};
    keep->n = n + 1;
    if (!n)
        return LEAT_OK;
    if (!leat_grow(&keep->windows, &s->windows, n, WINDOW))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to index %s", s->g->file->path);
    uint8_t *window = keep->windows + (n - 1) * WINDOW;
    memset(window, 0, WINDOW);
    p->n_bits = z->data_type & 7;
    p->bits = (uint8_t)((z->next_in == in->bytes ? in->before : z->next_in[-1]) >> (8 - p->n_bits));
    inflateGetDictionary((z_stream *)(uintptr_t)z, window, &bytes);
    if (bytes != (s->out < WINDOW ? s->out : WINDOW))
        keep_none(s);
    return LEAT_OK;
}

static void end_block(struct scan *s)
{
    struct point *p = s->g->points[s->g->n - 1];
    p->hash = XXH3_64bits_digest(s->hash);
    p->crc = s->crc;
    XXH3_64bits_reset(s->hash);
    s->crc = 0;
}

static int keep_point(struct scan *s, const struct input *in, z_stream *z, struct leat_error *error)
{
    struct gzip *g = s->g;
    if (!is_place(s, z))
        return LEAT_OK;
    struct point *p = new_point(g);
    if (!p || inflateCopy(&p->state, z) != Z_OK) {
        leat_free(p);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to index %s", g->file->path);
    }
    p->in = place(in, z);
    if (g->n)
        end_block(s);
    else
        XXH3_64bits_reset(s->hash);
    const int rc = keep_for_index(s, in, z, error);
    g->points[g->n] = p;
    g->starts[g->n++] = s->out;
    return rc;
}

/* One call of inflate, and its result. */
static int step(struct scan *s, struct input *in, z_stream *z, int *state, struct leat_error *error)
{
    int rc = feed(in, z, error);
    if (rc)
        return rc;
    z->next_out = s->decoded;
    z->avail_out = sizeof s->decoded;
    *state = inflate(z, s->keep ? Z_BLOCK : Z_NO_FLUSH);
    size_t n = sizeof s->decoded - z->avail_out;
    s->out += n;
    if (s->g)
        XXH3_64bits_update(s->hash, s->decoded, n);
    if (s->keep)
        s->crc = libdeflate_crc32(s->crc, s->decoded, n);
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
    int rc = keep_point(s, in, &z, error);
    while (!rc && more) {
        int state = Z_OK;
        rc = step(s, in, &z, &state, error);
        if (!rc && state == Z_STREAM_END) {
            rc = next_member(in, &z, &more, error);
            inflateReset(&z);
            if (more)
                keep_none(s);
        }
        if (!rc && more)
            rc = keep_point(s, in, &z, error);
    }
    inflateEnd(&z);
    return rc;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Decodes so many bytes. */
static int decode(struct input *in, z_stream *z, uint8_t *to, uint64_t bytes, struct leat_error *error)
{
    int rc = LEAT_OK;
    z->next_out = to;
    for (uint64_t done = 0; !rc && done < bytes; done = (uint64_t)(z->next_out - to)) {
        z->avail_out = bytes - done < UINT32_MAX ? (uInt)(bytes - done) : UINT32_MAX;
        if ((rc = feed(in, z, error)))
            break;
        int state = inflate(z, Z_NO_FLUSH);
        if (state == Z_STREAM_END) /* the next member follows at once */
            inflateReset(z);
        else if (state != Z_OK)
            rc = inflate_failed(in, z, state, error);
    }
    return rc;
}

int leat_gzip_first(struct leat_io_file *file, uint8_t *to, size_t n, struct leat_error *error)
{
    struct input *in = leat_new(struct input);
    z_stream z = {0};
    if (!in || inflateInit2(&z, GZIP) != Z_OK) {
        leat_free(in);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to decode %s", file->path);
    }
    in->file = file;
    const int rc = decode(in, &z, to, n, error);
    inflateEnd(&z);
    leat_free(in);
    return rc;
}

static int decode_block(void *user, size_t block, uint8_t *to, struct leat_error *error)
{
    struct gzip *g = user;
    struct point *p = g->points[block];
    const uint64_t bytes = g->starts[block + 1] - g->starts[block];
    struct input *in = leat_alloc(sizeof *in);
    z_stream z;
    if (!in || inflateCopy(&z, &p->state) != Z_OK) {
        leat_free(in);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to decode %s", g->file->path);
    }
    in->file = g->file;
    in->at = p->in;
    in->end = block + 1 < g->n ? g->points[block + 1]->in : g->file->size;
    z.next_in = NULL;
    z.avail_in = 0;
    int rc = decode(in, &z, to, bytes, error);
    inflateEnd(&z);
    leat_free(in);
    const bool same = !rc && leat_hash64(to, (size_t)bytes) == p->hash &&
                      (!g->wrong || libdeflate_crc32(0, to, (size_t)bytes) == p->crc);
    if (same || (rc && rc != LEAT_E_CORRUPT))
        return rc;
    if (g->wrong)
        return g->wrong(g->user, p->in, error);
    if (rc)
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
    for (size_t i = 0; i < g->n; i++) {
        inflateEnd(&g->points[i]->state);
        leat_free(g->points[i]);
    }
    leat_free(g->points);
    leat_free(g->starts);
    leat_io_release(g->file);
    leat_free(g);
}

static struct gzip *new_gzip(struct leat_io_file *file, const struct leat_gzip_options *options)
{
    struct gzip *g = leat_new(struct gzip);
    if (!g)
        return NULL;
    g->file = leat_io_retain(file);
    g->convert = options->convert;
    g->user = options->user;
    return g;
}

/* The file of the blocks, which takes `g` over. */
static int open_blocks(struct gzip *g, struct leat_io_file **out, struct leat_error *error)
{
    const int rc = leat_blocks_open(&(struct leat_blocks){.path = g->file->path,
                                                          .n = g->n,
                                                          .starts = g->starts,
                                                          .decode = decode_block,
                                                          .convert = g->convert ? convert : NULL,
                                                          .close = close_gzip,
                                                          .user = g},
                                    out, error);
    if (rc)
        close_gzip(g);
    return rc;
}

/* The scan is at the end: the last block has its checksums, and what is kept has all of them. */
static void end_points(struct scan *s, const struct input *in)
{
    const struct gzip *g = s->g;
    end_block(s);
    s->g->starts[g->n] = s->out;
    for (size_t i = 0; s->keep && i < g->n; i++) {
        s->keep->points[i].hash = g->points[i]->hash;
        s->keep->points[i].crc = g->points[i]->crc;
    }
    if (s->keep)
        s->keep->points[g->n] = (struct leat_gzip_point){.in = in->file->size, .out = s->out};
}

int leat_gzip_open(struct leat_io_file *file, const struct leat_gzip_options *options, struct leat_io_file **out,
                   struct leat_error *error)
{
    struct scan *s = leat_new(struct scan);
    struct input *in = leat_new(struct input);
    struct gzip *g = out ? new_gzip(file, options) : NULL;
    int rc = LEAT_E_NOMEM;
    if (out)
        *out = NULL;
    if (options->keep)
        *options->keep = (struct leat_gzip_points){0};
    if (s)
        s->keep = out ? options->keep : NULL;
    if (!s || !in || (out && (!g || !(s->hash = XXH3_createState())))) {
        leat_fail(error, rc, "no memory to decode %s", file->path);
        goto out;
    }
    in->file = file;
    in->end = file->size;
    s->g = g;
    s->options = options;
    rc = scan(s, in, error);
    if (!rc && g) {
        end_points(s, in);
        rc = open_blocks(g, out, error);
        g = NULL;
    }
out:
    if (g)
        close_gzip(g);
    if (s && rc)
        keep_none(s);
    if (s)
        XXH3_freeState(s->hash);
    leat_free(s);
    leat_free(in);
    return rc;
}

/* ---- points that were kept ------------------------------------------------------------------- */

/* Whether there can be a block between point i and the one behind it. Each takes memory: they are as far apart as they
 * are kept. */
static bool are_possible(const struct leat_io_file *file, const struct leat_gzip_point p[2], size_t i, size_t n,
                         uint64_t block_bytes)
{
    const uint64_t least = i + 1 < n ? block_bytes : 1, most = block_bytes + LEAT_GZIP_LONGEST + WINDOW;
    return p[0].in <= p[1].in && p[1].in <= file->size && p[0].out < p[1].out && p[1].out - p[0].out >= least &&
           p[1].out - p[0].out <= most && p->n_bits < 8 && (i ? p->out : !p->in && !p->out);
}

/* The state of zlib at a point: LEAT_OK, or LEAT_E_NOMEM. */
static int restore(z_stream *z, const struct leat_gzip_point *p, const uint8_t *window)
{
    if (inflateInit2(z, p->out ? RAW : GZIP) != Z_OK)
        return LEAT_E_NOMEM;
    if (!p->out)
        return LEAT_OK;
    const bool good = (!p->n_bits || inflatePrime(z, p->n_bits, p->bits) == Z_OK) &&
                      inflateSetDictionary(z, window, p->out < WINDOW ? (uInt)p->out : WINDOW) == Z_OK;
    return good ? LEAT_OK : LEAT_E_NOMEM;
}

/* The points together have the length and the CRC-32 that stand at the end of the file. */
static int compare_end(const struct gzip *g, struct leat_error *error)
{
    uint8_t tail[TAIL];
    uLong crc = 0;
    const int rc =
        g->file->size < TAIL ? LEAT_E_CORRUPT : leat_io_read(g->file, g->file->size - TAIL, TAIL, tail, error);
    if (rc)
        return rc;
    for (size_t i = 0; i < g->n; i++)
        crc = crc32_combine(crc, g->points[i]->crc, (z_off_t)(g->starts[i + 1] - g->starts[i]));
    return crc == leat_get_u32(tail) && (uint32_t)g->starts[g->n] == leat_get_u32(tail + 4) ? LEAT_OK : LEAT_E_CORRUPT;
}

static int restore_all(struct gzip *g, const struct leat_gzip_points *kept, uint64_t block_bytes,
                       struct leat_error *error)
{
    uint8_t *window = leat_alloc(WINDOW);
    struct leat_gzip_point p[2];
    struct point *point;
    int rc = window ? LEAT_OK : LEAT_E_NOMEM;
    for (size_t i = 0; i < kept->n && !rc; i++) {
        if (leat_guarded_copy(p, kept->points + i, sizeof p, NULL) ||
            (i && leat_guarded_copy(window, kept->windows + (i - 1) * WINDOW, WINDOW, NULL)) ||
            !are_possible(g->file, p, i, kept->n, block_bytes))
            rc = LEAT_E_CORRUPT;
        else if (!(point = new_point(g)))
            rc = LEAT_E_NOMEM;
        if (rc)
            break;
        *point = (struct point){.in = p->in, .hash = p->hash, .crc = p->crc};
        g->points[g->n++] = point; /* close_gzip ends those that were begun */
        g->starts[i] = p->out;
        g->starts[i + 1] = p[1].out;
        rc = restore(&point->state, p, window);
    }
    leat_free(window);
    return rc ? rc : compare_end(g, error);
}

int leat_gzip_reopen(struct leat_io_file *file, const struct leat_gzip_points *kept,
                     const struct leat_gzip_options *options, struct leat_io_file **out, struct leat_error *error)
{
    *out = NULL;
    struct gzip *g = new_gzip(file, options);
    int rc = !g ? LEAT_E_NOMEM : kept->n && kept->n <= LEAT_GZIP_POINTS ? LEAT_OK : LEAT_E_CORRUPT;
    if (!rc) {
        g->wrong = options->wrong;
        rc = restore_all(g, kept, options->block_bytes, error);
    }
    if (!rc)
        return open_blocks(g, out, error);
    if (g)
        close_gzip(g);
    if (rc == LEAT_E_NOMEM)
        return leat_fail(error, rc, "no memory to open %s", file->path);
    return rc == LEAT_E_IO ? rc : leat_fail(error, rc, "the index of %s is that of another file", file->path);
}
