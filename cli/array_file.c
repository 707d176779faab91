/*
 * .npy: a magic, a header that is a Python dictionary padded to 64 bytes, then the elements.
 *
 * .png: signature, IHDR, eXIf where a photo is to be turned, IDATs, IEND. The IDATs are a zlib stream of stored blocks,
 * one to a chunk: these files are looked at once, and a deflate would cost a dependency.
 *
 *     IDAT = 78 01, (00 len ~len bytes)*, 01 len ~len bytes, adler32
 */
#include "array_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

struct cli_array cli_array_dense(enum leat_dtype dtype, unsigned ndim, const int64_t *shape, const void *data)
{
    struct cli_array array = {.dtype = dtype, .ndim = ndim, .data = data};
    int64_t stride = 1;
    for (unsigned d = ndim; d-- > 0;) {
        array.shape[d] = shape[d];
        array.strides[d] = stride;
        stride *= shape[d];
    }
    return array;
}

static bool cannot_write(const struct cli_command *command, const char *path)
{
    cli_say(command, "%s could not be written: %s.", path, strerror(errno));
    return false;
}

static uint64_t elements(const struct cli_array *array)
{
    uint64_t n = 1;
    for (unsigned d = 0; d < array->ndim; d++)
        n *= (uint64_t)array->shape[d];
    return n;
}

/* The next element in C order. `at` counts like an odometer. */
static int64_t step(const struct cli_array *array, int64_t *at, int64_t index)
{
    for (unsigned d = array->ndim; d-- > 0;) {
        index += array->strides[d];
        if (++at[d] < array->shape[d])
            return index;
        index -= at[d] * array->strides[d];
        at[d] = 0;
    }
    return index;
}

static void npy_header(const struct cli_array *array, char *out, size_t room, size_t *length)
{
    static const char *const codes[] = {"",    "|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8",
                                        "<i8", "<f2", "<f4", "<f4", "<f8", "|b1"}; /* in the order of leat_dtype */
    size_t used = 10;
    used += (size_t)snprintf(out + used, room - used, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                             codes[array->dtype]);
    for (unsigned d = 0; d < array->ndim; d++)
        used += (size_t)snprintf(out + used, room - used, "%" PRId64 "%s", array->shape[d],
                                 d && d + 1 == array->ndim ? "" : ",");
    used += (size_t)snprintf(out + used, room - used, "), }");
    while ((used + 1) % 64)
        out[used++] = ' ';
    out[used++] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((used - 10) & 255);
    out[9] = (char)((used - 10) >> 8);
    *length = used;
}

bool cli_write_npy(const struct cli_command *command, const char *path, const struct cli_array *array)
{
    char header[512];
    size_t length, size = leat_dtype_size(array->dtype);
    int64_t at[LEAT_MAX_DIMS] = {0}, index = 0;
    FILE *file = fopen(path, "wb");
    if (!file)
        return cannot_write(command, path);
    npy_header(array, header, sizeof header, &length);
    bool good = fwrite(header, 1, length, file) == length;
    for (uint64_t i = 0, n = elements(array); good && i < n; i++) {
        if (array->dtype == LEAT_BF16) {
            float wide = (float)cli_element(LEAT_BF16, array->data, (size_t)index);
            good = fwrite(&wide, sizeof wide, 1, file) == 1;
        } else {
            good = fwrite((const char *)array->data + (size_t)index * size, size, 1, file) == 1;
        }
        index = step(array, at, index);
    }
    good = !fclose(file) && good;
    return good || cannot_write(command, path);
}

/* ---- PNG ------------------------------------------------------------------------------------- */

struct png {
    FILE *file;
    uint32_t table[256], crc;
    uint32_t a, b;  /* Adler-32 */
    uint64_t left;  /* bytes of the picture still missing */
    unsigned block; /* bytes left in the block of deflate, which is a chunk */
};

static void put(struct png *png, const void *bytes, size_t n)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < n; i++)
        png->crc = png->table[(png->crc ^ byte[i]) & 255] ^ png->crc >> 8;
    fwrite(bytes, 1, n, png->file);
}

static void put_u32(struct png *png, uint32_t value)
{
    put(png, (uint8_t[]){(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value}, 4);
}

static void begin_chunk(struct png *png, const char *type, uint32_t length)
{
    put_u32(png, length);
    png->crc = 0xffffffffu;
    put(png, type, 4);
}

static void end_chunk(struct png *png)
{
    put_u32(png, ~png->crc);
}

/* Bytes of the picture, each row with its filter byte in front. */
static void put_pixels(struct png *png, const uint8_t *bytes, size_t n)
{
    while (n) {
        if (!png->block) {
            png->block = png->left < 65535 ? (unsigned)png->left : 65535;
            const unsigned inverse = ~png->block;
            begin_chunk(png, "IDAT", 5 + png->block);
            put(png,
                (uint8_t[]){png->left == png->block, (uint8_t)png->block, (uint8_t)(png->block >> 8), (uint8_t)inverse,
                            (uint8_t)(inverse >> 8)},
                5);
        }
        size_t part = n < png->block ? n : png->block;
        for (size_t i = 0; i < part; i++) {
            png->a = (png->a + bytes[i]) % 65521;
            png->b = (png->b + png->a) % 65521;
        }
        put(png, bytes, part);
        png->block -= (unsigned)part;
        png->left -= part;
        bytes += part;
        n -= part;
        if (!png->block)
            end_chunk(png);
    }
}

/* An EXIF block of one entry, the orientation (1 to 8). */
static void put_orientation(struct png *png, uint8_t orientation)
{
    const uint8_t exif[] = {'M', 'M', 0, 42, 0, 0, 0,           8, 0, 1, 1, 0x12, 0,
                            3,   0,   0, 0,  1, 0, orientation, 0, 0, 0, 0, 0,    0};
    begin_chunk(png, "eXIf", sizeof exif);
    put(png, exif, sizeof exif);
    end_chunk(png);
}

static void begin_png(struct png *png, uint32_t width, uint32_t height, unsigned channels, uint8_t orientation)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        png->table[i] = c;
    }
    put(png, "\x89PNG\r\n\x1a\n", 8);
    begin_chunk(png, "IHDR", 13);
    put_u32(png, width);
    put_u32(png, height);
    put(png, (uint8_t[]){8, channels == 3 ? 2 : 0, 0, 0, 0}, 5);
    end_chunk(png);
    if (orientation > 1)
        put_orientation(png, orientation);
    png->left = (uint64_t)height * ((uint64_t)width * channels + 1);
    png->a = 1;
    begin_chunk(png, "IDAT", 2);
    put(png, "\x78\x01", 2);
    end_chunk(png);
}

