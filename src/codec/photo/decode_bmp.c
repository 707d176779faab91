/*
 * BMP: 1 to 32 bits a pixel, palettes, bit fields, RLE, bottom-up and top-down; headers of Windows and OS/2.
 *
 *     14 bytes      "BM", size, 4 bytes, where the pixels begin
 *     12, 40 .. 124 the header: width, height (below 0: top-down), planes, bits, compression, ..., colours used, ..,
 *                   masks of the bit fields (in headers of 40 bytes: behind it)
 *     palette       B, G, R (0): 3 bytes each behind a header of 12, else 4
 *     pixels        rows of a multiple of 4 bytes
 *
 * Sizes of the file and the pixels in the header, the resolution and the number of planes are often wrong and not used,
 * as in other decoders. Indices behind the palette are black, and so are pixels that RLE leaves out.
 */
#include "base/error.h"
#include "codec/photo/decode_whole.h"

enum { RGB = 0, RLE8 = 1, RLE4 = 2, FIELDS = 3, ALPHA_FIELDS = 6 };

struct bmp {
    uint32_t width, height, bits, compression, colours;
    bool top_down;
    struct leat_bytes palette; /* of `entry` bytes each */
    unsigned entry;
    uint64_t pixels; /* the start of the pixels */
    uint64_t row;    /* bytes of one, if they are not compressed */
    uint32_t mask[4];
};

static int broken(struct leat_bytes file, int64_t at, const char *words, struct leat_error *error)
{
    return leat_decode_fail(error, "BMP", at, file.n, words);
}

static int32_t signed_of(uint32_t v)
{
    return (int32_t)v;
}

static void read_masks(struct leat_bytes file, uint32_t size, struct bmp *b)
{
    static const uint32_t of_16[] = {0x7c00, 0x3e0, 0x1f, 0}, of_32[] = {0xff0000, 0xff00, 0xff, 0};
    memcpy(b->mask, b->bits == 16 ? of_16 : of_32, sizeof b->mask);
    unsigned n = b->compression == ALPHA_FIELDS || (b->compression == FIELDS && size >= 56) ? 4 : 3;
    struct leat_bytes masks = leat_bytes_part(file, 14 + 40, 4 * n);
    for (unsigned c = 0; masks.p && c < n && (b->compression == FIELDS || b->compression == ALPHA_FIELDS); c++)
        b->mask[c] = leat_bytes_number(masks.p + 4 * c, 4, false);
}

static int read_header(struct leat_bytes file, struct bmp *b, struct leat_error *error)
{
    *b = (struct bmp){0};
    struct leat_bytes start = leat_bytes_part(file, 0, 18);
    uint32_t size = start.p ? leat_bytes_number(start.p + 14, 4, false) : 0;
    struct leat_bytes h = leat_bytes_part(file, 14, size);
    if (size != 12 && (size < 40 || size > 124))
        return broken(file, 14, "its header is of no known size", error);
    if (!h.p)
        return broken(file, (int64_t)file.n, "the file ends in its header", error);
    bool old = size == 12;
    b->width = leat_bytes_number(h.p + 4, old ? 2 : 4, false);
    b->height = leat_bytes_number(h.p + (old ? 6 : 8), old ? 2 : 4, false);
    b->bits = leat_bytes_number(h.p + (old ? 10 : 14), 2, false);
    b->compression = old ? RGB : leat_bytes_number(h.p + 16, 4, false);
    b->colours = old ? 0 : leat_bytes_number(h.p + 32, 4, false);
    b->top_down = !old && signed_of(b->height) < 0;
    b->height = b->top_down ? 0u - b->height : b->height;
    b->entry = old ? 3 : 4;
    read_masks(file, size, b);
    if (b->bits != 1 && b->bits != 2 && b->bits != 4 && b->bits != 8 && b->bits != 16 && b->bits != 24 && b->bits != 32)
        return broken(file, 28, "its header has a number of bits a pixel that does not exist", error);
    bool fields = b->compression == FIELDS || b->compression == ALPHA_FIELDS;
    if (b->compression && !(b->compression == RLE8 && b->bits == 8) && !(b->compression == RLE4 && b->bits == 4) &&
        !(fields && (b->bits == 16 || b->bits == 32)))
        return leat_fail(error, LEAT_E_DECODE,
                         "BMP: compression %u of %u bits a pixel, which leat does not decode: convert the photo",
                         b->compression, b->bits);
    if (b->colours > 65536)
        return broken(file, 46, "its header says more colours than a palette has", error);
    uint64_t at = 14 + (uint64_t)size + (size == 40 && fields ? (b->compression == ALPHA_FIELDS ? 16 : 12) : 0);
    b->pixels = leat_bytes_number(file.p + 10, 4, false);
    if (b->bits <= 8) {
        uint64_t n = b->colours ? b->colours : UINT64_C(1) << b->bits;
        n = n > 256 ? 256 : n;
        uint64_t room = at < file.n ? (file.n - at) / b->entry : 0;
        if (b->pixels > at && (b->pixels - at) / b->entry < room)
            room = (b->pixels - at) / b->entry;
        b->palette = leat_bytes_part(file, at, (n < room ? n : room) * b->entry);
    }
    if (b->pixels < at)
        b->pixels = at + b->palette.n;
    b->row = ((uint64_t)b->width * b->bits + 31) / 32 * 4;
    return LEAT_OK;
}

