/*
 * GIF. A file is a canvas and frames, each a part of it with a palette and LZW codes; a frame is delivered as it is
 * seen, over the remains of those before it.
 *
 *     "GIF89a", width, height, flags, background, aspect; palette
 *     0x21 label, blocks     an extension; 0xf9: what becomes of the next frame, and its transparent index
 *     0x2c x, y, w, h, flags; palette; bits of a code; blocks
 *     0x3b                   the end, which may be missing
 *
 * A block is its length and as many bytes; length 0 ends them. The first frame fills its free pixels with its
 * transparent index, or with index 0, as Pillow does; the background is ignored.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "codec/photo/decode_whole.h"

enum { LEAVE = 1, CLEAR = 2, RESTORE = 3 }; /* the disposal of a frame when the next one comes */
enum { MOST_CODES = 4096 };

struct gif {
    struct leat_bytes file, palette; /* the global one */
    size_t at;
    uint32_t width, height;
};

struct frame {
    uint32_t x, y, w, h;
    struct leat_bytes palette;
    bool interlaced, has_transparent;
    uint8_t transparent, disposal, code_bits;
    size_t data; /* the first block */
};

static int broken(const struct gif *g, const char *words, struct leat_error *error)
{
    return leat_decode_fail(error, "GIF", (int64_t)g->at, g->file.n, words);
}

static struct leat_bytes take(struct gif *g, size_t n)
{
    struct leat_bytes part = leat_bytes_part(g->file, g->at, n);
    g->at += part.p ? n : 0;
    return part;
}

/* The palette that flags tell of; false: the file ends in it. */
static bool take_palette(struct gif *g, uint8_t flags, struct leat_bytes *palette)
{
    *palette = (struct leat_bytes){NULL, 0};
    if (!(flags & 0x80))
        return true;
    *palette = take(g, (size_t)3 << ((flags & 7) + 1));
    return palette->p;
}

static int begin(struct leat_bytes file, struct gif *g, struct leat_error *error)
{
    *g = (struct gif){.file = file};
    struct leat_bytes h = take(g, 13);
    if (!h.p || !take_palette(g, h.p[10], &g->palette))
        return broken(g, "the file ends in its header", error);
    g->width = leat_bytes_number(h.p + 6, 2, false);
    g->height = leat_bytes_number(h.p + 8, 2, false);
    return LEAT_OK;
}

static bool skip_blocks(struct gif *g)
{
    for (;;) {
        struct leat_bytes length = take(g, 1);
        if (!length.p)
            return false;
        if (!length.p[0])
            return true;
        if (!take(g, length.p[0]).p)
            return false;
    }
}

/* The next frame, and g->at behind it. 1: there is none. */
static int next_frame(struct gif *g, struct frame *f, struct leat_error *error)
{
    *f = (struct frame){0};
    for (;;) {
        struct leat_bytes head = take(g, 1);
        if (!head.p || head.p[0] == 0x3b)
            return 1;
        if (head.p[0] == 0x21) {
            struct leat_bytes label = take(g, 1), body = leat_bytes_part(g->file, g->at, 5);
            if (label.p && label.p[0] == 0xf9 && body.p && body.p[0] == 4) {
                f->disposal = body.p[1] >> 2 & 7;
                f->has_transparent = body.p[1] & 1;
                f->transparent = body.p[4];
            }
            if (!label.p || !skip_blocks(g))
                return broken(g, "the file ends in an extension", error);
            continue;
        }
        if (head.p[0] == 0) /* stray ends of blocks */
            continue;
        if (head.p[0] != 0x2c)
            return broken(g, "bytes that are no frame, extension or end", error);
        struct leat_bytes d = take(g, 9), bits = {NULL, 0};
        if (d.p && take_palette(g, d.p[8], &f->palette))
            bits = take(g, 1);
        if (!bits.p)
            return broken(g, "the file ends before the photo does", error);
        f->x = leat_bytes_number(d.p, 2, false);
        f->y = leat_bytes_number(d.p + 2, 2, false);
        f->w = leat_bytes_number(d.p + 4, 2, false);
        f->h = leat_bytes_number(d.p + 6, 2, false);
        f->interlaced = d.p[8] & 0x40;
        f->palette = f->palette.p ? f->palette : g->palette;
        f->code_bits = bits.p[0];
        f->data = g->at;
        if (f->code_bits < 1 || f->code_bits > 8)
            return broken(g, "codes of a number of bits that cannot be", error);
        skip_blocks(g); /* whether all codes are there is for the decoder to say */
        return LEAT_OK;
    }
}

