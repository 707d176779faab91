/* Pictures as PNG files. */
#ifndef LEAT_CLI_DRAW_PNG_H
#define LEAT_CLI_DRAW_PNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cli_png {
    uint32_t width, height;
    uint8_t channels;      /* 1 or 3, of 8 bits */
    uint8_t orientation;   /* EXIF, 2 to 8; 0 and 1: upright */
    const uint8_t *pixels; /* [height][width][channels] */
};

/* False if memory was short or the file cannot be written: errno says why. */
bool cli_png_write(FILE *file, const struct cli_png *png);

#endif
