/* Arrays as files that other programs open: .npy (numpy) and .png. */
#ifndef LEAT_CLI_ARRAY_FILE_H
#define LEAT_CLI_ARRAY_FILE_H

#include "args.h"
#include "leat/leat.h"

struct cli_array {
    enum leat_dtype dtype;
    unsigned ndim;
    int64_t shape[LEAT_MAX_DIMS];
    int64_t strides[LEAT_MAX_DIMS]; /* in elements */
    const void *data;
};

/* A dense array of the shape, whose strides follow from it. */
struct cli_array cli_array_dense(enum leat_dtype dtype, unsigned ndim, const int64_t *shape, const void *data);

/* Writes `path` as .npy, version 1.0, in C order whatever the strides are. bfloat16, which numpy lacks, is widened to
 * float32. False after a message. */
bool cli_write_npy(const struct cli_command *command, const char *path, const struct cli_array *array);

/* A photo as it is decoded, before its EXIF orientation. */
struct cli_photo {
    uint32_t width, height;
    uint8_t channels;      /* 1 or 3 */
    uint8_t orientation;   /* EXIF, 1 to 8 */
    const uint8_t *pixels; /* [height][width][channels] */
};
/* Whether the bytes are a photo that is stored as pixels (docs/format.md). */
bool cli_photo_of_pixels(const uint8_t *data, uint64_t length, struct cli_photo *photo);
/* Writes `path` as a PNG with the orientation of the photo. False after a message. */
bool cli_write_photo(const struct cli_command *command, const char *path, const struct cli_photo *photo);

#endif