static int header(struct leat_bytes file, uint32_t frame, struct leat_whole_header *header, struct leat_error *error)
{
    struct bmp b;
    int rc = read_header(file, &b, error);
    rc = rc ? rc : leat_decode_check_size("BMP", b.width, b.height, error);
    if (rc)
        return rc;
    bool packed = b.compression == RLE8 || b.compression == RLE4;
    /* The last row need not be filled up. RLE may leave out any pixels: four bytes go 255 to the right and 255 up. Only
     * large ones must meet this, so that a few bytes cannot claim all memory. */
    uint64_t pixels = (uint64_t)b.width * b.height,
             needs = packed ? (pixels > 1 << 20 ? pixels / (255 * 64) : 2)
                            : b.row * (b.height - 1) + ((uint64_t)b.width * b.bits + 7) / 8;
    if (b.pixels > file.n || needs > file.n - b.pixels)
        return broken(file, (int64_t)file.n, "the file ends before the photo does", error);
    header->width = b.width;
    header->height = b.height;
    header->channels = b.mask[3] ? 4 : 3;
    header->kind = LEAT_IMAGE_BMP;
    return LEAT_OK;
}

static void put_index(const struct bmp *b, uint8_t *to, unsigned index)
{
    const struct leat_bytes colour = leat_bytes_part(b->palette, (uint64_t)index * b->entry, 3);
    if (colour.p)
        leat_whole_put(to, colour.p[2], colour.p[1], colour.p[0], 255);
    else
        leat_whole_put(to, 0, 0, 0, 255);
}

/* The bits under a mask, as 0 to 255; 255 under none, which is that of opacity. */
static unsigned field(uint32_t v, uint32_t mask, unsigned none)
{
    if (!mask)
        return none;
    unsigned shift = (unsigned)__builtin_ctz(mask);
    return (unsigned)((uint64_t)((v & mask) >> shift) * 255 / (mask >> shift));
}

static void put_row(const struct bmp *b, const uint8_t *from, uint8_t *to)
{
    for (uint32_t x = 0; x < b->width; x++, to += 4) {
        if (b->bits <= 8) {
            uint64_t bit = (uint64_t)x * b->bits;
            put_index(b, to, from[bit / 8] >> (8 - b->bits - bit % 8) & ((1u << b->bits) - 1));
        } else if (b->bits == 24) {
            leat_whole_put(to, from[3 * (size_t)x + 2], from[3 * (size_t)x + 1], from[3 * (size_t)x], 255);
        } else {
            uint32_t v = leat_bytes_number(from + (size_t)x * (b->bits / 8), b->bits / 8, false);
            leat_whole_put(to, field(v, b->mask[0], 0), field(v, b->mask[1], 0), field(v, b->mask[2], 0),
                           field(v, b->mask[3], 255));
        }
    }
}

/*
 * RLE: pairs of bytes. (n, index): n pixels; (0, 0): the next row, (0, 1): the end, (0, 2, right, up): a jump;
 * (0, n): n indices follow, filled up to an even number of bytes. With 4 bits two indices stand in a byte and
 * alternate.
 */
static int decode_rle(const struct bmp *b, struct leat_bytes file, const struct leat_whole_image *image,
                      struct leat_error *error)
{
    uint64_t at = b->pixels, x = 0, y = 0;
    const bool four = b->bits == 4;
    for (uint32_t row = 0; row < b->height; row++)
        for (uint32_t i = 0; i < b->width; i++)
            put_index(b, image->pixels + row * image->stride + (size_t)i * 4, 0);
    for (;;) {
        struct leat_bytes pair = leat_bytes_part(file, at, 2);
        if (!pair.p)
            return y + (x >= b->width) >= b->height
                       ? LEAT_OK
                       : broken(file, (int64_t)file.n, "the file ends before the photo does", error);
        at += 2;
        unsigned n = pair.p[0], code = pair.p[1];
        struct leat_bytes indices = {pair.p + 1, 1};
        if (!n && code == 1)
            return LEAT_OK;
        if (!n && code == 0) {
            x = 0;
            y++;
            continue;
        }
        if (!n && code == 2) {
            struct leat_bytes jump = leat_bytes_part(file, at, 2);
            if (!jump.p)
                return broken(file, (int64_t)file.n, "the file ends before the photo does", error);
            at += 2;
            x += jump.p[0];
            y += jump.p[1];
            continue;
        }
        bool literal = !n;
        if (literal) {
            n = code;
            uint64_t bytes = four ? (n + 1) / 2 : n;
            indices = leat_bytes_part(file, at, bytes);
            if (!indices.p)
                return broken(file, (int64_t)file.n, "the file ends before the photo does", error);
            at += bytes + (bytes & 1);
        }
        for (unsigned i = 0; i < n; i++, x++) {
            if (x >= b->width && y + 1 < b->height) { /* some writers go on without saying that a row has ended */
                x = 0;
                y++;
            }
            if (x >= b->width || y >= b->height)
                return broken(file, (int64_t)at, "its data go on behind its last row", error);
            unsigned index = four ? indices.p[literal ? i / 2 : 0] >> (i & 1 ? 0 : 4) & 15 : indices.p[literal ? i : 0];
            uint64_t row = b->top_down ? y : b->height - 1 - y;
            put_index(b, image->pixels + row * image->stride + (size_t)x * 4, index);
        }
    }
}

static int decode(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *found,
                  const struct leat_whole_image *image, struct leat_error *error)
{
    struct bmp b;
    int rc = read_header(file, &b, error);
    if (rc || b.compression == RLE8 || b.compression == RLE4)
        return rc ? rc : decode_rle(&b, file, image, error);
    for (uint32_t y = 0; y < b.height; y++) {
        uint64_t row = b.top_down ? y : b.height - 1 - y;
        put_row(&b, file.p + b.pixels + (uint64_t)y * b.row, image->pixels + row * image->stride);
    }
    return LEAT_OK;
}

LEAT_WHOLE_BACKEND(bmp, "BMP", NULL, false, NULL, NULL);
