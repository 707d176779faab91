/* A plane of RGB pixels, and the functions that draw on it. Pixels outside of the clip rectangle stay unchanged. */
#ifndef LEAT_CLI_DRAW_CANVAS_H
#define LEAT_CLI_DRAW_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

struct cli_rect {
    int x, y, width, height;
};
/* The part that both cover; its sides are 0 where there is none. */
struct cli_rect cli_rect_shared(struct cli_rect a, struct cli_rect b);

struct cli_canvas {
    int width, height;
    uint8_t *pixels; /* [height][width][3], from malloc */
    struct cli_rect clip;
};

/* Colours are 0xrrggbb. */
#define CLI_WHITE 0xffffffu
#define CLI_INK 0x26272bu
#define CLI_GREY 0x777a80u

/* One colour. False: no memory. The clip rectangle is the whole plane. */
bool cli_canvas_init(struct cli_canvas *canvas, int width, int height, uint32_t colour);
void cli_canvas_clear(struct cli_canvas *canvas);
void cli_canvas_clip(struct cli_canvas *canvas, struct cli_rect rect); /* within the plane */
void cli_canvas_unclip(struct cli_canvas *canvas);

void cli_canvas_blend(struct cli_canvas *canvas, int x, int y, uint32_t colour, double cover);
void cli_canvas_fill(struct cli_canvas *canvas, struct cli_rect rect, uint32_t colour, double cover);
/* The outline of a rectangle, `thick` pixels wide, inside of it. */
void cli_canvas_frame(struct cli_canvas *canvas, struct cli_rect rect, int thick, uint32_t colour, double cover);
void cli_canvas_line(struct cli_canvas *canvas, double x0, double y0, double x1, double y1, double thick,
                     uint32_t colour);
void cli_canvas_disc(struct cli_canvas *canvas, double x, double y, double radius, uint32_t colour);
/* A text whose capitals are `size` pixels high and stand on y. */
void cli_canvas_text(struct cli_canvas *canvas, double x, double y, double size, uint32_t colour, const char *text);

/* Writes it as a PNG, which appears when it is complete. Returns 0, or an errno. */
int cli_canvas_save(const struct cli_canvas *canvas, const char *path);

/* The colour of a class, a series or an instance: neighbouring numbers differ clearly, the first twenty all do. */
uint32_t cli_colour(uint64_t number);
/* Black or white, whichever is legible on a colour. */
uint32_t cli_contrast(uint32_t colour);

#endif
