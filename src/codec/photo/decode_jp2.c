/*
 * JPEG 2000 by OpenJPEG, in the container (JP2) and as it is (a codestream). Size, components and tiles are read here:
 * before the library sees a file, its allocations are known, and packing knows sizes without it.
 *
 *     JP2          boxes (length 4, type 4, body): jp2h holds boxes about colours, jp2c is the codestream
 *     codestream   SOC, then SIZ: marker 2, length 2, capabilities 2, reference grid (image to, image from, size and
 *                  origin of tiles: x and y of 4 bytes each), number of components 2, of each: bits - 1 (and 128 if
 *                  signed), its steps on the grid x and y
 *
 * A component with steps above 1 is repeated to the size of the image, as Pillow does it. A sample of p bits becomes v
 * * 255 / (2^p - 1), rounded; for 16 bits v * 65535 / (2^p - 1).
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "codec/photo/decode_whole.h"
#include "codec/photo/icc.h"

#define NAME "JPEG 2000"
/* For a sample: 4 bytes, and the input of a tile's decoding. Measured with 12 million pixels of 3 components: 4.2. */
#define SAMPLE_BYTES 6u
/* The memory of OpenJPEG for a tile and a component of it, at least. */
#define TILE_BYTES 8192u
/* The shortest tile: SOT and SOD. */
#define TILE_MARKERS 14u

static bool is_container(struct leat_bytes file)
{
    return LEAT_BYTES_START(file, "\0\0\0\x0cjP  \r\n\x87\n");
}

/* The body of the first box of a type; n 0: there is none. */
static struct leat_bytes box_of(struct leat_bytes boxes, const char *type)
{
    uint64_t at = 0;
    for (;;) {
        struct leat_bytes head = leat_bytes_part(boxes, at, 8);
        if (!head.p)
            return head;
        uint64_t length = leat_bytes_number(head.p, 4, true), begin = 8;
        if (length == 1) {
            struct leat_bytes large = leat_bytes_part(boxes, at + 8, 8);
            if (!large.p)
                return large;
            length = (uint64_t)leat_bytes_number(large.p, 4, true) << 32 | leat_bytes_number(large.p + 4, 4, true);
            begin = 16;
        } else if (!length) {
            length = boxes.n - at;
        }
        if (length < begin || length > boxes.n - at) /* cut off: the present bytes */
            length = boxes.n - at;
        if (!memcmp(head.p + 4, type, 4) || length < begin)
            return leat_bytes_part(boxes, at + begin, length < begin ? boxes.n : length - begin);
        at += length;
    }
}

/* A palette gives channels to a single component. */
static void read_palette(struct leat_bytes file, struct leat_whole_header *header)
{
    const struct leat_bytes palette = box_of(box_of(file, "jp2h"), "pclr");
    if (palette.n < 3 || palette.n < 3 + (size_t)palette.p[2] || palette.p[2] < 1 || palette.p[2] > 4)
        return;
    header->channels = palette.p[2];
    for (unsigned i = 0; i < palette.p[2]; i++)
        header->deep = header->deep || (palette.p[3 + i] & 127) > 7;
}

/* The profile of the first box of colours; those behind it do not count. Its methods 2 and 3 are a profile. */
static struct leat_bytes profile_of(struct leat_bytes file)
{
    const struct leat_bytes colours = is_container(file) ? box_of(box_of(file, "jp2h"), "colr") : file;
    const bool has = is_container(file) && colours.n > 3 && (colours.p[0] == 2 || colours.p[0] == 3);
    return has ? leat_bytes_part(colours, 3, colours.n - 3) : (struct leat_bytes){NULL, 0};
}

static int profile(struct leat_bytes file, uint32_t frame, struct leat_decode_buffer *room, struct leat_bytes *found,
                   struct leat_error *error)
{
    *found = profile_of(file);
    return LEAT_OK;
}

static uint64_t count_tiles(const uint8_t *siz, unsigned axis)
{
    const uint64_t end = leat_bytes_number(siz + 6 + axis, 4, true), size = leat_bytes_number(siz + 22 + axis, 4, true);
    const uint64_t from = leat_bytes_number(siz + 30 + axis, 4, true);
    return size && from < end ? (end - from + size - 1) / size : 0;
}