static void end_png(struct png *png)
{
    begin_chunk(png, "IDAT", 4);
    put_u32(png, png->b << 16 | png->a);
    end_chunk(png);
    begin_chunk(png, "IEND", 0);
    end_chunk(png);
}

/* Ends the file. False after a message. */
static bool close_png(struct png *png, const struct cli_command *command, const char *path)
{
    end_png(png);
    bool good = !ferror(png->file);
    good = !fclose(png->file) && good;
    return good || cannot_write(command, path);
}

bool cli_write_photo(const struct cli_command *command, const char *path, const struct cli_photo *photo)
{
    struct png png = {.file = fopen(path, "wb")};
    const size_t row = (size_t)photo->width * photo->channels;
    if (!png.file)
        return cannot_write(command, path);
    begin_png(&png, photo->width, photo->height, photo->channels, photo->orientation);
    for (uint32_t y = 0; y < photo->height; y++) {
        put_pixels(&png, (const uint8_t[]){0}, 1); /* no filter */
        put_pixels(&png, photo->pixels + y * row, row);
    }
    return close_png(&png, command, path);
}

/* ---- contact sheets -------------------------------------------------------------------------- */

/* A batch of images seen as [row][y][x][channel]. */
struct images {
    const struct cli_array *array;
    unsigned y, x, c; /* which dimension is which */
    int64_t n, height, width, channels;
    double low[3], scale[3];
};

static bool as_images(const struct cli_array *array, struct images *out)
{
    if (array->ndim != 4 || array->dtype == LEAT_BOOL)
        return false;
    const int64_t *s = array->shape;
    *out = (struct images){.array = array, .n = s[0], .y = 2, .x = 3, .c = 1};
    if (s[1] != 1 && s[1] != 3) {
        if (s[3] != 1 && s[3] != 3)
            return false;
        out->y = 1;
        out->x = 2;
        out->c = 3;
    }
    out->height = s[out->y];
    out->width = s[out->x];
    out->channels = s[out->c];
    return out->n > 0 && out->height > 0 && out->width > 0 && out->height <= 4096 && out->width <= 4096 &&
           out->n <= 4096;
}

static double pixel(const struct images *images, int64_t n, int64_t y, int64_t x, int64_t c)
{
    const int64_t *s = images->array->strides;
    return cli_element(images->array->dtype, images->array->data,
                       (size_t)(n * s[0] + y * s[images->y] + x * s[images->x] + c * s[images->c]));
}

static void find_range(struct images *images)
{
    for (int64_t c = 0; c < images->channels; c++) {
        double low = INFINITY, high = -INFINITY;
        images->low[c] = 0;
        images->scale[c] = 1;
        if (images->array->dtype == LEAT_U8)
            continue;
        for (int64_t n = 0; n < images->n; n++)
            for (int64_t y = 0; y < images->height; y++)
                for (int64_t x = 0; x < images->width; x++) {
                    double v = pixel(images, n, y, x, c);
                    low = v < low ? v : low;
                    high = v > high ? v : high;
                }
        images->low[c] = isfinite(low) ? low : 0;
        images->scale[c] = isfinite(high - low) && high > low ? 255 / (high - low) : 1;
    }
}

static uint8_t as_byte(double v)
{
    return v > 0 ? v < 255 ? (uint8_t)(v + 0.5) : 255 : 0;
}

bool cli_write_contact_sheet(const struct cli_command *command, const char *path, const struct cli_array *array,
                             bool *written)
{
    struct images images;
    *written = false;
    if (!as_images(array, &images))
        return true;
    int64_t columns = (int64_t)ceil(sqrt((double)images.n)), rows = (images.n + columns - 1) / columns;
    const int64_t width = columns * images.width, height = rows * images.height;
    if (width > 65535 || height > 65535 || width * height * images.channels > (int64_t)1 << 30)
        return true;
    const size_t line_bytes = (size_t)(width * images.channels) + 1;
    uint8_t *line = malloc(line_bytes);
    struct png png = {.file = line ? fopen(path, "wb") : NULL};
    if (!png.file) {
        free(line);
        return cannot_write(command, path);
    }
    find_range(&images);
    begin_png(&png, (uint32_t)width, (uint32_t)height, (unsigned)images.channels, 1);
    for (int64_t y = 0; y < height; y++) {
        memset(line, 0, line_bytes);
        for (int64_t x = 0; x < width; x++) {
            int64_t n = y / images.height * columns + x / images.width;
            for (int64_t c = 0; n < images.n && c < images.channels; c++)
                line[1 + x * images.channels + c] = as_byte(
                    (pixel(&images, n, y % images.height, x % images.width, c) - images.low[c]) * images.scale[c]);
        }
        put_pixels(&png, line, line_bytes);
    }
    free(line);
    *written = close_png(&png, command, path);
    return *written;
}
