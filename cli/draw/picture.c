/* Photos are decoded and made smaller by the library's own operators: the picture shows what a training sees. */
#include "draw/picture.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

void cli_picture_clear(struct cli_picture *picture)
{
    free(picture->pixels);
    *picture = (struct cli_picture){0};
}

static int fail(struct leat_error *error, int code, const char *message)
{
    *error = (struct leat_error){.code = code, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
    snprintf(error->message, sizeof error->message, "%s", message);
    return code;
}

static int allocate(struct cli_picture *picture, uint32_t width, uint32_t height, struct leat_error *error)
{
    *picture = (struct cli_picture){width, height, malloc((size_t)width * height * 3)};
    return picture->pixels ? LEAT_OK : fail(error, LEAT_E_NOMEM, "No memory for a picture.");
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The order of the axes; c is SIZE_MAX if there is none. */
struct axes {
    unsigned y, x, c;
    int64_t channels;
};
#define NO_AXIS 255u

static bool colours(int64_t n)
{
    return n == 1 || n == 3 || n == 4;
}

static bool find_axes(enum leat_layout layout, unsigned ndim, const int64_t *shape, struct axes *out)
{
    if (ndim == 2)
        *out = (struct axes){0, 1, NO_AXIS, 1};
    else if (ndim == 3 && (layout == LEAT_LAYOUT_CHW || (layout == LEAT_LAYOUT_NONE && colours(shape[0]))))
        *out = (struct axes){1, 2, 0, shape[0]};
    else if (ndim == 3 && (layout == LEAT_LAYOUT_HWC || colours(shape[2])))
        *out = (struct axes){0, 1, 2, shape[2]};
    else
        return false;
    return true;
}

bool cli_pixels_fit(enum leat_layout layout, unsigned ndim, const int64_t *shape)
{
    struct axes axes;
    if (!find_axes(layout, ndim, shape, &axes) || axes.channels < 1)
        return false;
    const int64_t least = layout ? 1 : 8; /* a table of few columns is no image */
    return shape[axes.y] >= least && shape[axes.x] >= least && shape[axes.y] <= 65535 && shape[axes.x] <= 65535;
}

static double number(const struct cli_pixels *p, const struct axes *axes, int64_t y, int64_t x, int64_t c)
{
    int64_t at = y * p->strides[axes->y] + x * p->strides[axes->x];
    if (axes->c != NO_AXIS)
        at += c * p->strides[axes->c];
    const double v = cli_element(p->dtype, p->data, (size_t)at);
    return p->normalized ? v * p->std[c] + p->mean[c] : v;
}

/* The numbers that are black and white. */
static void find_range(const struct cli_pixels *p, const struct axes *axes, double *low, double *high)
{
    *low = 0;
    *high = p->dtype == LEAT_U8 ? 255 : p->dtype == LEAT_U16 ? 65535 : 1;
    if (p->dtype == LEAT_U8 || p->dtype == LEAT_U16 || p->dtype == LEAT_BOOL)
        return;
    double least = INFINITY, most = -INFINITY;
    for (int64_t y = 0; y < p->shape[axes->y]; y++)
        for (int64_t x = 0; x < p->shape[axes->x]; x++)
            for (int64_t c = 0; c < axes->channels && c < 3; c++) {
                const double v = number(p, axes, y, x, c);
                least = fmin(least, v);
                most = fmax(most, v);
            }
    const double margin = p->normalized ? 0.05 : 1e-3; /* of rounding, and of filters that overshoot */
    if (least >= -margin && most <= 1 + margin)
        return;
    *low = isfinite(least) ? least : 0;
    *high = isfinite(most) && most > *low ? most : *low + 1;
}

int cli_picture_of_pixels(const struct cli_pixels *p, struct cli_picture *out, struct leat_error *error)
{
    struct axes axes;
    if (!cli_pixels_fit(p->layout, p->ndim, p->shape) || !find_axes(p->layout, p->ndim, p->shape, &axes))
        return fail(error, LEAT_E_INVALID, "This is no image.");
    int rc = allocate(out, (uint32_t)p->shape[axes.x], (uint32_t)p->shape[axes.y], error);
    if (rc)
        return rc;
    double low, high;
    find_range(p, &axes, &low, &high);
    uint8_t *to = out->pixels;
    for (int64_t y = 0; y < out->height; y++)
        for (int64_t x = 0; x < out->width; x++)
            for (int64_t c = 0; c < 3; c++) {
                const double v = number(p, &axes, y, x, axes.channels >= 3 ? c : 0);
                *to++ = (uint8_t)(fmin(fmax((v - low) / (high - low), 0), 1) * 255 + 0.5);
            }
    return LEAT_OK;
}

/* ---- photos ---------------------------------------------------------------------------------- */

/* The value of a field through one chain of operators. It is written as a tuple of one field, so that a mask is decoded
 * as one. */
static int apply(const struct leat_field *field, const char *operators, const char *names, const void *data,
                 uint64_t length, struct leat_value *out, struct leat_error *error)
{
    char program[768];
    struct leat_chain *chain;
    snprintf(program, sizeof program,
             "{\"operators\": {%s}, \"outputs\": {\"%s\": {\"fields\": [\"%s\"], \"chain\": [%s]}}}", operators,
             field->name, field->name, names);
    int rc = leat_chain_open(field, program, NULL, 0, &chain, error);
    if (rc)
        return rc;
    rc = leat_chain_apply(chain, data, length, 0, LEAT_NO_SAMPLE, out, error);
    leat_chain_free(chain);
    return rc;
}

int cli_picture_decode(const struct leat_field *field, const void *data, uint64_t length, struct cli_picture *out,
                       struct leat_error *error)
{
    struct leat_value value = {0};
    *out = (struct cli_picture){0};
    int rc = apply(field, "\"d\": {\"type\": \"Decode\"}, \"l\": {\"type\": \"ToLayout\", \"layout\": \"NHWC\"}",
                   "\"d\", \"l\"", data, length, &value, error);
    if (!rc)
        rc = allocate(out, (uint32_t)value.shape[1], (uint32_t)value.shape[0], error);
    if (!rc)
        memcpy(out->pixels, value.data, (size_t)value.length);
    leat_value_clear(&value);
    return rc;
}

int cli_mask_decode(const struct leat_field *field, const void *data, uint64_t length, uint8_t **ids, uint32_t *width,
                    uint32_t *height, struct leat_error *error)
{
    struct leat_value value = {0};
    int rc = apply(field, "\"d\": {\"type\": \"Decode\"}", "\"d\"", data, length, &value, error);
    if (!rc) {
        *height = (uint32_t)value.shape[0];
        *width = (uint32_t)value.shape[1];
        *ids = malloc((size_t)value.length);
        rc = *ids ? LEAT_OK : fail(error, LEAT_E_NOMEM, "No memory for a mask.");
    }
    if (!rc)
        memcpy(*ids, value.data, (size_t)value.length);
    leat_value_clear(&value);
    return rc;
}

/* Each pixel `factor` times across and down, so that small images stay as they are. */
static int enlarge(struct cli_picture *picture, uint32_t factor, struct leat_error *error)
{
    struct cli_picture large;
    int rc = allocate(&large, picture->width * factor, picture->height * factor, error);
    if (rc)
        return rc;
    for (uint32_t y = 0; y < large.height; y++)
        for (uint32_t x = 0; x < large.width; x++)
            memcpy(large.pixels + ((size_t)y * large.width + x) * 3,
                   picture->pixels + ((size_t)(y / factor) * picture->width + x / factor) * 3, 3);
    cli_picture_clear(picture);
    *picture = large;
    return LEAT_OK;
}

int cli_picture_fit(struct cli_picture *picture, uint32_t side, struct leat_error *error)
{
    const uint32_t longer = picture->width > picture->height ? picture->width : picture->height;
    if (longer <= side)
        return side / longer > 1 ? enlarge(picture, side / longer, error) : LEAT_OK;
    uint32_t width = (uint32_t)((uint64_t)picture->width * side / longer),
             height = (uint32_t)((uint64_t)picture->height * side / longer);
    width = width ? width : 1;
    height = height ? height : 1;
    const struct leat_field field = {.name = "x",
                                     .kind = LEAT_KIND_ARRAY,
                                     .dtype = LEAT_U8,
                                     .layout = LEAT_LAYOUT_HWC,
                                     .ndim = 3,
                                     .shape = {picture->height, picture->width, 3}};
    struct leat_value value = {0};
    char operators[200];
    snprintf(operators, sizeof operators,
             "\"r\": {\"type\": \"Resize\", \"size\": [%" PRIu32 ", %" PRIu32
             "]}, \"l\": {\"type\": \"ToLayout\", \"layout\": \"NHWC\"}",
             height, width);
    int rc = apply(&field, operators, "\"r\", \"l\"", picture->pixels, (uint64_t)picture->width * picture->height * 3,
                   &value, error);
    if (!rc) {
        memcpy(picture->pixels, value.data, (size_t)value.length); /* it is smaller */
        picture->width = width;
        picture->height = height;
    }
    leat_value_clear(&value);
    return rc;
}