static int header(struct leat_bytes file, uint32_t frame, struct leat_whole_header *header, struct leat_error *error)
{
    const struct leat_bytes stream = is_container(file) ? box_of(file, "jp2c") : file;
    const struct leat_bytes siz = leat_bytes_part(stream, 2, 40);
    if (!siz.p || !LEAT_BYTES_START(stream, "\xff\x4f\xff\x51"))
        return leat_decode_fail(error, NAME, -1, file.n, "no header (SIZ) where one should be");
    const unsigned components = leat_bytes_number(siz.p + 38, 2, true);
    const struct leat_bytes bits = leat_bytes_part(stream, 42, (uint64_t)components * 3);
    if (components < 1 || components > 4)
        return leat_fail(error, LEAT_E_DECODE, NAME ": %u components; leat reads 1 to 4: convert the photo",
                         components);
    const uint32_t x0 = leat_bytes_number(siz.p + 14, 4, true), y0 = leat_bytes_number(siz.p + 18, 4, true);
    const uint32_t x1 = leat_bytes_number(siz.p + 6, 4, true), y1 = leat_bytes_number(siz.p + 10, 4, true);
    header->width = x1 > x0 ? x1 - x0 : 0;
    header->height = y1 > y0 ? y1 - y0 : 0;
    int rc = leat_decode_check_size(NAME, header->width, header->height, error);
    if (rc)
        return rc;
    const uint64_t across = count_tiles(siz.p, 0), down = count_tiles(siz.p, 4);
    if (!bits.p || !across || !down)
        return leat_decode_fail(error, NAME, -1, file.n, "the header (SIZ) makes no sense");
    if (across > 65535 || down > 65535 || across * down > file.n / TILE_MARKERS)
        return leat_decode_fail(error, NAME, (int64_t)file.n, file.n, "the file ends before the photo does");
    header->channels = (uint8_t)components;
    header->kind = LEAT_IMAGE_JP2;
    for (unsigned c = 0; c < components; c++)
        header->deep = header->deep || (bits.p[3 * c] & 127) > 7;
    if (is_container(file) && components == 1)
        read_palette(file, header);
    header->inks = components == 4 && leat_icc_space(profile_of(file)) == LEAT_ICC_CMYK;
    header->bytes = (uint64_t)header->width * header->height * header->channels * SAMPLE_BYTES +
                    across * down * (components + 1) * TILE_BYTES;
    return LEAT_OK;
}

#ifdef LEAT_HAVE_JP2
#include <openjpeg.h>

#define FUNCTIONS(X)                                                                                                   \
    X(opj_create_decompress)                                                                                           \
    X(opj_decode)                                                                                                      \
    X(opj_destroy_codec)                                                                                               \
    X(opj_end_decompress)                                                                                              \
    X(opj_image_destroy)                                                                                               \
    X(opj_read_header)                                                                                                 \
    X(opj_set_default_decoder_parameters)                                                                              \
    X(opj_set_error_handler)                                                                                           \
    X(opj_setup_decoder)                                                                                               \
    X(opj_stream_create)                                                                                               \
    X(opj_stream_destroy)                                                                                              \
    X(opj_stream_set_read_function)                                                                                    \
    X(opj_stream_set_seek_function)                                                                                    \
    X(opj_stream_set_skip_function)                                                                                    \
    X(opj_stream_set_user_data)                                                                                        \
    X(opj_stream_set_user_data_length)
static struct functions {
    FUNCTIONS(LEAT_LIBRARY_MEMBER)
} opj;
static const struct leat_library_symbol symbols[] = {FUNCTIONS(LEAT_LIBRARY_SYMBOL){NULL, 0}};
static const char *const names[] = {"libopenjp2.so.7", NULL};
static struct leat_library library = {
    NAME, names, "apt install libopenjp2-7, and start again; or convert the photo to PNG", symbols, &opj, 0};

/* ---- bytes and words ------------------------------------------------------------------------- */

struct input {
    struct leat_bytes file;
    size_t at;
    char words[160]; /* of the first error */
};

