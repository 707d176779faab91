/*
 * .npy: a magic, a header that is a Python dictionary padded to 64 bytes, then the elements.
 */
#include "array_file.h"

#include <errno.h>
#include <inttypes.h>
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

bool cli_write_photo(const struct cli_command *command, const char *path, const struct cli_photo *photo)
{
    const struct cli_png png = {photo->width, photo->height, photo->channels, photo->orientation, photo->pixels};
    FILE *file = fopen(path, "wb");
    if (!file)
        return cannot_write(command, path);
    bool good = cli_png_write(file, &png);
    const int why = errno;
    if (fclose(file) && good)
        good = false;
    else
        errno = why;
    return good || cannot_write(command, path);
}
