/* Pictures as PNG files. */
#ifndef LEAT_CLI_DRAW_PNG_H
#define LEAT_CLI_DRAW_PNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cli_png {
    uint32_t width, height;
    uint8_t channels;    /* 1 or 3, of 8 bits */
    uint8_t orientation; /* EXIF, 2 to 8; 0 and 1: upright */
};

/* Writes a PNG row by row: `row` puts the width * channels bytes of row y into `out`. False if memory was short or the
 * file cannot be written: errno says why. */
bool cli_png_write(FILE *file, const struct cli_png *png, void (*row)(void *user, uint32_t y, uint8_t *out),
                   void *user);

#endif