static OPJ_SIZE_T read_bytes(void *to, OPJ_SIZE_T n, void *user)
{
    struct input *in = user;
    const size_t left = in->file.n - in->at;
    if (!left)
        return (OPJ_SIZE_T)-1;
    n = n < left ? n : left;
    memcpy(to, in->file.p + in->at, n);
    in->at += n;
    return n;
}

static OPJ_OFF_T skip_bytes(OPJ_OFF_T n, void *user)
{
    struct input *in = user;
    if (n < 0 || (uint64_t)n > in->file.n - in->at)
        return -1;
    in->at += (size_t)n;
    return n;
}

static OPJ_BOOL seek_bytes(OPJ_OFF_T at, void *user)
{
    struct input *in = user;
    if (at < 0 || (uint64_t)at > in->file.n)
        return OPJ_FALSE;
    in->at = (size_t)at;
    return OPJ_TRUE;
}

static void keep_words(const char *words, void *user)
{
    struct input *in = user;
    if (!in->words[0])
        snprintf(in->words, sizeof in->words, "%.*s", (int)strcspn(words, "\n"), words);
}

/* ---- pixels ---------------------------------------------------------------------------------- */

/* The components that are the colours and the opacity, and the meaning of the colours. */
struct layout {
    unsigned colours, alpha; /* 1 or 3; number of the component or, if there is none, 4 */
    bool ycc, cmyk, inks;    /* inks: as they are */
};

static bool find_layout(const opj_image_t *image, bool cmyk, struct layout *l)
{
    const unsigned n = image->numcomps;
    *l = (struct layout){n < 3 ? 1 : 3, n == 2 || n == 4 ? n - 1 : 4, image->color_space == OPJ_CLRSPC_SYCC && n > 2,
                         (cmyk || image->color_space == OPJ_CLRSPC_CMYK) && n == 4, false};
    for (unsigned c = 0; c < n; c++)
        if (image->comps[c].alpha && c >= l->colours)
            l->alpha = c;
    if (l->cmyk)
        l->alpha = 4;
    return image->color_space != OPJ_CLRSPC_EYCC;
}

/* The sample of a component at a place of the reference grid, of 0 to `full`. */
static int64_t sample(const opj_image_comp_t *c, uint32_t x, const OPJ_INT32 *row, int64_t full)
{
    const uint32_t at = x / c->dx > c->x0 ? x / c->dx - c->x0 : 0;
    const int64_t most = ((int64_t)1 << c->prec) - 1;
    int64_t v = row[at < c->w ? at : c->w - 1] + (c->sgnd ? (int64_t)1 << (c->prec - 1) : 0);
    v = v < 0 ? 0 : v > most ? most : v;
    return (v * full * 2 + most) / (2 * most);
}

static uint16_t clamp(int64_t v, int64_t full)
{
    return (uint16_t)(v < 0 ? 0 : v > full ? full : v);
}

static void colours_of(const struct layout *l, const int64_t v[4], int64_t full, uint16_t out[4])
{
    int64_t rgb[3] = {v[0], l->colours == 3 ? v[1] : v[0], l->colours == 3 ? v[2] : v[0]};
    if (l->ycc) {
        const int64_t cb = v[1] - (full + 1) / 2, cr = v[2] - (full + 1) / 2;
        rgb[0] = v[0] + ((91881 * cr + 32768) >> 16);
        rgb[1] = v[0] + ((-22554 * cb - 46802 * cr + 32768) >> 16);
        rgb[2] = v[0] + ((116130 * cb + 32768) >> 16);
    }
    for (unsigned c = 0; c < 3; c++)
        out[c] = clamp(l->inks ? v[c] : l->cmyk ? ((full - v[c]) * (full - v[3]) + full / 2) / full : rgb[c], full);
    out[3] = clamp(l->inks ? v[3] : l->alpha < 4 ? v[l->alpha] : full, full);
}

