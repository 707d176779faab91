/* RGB pictures, made of the contents of a data set or a batch. */
#ifndef LEAT_CLI_DRAW_PICTURE_H
#define LEAT_CLI_DRAW_PICTURE_H

#include "draw/canvas.h"
#include "leat/leat.h"

struct cli_picture {
    uint32_t width, height;
    uint8_t *pixels; /* [height][width][3], from malloc */
};

void cli_picture_clear(struct cli_picture *picture);

/* Numbers as an image. Axes: height and width, with 1, 3 or 4 channels behind or before them. */
struct cli_pixels {
    enum leat_dtype dtype;
    enum leat_layout layout; /* NONE: by the shape */
    unsigned ndim;
    int64_t shape[LEAT_MAX_DIMS], strides[LEAT_MAX_DIMS]; /* in elements */
    const void *data;
    bool normalized; /* a value v of channel c means v * std[c] + mean[c], of 0 to 1 */
    double mean[3], std[3];
};
/* Whether that looks like an image: `layout` says so, or the shape does. */
bool cli_pixels_fit(enum leat_layout layout, unsigned ndim, const int64_t *shape);
/* Floats that are not normalized and leave 0 to 1 are stretched from the least to the largest. Errors: NOMEM, INVALID.
 */
int cli_picture_of_pixels(const struct cli_pixels *pixels, struct cli_picture *out, struct leat_error *error);

/* An encoded photo of a field, as Decode() decodes it. */
int cli_picture_decode(const struct leat_field *field, const void *data, uint64_t length, struct cli_picture *out,
                       struct leat_error *error);
/* The class ids of an encoded mask: [height][width], from malloc. */
int cli_mask_decode(const struct leat_field *field, const void *data, uint64_t length, uint8_t **ids, uint32_t *width,
                    uint32_t *height, struct leat_error *error);

/* The picture as large as fits into side x side: made smaller as Resize does it, or enlarged by a whole factor. */
int cli_picture_fit(struct cli_picture *picture, uint32_t side, struct leat_error *error);

#endif
