/* A contact sheet: tiles in rows, with a heading. */
#ifndef LEAT_CLI_VIEW_SHEET_H
#define LEAT_CLI_VIEW_SHEET_H

#include "args.h"
#include "view/item.h"

struct cli_sheet {
    const char *title, *note; /* the heading's two lines */
    struct cli_item *items;
    size_t n, room;
    size_t group;     /* so many tiles stand side by side; 1: each by itself */
    unsigned columns; /* groups in a row; 0: as many as make a sheet of the usual width */
    unsigned side;    /* of a tile: its width, */
    unsigned high;    /* and its height; 0: the same */
    const struct leat_dataset *dataset;
};

/* Room for one more item, zeroed; NULL: no memory. */
struct cli_item *cli_sheet_add(struct cli_sheet *sheet);
void cli_sheet_clear(struct cli_sheet *sheet);
/* Whether a sheet of n pictures is no larger than cli_sheet_write takes. */
bool cli_sheet_has_room(const struct cli_sheet *sheet, size_t n);
/* Draws the sheet and writes it as a PNG; *width and *height are its size. False after a message. */
bool cli_sheet_write(const struct cli_command *command, const struct cli_sheet *sheet, const char *path, int *width,
                     int *height);

#endif