static void put_row(const opj_image_t *from, const struct layout *l, uint32_t y, uint32_t width,
                    const struct leat_whole_image *image)
{
    const int64_t full = image->wide ? 65535 : 255;
    const OPJ_INT32 *rows[4];
    uint8_t *line = image->pixels + y * image->stride;
    for (unsigned i = 0; i < from->numcomps; i++) {
        const opj_image_comp_t *c = &from->comps[i];
        const uint32_t at = (from->y0 + y) / c->dy > c->y0 ? (from->y0 + y) / c->dy - c->y0 : 0;
        rows[i] = c->data + (size_t)(at < c->h ? at : c->h - 1) * c->w;
    }
    for (size_t x = 0; x < width; x++) {
        int64_t v[4];
        uint16_t out[4];
        for (unsigned i = 0; i < from->numcomps; i++)
            v[i] = sample(&from->comps[i], from->x0 + (uint32_t)x, rows[i], full);
        colours_of(l, v, full, out);
        if (image->wide)
            memcpy(line + x * 8, out, 8);
        else
            leat_whole_put(line + x * 4, out[0], out[1], out[2], out[3]);
    }
}

static int put_image(const opj_image_t *from, const struct leat_whole_header *found,
                     const struct leat_whole_image *image, size_t length, struct leat_error *error)
{
    struct layout layout;
    bool sound = from->numcomps >= 1 && from->numcomps <= 4 && (from->numcomps == 4 || !image->inks) &&
                 from->x1 - from->x0 == found->width && from->y1 - from->y0 == found->height;
    for (unsigned c = 0; sound && c < from->numcomps; c++)
        sound = from->comps[c].data && from->comps[c].w && from->comps[c].h && from->comps[c].dx && from->comps[c].dy &&
                from->comps[c].prec >= 1 && from->comps[c].prec <= 31;
    if (!sound)
        return leat_decode_fail(error, NAME, -1, length, "its components are not those that its header says");
    const bool known = find_layout(from, found->inks, &layout);
    layout.inks = image->inks;
    if (!known)
        return leat_fail(error, LEAT_E_DECODE, NAME ": colours in e-sYCC, which leat does not read: convert the photo");
    for (uint32_t y = 0; y < found->height; y++)
        put_row(from, &layout, y, found->width, image);
    return LEAT_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static int decode(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *found,
                  const struct leat_whole_image *image, struct leat_error *error)
{
    struct input in = {.file = file};
    opj_dparameters_t parameters;
    opj_image_t *decoded = NULL;
    int rc = leat_library_load(&library, error);
    if (rc)
        return rc;
    opj_codec_t *codec = opj.opj_create_decompress(is_container(file) ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K);
    opj_stream_t *stream = opj.opj_stream_create(1 << 16, OPJ_TRUE);
    if (!codec || !stream) {
        rc = leat_fail(error, LEAT_E_NOMEM, "memory to decode a photo could not be had");
        goto out;
    }
    opj.opj_stream_set_user_data(stream, &in, NULL);
    opj.opj_stream_set_user_data_length(stream, file.n);
    opj.opj_stream_set_read_function(stream, read_bytes);
    opj.opj_stream_set_skip_function(stream, skip_bytes);
    opj.opj_stream_set_seek_function(stream, seek_bytes);
    opj.opj_set_error_handler(codec, keep_words, &in);
    opj.opj_set_default_decoder_parameters(&parameters);
    if (!opj.opj_setup_decoder(codec, &parameters) || !opj.opj_read_header(stream, codec, &decoded) ||
        !opj.opj_decode(codec, stream, decoded) || !opj.opj_end_decompress(codec, stream))
        rc = leat_decode_fail(error, NAME, -1, file.n, in.words[0] ? in.words : "the data are corrupt");
    else
        rc = put_image(decoded, found, image, file.n, error);
out:
    if (decoded)
        opj.opj_image_destroy(decoded);
    if (stream)
        opj.opj_stream_destroy(stream);
    if (codec)
        opj.opj_destroy_codec(codec);
    return rc;
}
#else
static int decode(struct leat_bytes file, uint32_t frame, bool all, const struct leat_whole_header *found,
                  const struct leat_whole_image *image, struct leat_error *error)
{
    return leat_library_not_built(NAME, "libopenjp2-7-dev", error);
}
#endif

LEAT_WHOLE_BACKEND(jp2, NAME, NULL, false, NULL, profile);
