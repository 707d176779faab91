/* One tile of a contact sheet: a picture, the drawing on it, and the text below it. */
#ifndef LEAT_CLI_VIEW_ITEM_H
#define LEAT_CLI_VIEW_ITEM_H

#include "draw/canvas.h"
#include "draw/picture.h"
#include "view/rows.h"

struct cli_item {
    struct cli_picture picture; /* fitted to the tile; no pixels: `error` says why */
    double width, height;       /* of the image itself, in its pixels */
    char about[120];            /* of a sparse row, in the place of these */
    float *boxes;               /* [n_boxes][4]: two corners, in pixels of the image */
    int64_t *classes;           /* [n_boxes], or NULL */
    size_t n_boxes;
    float *points; /* [n_people][n_points][3] */
    size_t n_people, n_points;
    uint8_t *mask; /* [mask_height][mask_width] class ids, or NULL */
    uint32_t mask_width, mask_height;
    uint16_t *owners; /* [picture.height][picture.width]: 1 + the instance whose mask is on top, 0: none; or NULL */
    size_t n_masks;
    char title[200], detail[300], error[1200];
};

/* The `nth` picture in a column of a row, with the targets of its group if it is the only one. A broken sample makes an
 * item with an error; only NOMEM is a failure. */
int cli_item_make(const struct cli_rows *rows, uint64_t row, size_t column, size_t nth, uint32_t side,
                  struct cli_item *out, struct leat_error *error);
void cli_item_clear(struct cli_item *item);

#define CLI_CAPTION 42 /* pixels below a tile */
/* Draws a tile: side x high pixels at (x, y), and its caption below. */
void cli_item_draw(const struct cli_item *item, struct cli_canvas *canvas, int x, int y, int side, int high,
                   const struct leat_dataset *dataset);

#endif
