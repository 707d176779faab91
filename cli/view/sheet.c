/*
 *     title                                        +------+ +------+   the tiles of a group are near each other
 *     note                                         | side | | side |
 *     +------+  +------+   groups, GUTTER apart    +------+ +------+
 *     | side |  | side |                           caption  caption
 *     +------+  +------+
 *     caption   caption
 */
#include "view/sheet.h"

#include <stdlib.h>
#include <string.h>

#include "draw/font.h"
#include "print.h"

enum { MARGIN = 20, GUTTER = 16, NEAR = 4, HEADING = 66, USUAL_WIDTH = 1600 };

struct cli_item *cli_sheet_add(struct cli_sheet *sheet)
{
    if (sheet->n == sheet->room) {
        const size_t room = sheet->room ? 2 * sheet->room : 32;
        struct cli_item *items = realloc(sheet->items, room * sizeof *items);
        if (!items)
            return NULL;
        sheet->items = items;
        sheet->room = room;
    }
    sheet->items[sheet->n] = (struct cli_item){0};
    return &sheet->items[sheet->n++];
}

void cli_sheet_clear(struct cli_sheet *sheet)
{
    for (size_t i = 0; i < sheet->n; i++)
        cli_item_clear(&sheet->items[i]);
    free(sheet->items);
    sheet->items = NULL;
    sheet->n = sheet->room = 0;
}

static int high_of(const struct cli_sheet *sheet)
{
    return (int)(sheet->high ? sheet->high : sheet->side);
}

/* The pixels of a sheet of n pictures, and the groups in a row of it. */
static size_t lay_out(const struct cli_sheet *sheet, size_t n, int64_t *wide, int64_t *high)
{
    const int64_t group = (int64_t)(sheet->group * (sheet->side + NEAR) - NEAR);
    const size_t groups = (n + sheet->group - 1) / sheet->group;
    size_t columns = sheet->columns ? sheet->columns : (size_t)((USUAL_WIDTH - 2 * MARGIN + GUTTER) / (group + GUTTER));
    columns = columns < 1 ? 1 : columns > groups ? groups : columns;
    const size_t rows = (groups + columns - 1) / columns;
    *wide = (int64_t)columns * (group + GUTTER) - GUTTER + 2 * MARGIN;
    *high = (int64_t)rows * (high_of(sheet) + CLI_CAPTION + GUTTER) + HEADING + MARGIN;
    *wide = *wide < 420 ? 420 : *wide; /* room for the heading */
    return columns;
}

static bool has_room(int64_t wide, int64_t high)
{
    return wide <= 65535 && high <= 65535 && wide * high <= (int64_t)1 << 28;
}

bool cli_sheet_has_room(const struct cli_sheet *sheet, size_t n)
{
    int64_t wide, high;
    lay_out(sheet, n, &wide, &high);
    return has_room(wide, high);
}

bool cli_sheet_write(const struct cli_command *command, const struct cli_sheet *sheet, const char *path, int *width,
                     int *height)
{
    const int64_t group = (int64_t)(sheet->group * (sheet->side + NEAR) - NEAR);
    int64_t wide, high;
    const size_t columns = lay_out(sheet, sheet->n, &wide, &high);
    struct cli_canvas canvas;
    if (!has_room(wide, high)) {
        cli_say(command, "the sheet would have %lld x %lld pixels: show fewer samples, or smaller ones (--size).",
                (long long)wide, (long long)high);
        return false;
    }
    if (!cli_canvas_init(&canvas, (int)wide, (int)high, CLI_WHITE)) {
        cli_say(command, "there is no memory for a sheet of %lld x %lld pixels.", (long long)wide, (long long)high);
        return false;
    }
    char text[600];
    cli_canvas_text(&canvas, MARGIN, MARGIN + 13, 13, CLI_INK,
                    cli_text_fit(sheet->title, 13, (double)wide - 2 * MARGIN, text, sizeof text));
    cli_canvas_text(&canvas, MARGIN, MARGIN + 32, 8.5, CLI_GREY,
                    cli_text_fit(sheet->note, 8.5, (double)wide - 2 * MARGIN, text, sizeof text));
    for (size_t i = 0; i < sheet->n; i++) {
        const size_t g = i / sheet->group;
        const int x =
            MARGIN + (int)(g % columns) * (int)(group + GUTTER) + (int)(i % sheet->group) * ((int)sheet->side + NEAR);
        const int y = HEADING + (int)(g / columns) * (high_of(sheet) + CLI_CAPTION + GUTTER);
        cli_item_draw(&sheet->items[i], &canvas, x, y, (int)sheet->side, high_of(sheet), sheet->dataset);
    }
    const int why = cli_canvas_save(&canvas, path);
    cli_canvas_clear(&canvas);
    if (why)
        cli_say_unwritten(command, path, why);
    *width = (int)wide;
    *height = (int)high;
    return !why;
}