/* The canvas is the file's, and as large as the first frame if that sticks out of it, as in Pillow. */
static int header(struct leat_bytes file, uint32_t frame, struct leat_whole_header *header, struct leat_error *error)
{
    struct gif g;
    struct frame f;
    int rc = begin(file, &g, error);
    for (uint32_t i = 0; !rc && i <= frame; i++) {
        rc = next_frame(&g, &f, error);
        if (rc == 1)
            rc = i ? leat_decode_no_frame("GIF", frame, i, error) : broken(&g, "it has no image", error);
        if (!rc && !i) {
            header->width = f.x + f.w > g.width ? f.x + f.w : g.width;
            header->height = f.y + f.h > g.height ? f.y + f.h : g.height;
        }
    }
    if (rc)
        return rc;
    rc = leat_decode_check_size("GIF", header->width, header->height, error);
    uint64_t pixels = (uint64_t)header->width * header->height;
    if (!rc && pixels > 1 << 20 && pixels / MOST_CODES > file.n) /* a code makes no more pixels than there are codes */
        rc = broken(&g, "the file ends before the photo does", error);
    header->channels = 4; /* a frame may leave pixels of the canvas free */
    header->kind = LEAT_IMAGE_GIF;
    header->bytes = pixels * (frame ? 5 : 1);
    return rc;
}

/* ---- LZW ------------------------------------------------------------------------------------- */

struct bits {
    struct leat_bytes file;
    size_t at, left; /* the next byte, and how many its block still has */
    uint32_t held;
    unsigned n;
};

/* The next code; false: there is no more. */
static bool next_code(struct bits *b, unsigned size, unsigned *code)
{
    while (b->n < size) {
        if (!b->left) {
            if (b->at >= b->file.n || !b->file.p[b->at])
                return false;
            b->left = b->file.p[b->at++];
        }
        if (b->at >= b->file.n)
            return false;
        b->held |= (uint32_t)b->file.p[b->at++] << b->n;
        b->n += 8;
        b->left--;
    }
    *code = b->held & ((1u << size) - 1);
    b->held >>= size;
    b->n -= size;
    return true;
}

