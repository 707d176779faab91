/* Drawing is by coverage: each shape says how much of a pixel it covers, and is blended with the pixel. */
#include "canvas.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "font.h"
#include "new_file.h"
#include "png.h"

bool cli_canvas_init(struct cli_canvas *canvas, int width, int height, uint32_t colour)
{
    *canvas = (struct cli_canvas){.width = width, .height = height, .clip = {0, 0, width, height}};
    canvas->pixels = malloc((size_t)width * (size_t)height * 3);
    if (!canvas->pixels)
        return false;
    cli_canvas_fill(canvas, canvas->clip, colour, 1);
    return true;
}

void cli_canvas_clear(struct cli_canvas *canvas)
{
    free(canvas->pixels);
    *canvas = (struct cli_canvas){0};
}

struct cli_rect cli_rect_shared(struct cli_rect a, struct cli_rect b)
{
    const int x = a.x > b.x ? a.x : b.x, y = a.y > b.y ? a.y : b.y;
    const int right = a.x + a.width < b.x + b.width ? a.x + a.width : b.x + b.width,
              bottom = a.y + a.height < b.y + b.height ? a.y + a.height : b.y + b.height;
    return (struct cli_rect){x, y, right > x ? right - x : 0, bottom > y ? bottom - y : 0};
}

void cli_canvas_clip(struct cli_canvas *canvas, struct cli_rect rect)
{
    canvas->clip = cli_rect_shared(rect, (struct cli_rect){0, 0, canvas->width, canvas->height});
}

void cli_canvas_unclip(struct cli_canvas *canvas)
{
    canvas->clip = (struct cli_rect){0, 0, canvas->width, canvas->height};
}

void cli_canvas_blend(struct cli_canvas *canvas, int x, int y, uint32_t colour, double cover)
{
    const struct cli_rect *clip = &canvas->clip;
    if (x < clip->x || y < clip->y || x >= clip->x + clip->width || y >= clip->y + clip->height)
        return;
    uint8_t *pixel = canvas->pixels + ((size_t)y * (size_t)canvas->width + (size_t)x) * 3;
    for (int c = 0; c < 3; c++) {
        const double wanted = (double)(colour >> (16 - 8 * c) & 255);
        pixel[c] = (uint8_t)(pixel[c] + cover * (wanted - pixel[c]) + 0.5);
    }
}

void cli_canvas_fill(struct cli_canvas *canvas, struct cli_rect rect, uint32_t colour, double cover)
{
    rect = cli_rect_shared(rect, canvas->clip);
    for (int y = rect.y; y < rect.y + rect.height; y++)
        for (int x = rect.x; x < rect.x + rect.width; x++)
            cli_canvas_blend(canvas, x, y, colour, cover);
}

void cli_canvas_frame(struct cli_canvas *canvas, struct cli_rect r, int thick, uint32_t colour, double cover)
{
    const int high = r.height < 2 * thick ? (r.height + 1) / 2 : thick,
              wide = r.width < 2 * thick ? (r.width + 1) / 2 : thick;
    cli_canvas_fill(canvas, (struct cli_rect){r.x, r.y, r.width, high}, colour, cover);
    cli_canvas_fill(canvas, (struct cli_rect){r.x, r.y + r.height - high, r.width, high}, colour, cover);
    cli_canvas_fill(canvas, (struct cli_rect){r.x, r.y + high, wide, r.height - 2 * high}, colour, cover);
    cli_canvas_fill(canvas, (struct cli_rect){r.x + r.width - wide, r.y + high, wide, r.height - 2 * high}, colour,
                    cover);
}

void cli_canvas_line(struct cli_canvas *canvas, double x0, double y0, double x1, double y1, double thick,
                     uint32_t colour)
{
    const double dx = x1 - x0, dy = y1 - y0, length = dx * dx + dy * dy, reach = thick / 2 + 1;
    const struct cli_rect *clip = &canvas->clip;
    const int left = (int)fmax(floor(fmin(x0, x1) - reach), clip->x),
              right = (int)fmin(ceil(fmax(x0, x1) + reach), clip->x + clip->width - 1),
              top = (int)fmax(floor(fmin(y0, y1) - reach), clip->y),
              bottom = (int)fmin(ceil(fmax(y0, y1) + reach), clip->y + clip->height - 1);
    for (int y = top; y <= bottom; y++)
        for (int x = left; x <= right; x++) {
            const double px = x + 0.5 - x0, py = y + 0.5 - y0;
            const double t = length > 0 ? fmin(fmax((px * dx + py * dy) / length, 0), 1) : 0;
            const double cover = thick / 2 + 0.5 - hypot(px - t * dx, py - t * dy);
            if (cover > 0)
                cli_canvas_blend(canvas, x, y, colour, fmin(cover, 1));
        }
}

void cli_canvas_disc(struct cli_canvas *canvas, double x, double y, double radius, uint32_t colour)
{
    cli_canvas_line(canvas, x, y, x, y, 2 * radius, colour);
}

struct ink {
    struct cli_canvas *canvas;
    uint32_t colour;
};

static void dot(void *user, int x, int y, double cover)
{
    const struct ink *ink = user;
    cli_canvas_blend(ink->canvas, x, y, ink->colour, cover);
}

void cli_canvas_text(struct cli_canvas *canvas, double x, double y, double size, uint32_t colour, const char *text)
{
    struct ink ink = {canvas, colour};
    cli_text_draw(text, x, y, size, 1, dot, &ink);
}

static int write_png(FILE *out, const void *user)
{
    const struct cli_canvas *canvas = user;
    const struct cli_png png = {(uint32_t)canvas->width, (uint32_t)canvas->height, 3, 0, canvas->pixels};
    return cli_png_write(out, &png) ? 0 : errno;
}

int cli_canvas_save(const struct cli_canvas *canvas, const char *path)
{
    return cli_new_file_write(path, write_png, canvas);
}

/* Makes a colour of hue (0 to 1), saturation and value. */
static uint32_t from_hsv(double hue, double saturation, double value)
{
    uint32_t colour = 0;
    for (int c = 0; c < 3; c++) {
        const double turn = hue * 6 + (c == 0 ? 5 : c == 1 ? 3 : 1), k = turn - 6 * floor(turn / 6);
        const double part = value - value * saturation * fmax(0, fmin(fmin(k, 4 - k), 1));
        colour = colour << 8 | (uint32_t)(part * 255 + 0.5);
    }
    return colour;
}

uint32_t cli_colour(uint64_t number)
{
    static const uint32_t first[] = {0xff3b30, 0x1e90ff, 0x34c759, 0xffcc00, 0xaf52de, 0x00c7be, 0xff9500,
                                     0xff4fa3, 0x8bd31f, 0x5856d6, 0xb5651d, 0x64d2ff, 0xd7003a, 0x0b7a3e,
                                     0xe6c8ff, 0x7d8b00, 0x0040dd, 0xffb199, 0x8e8e93, 0x7a0060};
    const uint64_t n = sizeof first / sizeof *first;
    if (number < n)
        return first[number];
    /* Further ones go round the hues in golden steps, in three brightnesses. */
    const double turn = (double)(number % 1000003) * 0.61803398875;
    return from_hsv(turn - floor(turn), number % 3 == 1 ? 0.55 : 0.9, number % 3 == 2 ? 0.65 : 0.95);
}

uint32_t cli_contrast(uint32_t colour)
{
    const double light = 0.299 * (colour >> 16 & 255) + 0.587 * (colour >> 8 & 255) + 0.114 * (colour & 255);
    return light > 150 ? 0x101114u : CLI_WHITE;
}
