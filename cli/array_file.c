/*
 * .npy: a magic, a header that is a Python dictionary padded to 64 bytes, then the elements.
 */
#include "array_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/png.h"
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
    cli_say_unwritten(command, path, errno);
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

/* Writes `path` as a PNG. False after a message. */
static bool write_png(const struct cli_command *command, const char *path, const struct cli_png *png,
                      void (*row)(void *user, uint32_t y, uint8_t *out), void *user)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return cannot_write(command, path);
    bool good = cli_png_write(file, png, row, user);
    const int why = errno;
    if (fclose(file) && good)
        good = false;
    else
        errno = why;
    return good || cannot_write(command, path);
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

bool cli_photo_of_pixels(const uint8_t *data, uint64_t length, struct cli_photo *photo)
{
    if (length < 16 || memcmp(data, "\x89RAW", 4) != 0)
        return false;
    *photo = (struct cli_photo){.width = get_u32(data + 4),
                                .height = get_u32(data + 8),
                                .channels = data[12],
                                .orientation = data[13],
                                .pixels = data + 16};
    const uint64_t row = (uint64_t)photo->width * photo->channels;
    return row && (photo->channels == 1 || photo->channels == 3) && photo->height && photo->width <= 65535 &&
           photo->height <= 65535 && row * photo->height == length - 16;
}

static void photo_row(void *user, uint32_t y, uint8_t *out)
{
    const struct cli_photo *photo = user;
    const size_t bytes = (size_t)photo->width * photo->channels;
    memcpy(out, photo->pixels + y * bytes, bytes);
}

bool cli_write_photo(const struct cli_command *command, const char *path, const struct cli_photo *photo)
{
    const struct cli_png png = {photo->width, photo->height, photo->channels, photo->orientation};
    struct cli_photo copy = *photo;
    return write_png(command, path, &png, photo_row, &copy);
}

/* ---- contact sheets -------------------------------------------------------------------------- */

/* A batch of images seen as [row][y][x][channel]. */
struct images {
    const struct cli_array *array;
    unsigned y, x, c; /* which dimension is which */
    int64_t n, height, width, channels;
    int64_t columns; /* of the sheet */
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

static void sheet_row(void *user, uint32_t y, uint8_t *out)
{
    const struct images *images = user;
    const int64_t width = images->columns * images->width, row = y / images->height;
    for (int64_t x = 0; x < width; x++) {
        const int64_t n = row * images->columns + x / images->width;
        for (int64_t c = 0; c < images->channels; c++)
            *out++ = n < images->n
                         ? as_byte((pixel(images, n, y % images->height, x % images->width, c) - images->low[c]) *
                                   images->scale[c])
                         : 0;
    }
}

bool cli_write_contact_sheet(const struct cli_command *command, const char *path, const struct cli_array *array,
                             bool *written)
{
    struct images images;
    *written = false;
    if (!as_images(array, &images))
        return true;
    images.columns = (int64_t)ceil(sqrt((double)images.n));
    const int64_t rows = (images.n + images.columns - 1) / images.columns;
    const int64_t width = images.columns * images.width, height = rows * images.height;
    if (width > 65535 || height > 65535 || width * height * images.channels > (int64_t)1 << 30)
        return true;
    find_range(&images);
    const struct cli_png png = {(uint32_t)width, (uint32_t)height, (uint8_t)images.channels, 0};
    *written = write_png(command, path, &png, sheet_row, &images);
    return *written;
}
