/* PNG by libspng, which the library reads PNGs with. */
#include "png.h"

#include <errno.h>

#include <spng.h>

/* An EXIF block of one entry, the orientation. */
static int set_orientation(spng_ctx *spng, uint8_t orientation)
{
    char data[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, (char)orientation,
                   0,   0,   0, 0,  0, 0};
    struct spng_exif exif = {.length = sizeof data, .data = data};
    return spng_set_exif(spng, &exif);
}

static int encode(spng_ctx *spng, FILE *file, const struct cli_png *png)
{
    struct spng_ihdr header = {.width = png->width,
                               .height = png->height,
                               .bit_depth = 8,
                               .color_type =
                                   png->channels == 3 ? SPNG_COLOR_TYPE_TRUECOLOR : SPNG_COLOR_TYPE_GRAYSCALE};
    int rc = spng_set_png_file(spng, file);
    rc = rc ? rc : spng_set_ihdr(spng, &header);
    if (!rc && png->orientation > 1)
        rc = set_orientation(spng, png->orientation);
    return rc ? rc
              : spng_encode_image(spng, png->pixels, (size_t)png->width * png->channels * png->height, SPNG_FMT_PNG,
                                  SPNG_ENCODE_FINALIZE);
}

bool cli_png_write(FILE *file, const struct cli_png *png)
{
    spng_ctx *spng = spng_ctx_new(SPNG_CTX_ENCODER);
    errno = 0;
    const int rc = spng ? encode(spng, file, png) : SPNG_EMEM;
    spng_ctx_free(spng);
    if (rc && !errno)
        errno = rc == SPNG_EMEM ? ENOMEM : EIO;
    return !rc;
}