/* Writes w * h indices to `out`. Each code is a code and one more index; the table grows by one with each code. */
static bool unpack(const struct gif *g, const struct frame *f, uint8_t *out)
{
    uint16_t before[MOST_CODES], length[MOST_CODES];
    uint8_t last[MOST_CODES], first[MOST_CODES];
    const unsigned clear = 1u << f->code_bits, end = clear + 1;
    unsigned next = end + 1, size = f->code_bits + 1u, code, old = MOST_CODES;
    struct bits bits = {.file = g->file, .at = f->data};
    uint64_t done = 0, n = (uint64_t)f->w * f->h;
    for (unsigned i = 0; i < clear; i++) {
        length[i] = 1;
        first[i] = last[i] = (uint8_t)i;
    }
    while (done < n) {
        if (!next_code(&bits, size, &code) || code == end)
            return false;
        if (code == clear) {
            next = end + 1;
            size = f->code_bits + 1u;
            old = MOST_CODES;
            continue;
        }
        if (code > next || (code == next && (old == MOST_CODES || next == MOST_CODES)) ||
            (old == MOST_CODES && code > clear))
            return false;
        if (old < MOST_CODES && next < MOST_CODES) {
            before[next] = (uint16_t)old;
            length[next] = (uint16_t)(length[old] + 1);
            first[next] = first[old];
            last[next] = first[code == next ? old : code];
            next++;
            if (next == 1u << size && size < 12)
                size++;
        }
        uint64_t at = done + length[code];
        done = at < n ? at : n;
        for (unsigned c = code, k = length[code]; k-- > 0; c = before[c])
            if (--at < n)
                out[at] = last[c];
        old = code;
    }
    return true;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void put_index(const struct frame *f, uint8_t *to, unsigned index)
{
    const uint8_t *p = f->palette.p ? f->palette.p + (size_t)index * 3 : NULL;
    unsigned opacity = f->has_transparent && index == f->transparent ? 0 : 255;
    if (!p)
        leat_whole_put(to, index, index, index, opacity); /* without a palette it is gray */
    else if ((index + 1u) * 3 <= f->palette.n)
        leat_whole_put(to, p[0], p[1], p[2], opacity);
    else
        leat_whole_put(to, 0, 0, 0, opacity);
}

/* Rows of an interlaced frame come in four passes. */
static uint32_t row_of(const struct frame *f, uint32_t i)
{
    static const uint8_t first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    for (unsigned pass = 0; f->interlaced && pass < 4; pass++) {
        uint32_t rows = f->h > first[pass] ? (f->h - first[pass] + step[pass] - 1) / step[pass] : 0;
        if (i < rows)
            return first[pass] + i * step[pass];
        i -= rows;
    }
    return i;
}

/* The part of a frame that lies on the canvas. */
static uint32_t seen(uint32_t at, uint32_t n, uint32_t size)
{
    return at >= size ? 0 : n < size - at ? n : size - at;
}

static void draw(const struct frame *f, bool is_first, const uint8_t *indices, const struct leat_whole_header *h,
                 const struct leat_whole_image *image)
{
    uint32_t w = seen(f->x, f->w, h->width);
    for (uint32_t i = 0; i < f->h; i++) {
        uint64_t y = (uint64_t)f->y + row_of(f, i);
        uint8_t *to = image->pixels + y * image->stride + (size_t)f->x * 4;
        const uint8_t *from = indices + (size_t)i * f->w;
        for (uint32_t x = 0; y < h->height && x < w; x++)
            if (is_first || !f->has_transparent || from[x] != f->transparent)
                put_index(f, to + (size_t)x * 4, from[x]);
    }
}

/* Copies the rectangle of a frame from one canvas to the other; `from` NULL: makes it transparent. */
static void copy(const struct frame *f, const struct leat_whole_header *h, uint8_t *to, const uint8_t *from)
{
    size_t bytes = (size_t)seen(f->x, f->w, h->width) * 4;
    for (uint32_t i = 0, n = seen(f->y, f->h, h->height); bytes && i < n; i++) {
        size_t at = ((size_t)(f->y + i) * h->width + f->x) * 4;
        if (from)
            memcpy(to + at, from + at, bytes);
        else
            memset(to + at, 0, bytes);
    }
}

static int decode_frames(struct gif *g, uint32_t wanted, bool all, const struct leat_whole_header *h,
                         const struct leat_whole_image *image, struct leat_decode_buffer *indices,
                         struct leat_decode_buffer *kept, struct leat_error *error)
{
    struct frame f, old = {0};
    size_t canvas = (size_t)h->width * h->height * 4;
    for (uint32_t i = 0;; i++, old = f) {
        int rc = next_frame(g, &f, error);
        if (rc)
            return rc == 1 ? LEAT_OK : rc;
        rc = f.w > h->width || f.h > h->height ? broken(g, "a frame is larger than the canvas", error)
                                               : leat_decode_reserve(indices, (uint64_t)f.w * f.h, 1, error);
        if (!rc && f.disposal == RESTORE && i && i < wanted && !kept->p)
            rc = leat_decode_reserve(kept, canvas, 1, error);
        if (!rc && !unpack(g, &f, indices->p))
            rc = broken(g, "a frame ends early, or has codes that make no sense", error);
        if (rc)
            return rc;
        if (i > wanted) {
            if (!all)
                return LEAT_OK;
            continue;
        }
        if (!i) {
            unsigned index = f.has_transparent ? f.transparent : 0;
            for (size_t p = 0; p < canvas; p += 4)
                put_index(&f, image->pixels + p, index);
        }
        if (old.disposal == CLEAR)
            copy(&old, h, image->pixels, NULL);
        if (old.disposal == RESTORE && kept->p)
            copy(&old, h, image->pixels, kept->p);
        if (f.disposal == RESTORE && !i) /* to nothing: it stays */
            f.disposal = LEAVE;
        if (f.disposal == RESTORE && i < wanted)
            copy(&f, h, kept->p, image->pixels);
        draw(&f, !i, indices->p, h, image);
        if (i == wanted && !all)
            return LEAT_OK;
    }
}

static int decode(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *found,
                  const struct leat_whole_image *image, struct leat_error *error)
{
    struct gif g;
    struct leat_decode_buffer indices = {0}, kept = {0};
    int rc = begin(file, &g, error);
    rc = rc ? rc : decode_frames(&g, frame, all, found, image, &indices, &kept, error);
    leat_decode_buffer_free(&indices);
    leat_decode_buffer_free(&kept);
    return rc;
}

LEAT_WHOLE_BACKEND(gif, "GIF", NULL, true, NULL, NULL);
