/*
 * The look of a tile. Outlines and points have a dark rim, so that they are seen on any background; tags with the names
 * of classes are put where they hide no other tag, and left out if there is no room.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/font.h"
#include "print.h"
#include "view/item.h"

enum { MAX_TAGS = 60, TAG_HEIGHT = 14 };
#define TAG_SIZE 7.5
#define TITLE_SIZE 9.0
#define DETAIL_SIZE 7.5

struct tile {
    struct cli_canvas *canvas;
    const struct cli_item *item;
    const struct leat_dataset *dataset;
    struct cli_rect rect; /* of the picture on the canvas */
    double across, down;  /* from pixels of the image to those of the canvas */
    struct cli_rect tags[MAX_TAGS];
    size_t n_tags;
};

static void draw_picture(struct tile *t)
{
    const struct cli_picture *p = &t->item->picture;
    for (uint32_t y = 0; y < p->height; y++)
        memcpy(t->canvas->pixels + ((size_t)(t->rect.y + (int)y) * (size_t)t->canvas->width + (size_t)t->rect.x) * 3,
               p->pixels + (size_t)y * p->width * 3, (size_t)p->width * 3);
}

/* Class 0 is the background. */
static void draw_mask(struct tile *t)
{
    const struct cli_item *item = t->item;
    for (int y = 0; y < t->rect.height; y++)
        for (int x = 0; x < t->rect.width; x++) {
            const size_t my = (size_t)((y + 0.5) * item->mask_height / t->rect.height),
                         mx = (size_t)((x + 0.5) * item->mask_width / t->rect.width);
            const uint8_t id = item->mask[my * item->mask_width + mx];
            const size_t right = (size_t)fmin((x + 1.5) * item->mask_width / t->rect.width, item->mask_width - 1),
                         below = (size_t)fmin((y + 1.5) * item->mask_height / t->rect.height, item->mask_height - 1);
            const bool edge =
                item->mask[my * item->mask_width + right] != id || item->mask[below * item->mask_width + mx] != id;
            if (edge)
                cli_canvas_blend(t->canvas, t->rect.x + x, t->rect.y + y, CLI_WHITE, 0.9);
            else if (id)
                cli_canvas_blend(t->canvas, t->rect.x + x, t->rect.y + y, cli_colour(id - 1u), 0.5);
        }
}

/* Masks of instances: each in its colour, its edges without the picture behind them. */
static void draw_masks(struct tile *t)
{
    const int width = t->rect.width, height = t->rect.height;
    const uint16_t *owner = t->item->owners;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++, owner++) {
            const bool edge = (x && owner[-1] != *owner) || (x + 1 < width && owner[1] != *owner) ||
                              (y && owner[-width] != *owner) || (y + 1 < height && owner[width] != *owner);
            if (*owner)
                cli_canvas_blend(t->canvas, t->rect.x + x, t->rect.y + y, cli_colour(*owner - 1u), edge ? 1 : 0.4);
        }
}

static struct cli_rect box_on(const struct tile *t, size_t i)
{
    const float *b = t->item->boxes + 4 * i;
    const double limit = 1e6; /* a box may be anything; NaN becomes 0 */
    double at[4];
    for (int k = 0; k < 4; k++) {
        at[k] = b[k] * (k % 2 ? t->down : t->across);
        at[k] = at[k] > -limit ? fmin(at[k], limit) : at[k] <= -limit ? -limit : 0;
    }
    const int x = t->rect.x + (int)lround(at[0]), y = t->rect.y + (int)lround(at[1]);
    const int right = t->rect.x + (int)lround(at[2]), bottom = t->rect.y + (int)lround(at[3]);
    return (struct cli_rect){x, y, right > x ? right - x : 1, bottom > y ? bottom - y : 1};
}

static uint32_t colour_of(const struct cli_item *item, size_t i)
{
    if (item->owners && item->n_masks >= item->n_boxes)
        return cli_colour(i);
    return cli_colour(item->classes ? (uint64_t)(item->classes[i] < 0 ? -item->classes[i] : item->classes[i]) : i);
}

static bool inside(struct cli_rect a, struct cli_rect b)
{
    return a.x >= b.x && a.y >= b.y && a.x + a.width <= b.x + b.width && a.y + a.height <= b.y + b.height;
}

static int area(struct cli_rect r)
{
    return r.width * r.height;
}

static int shared(struct cli_rect a, struct cli_rect b)
{
    return area(cli_rect_shared(a, b));
}

/* Whether a tag hides no other tag, and not much of the boxes' contents. */
static bool is_free(const struct tile *t, struct cli_rect place)
{
    if (!inside(place, t->rect))
        return false;
    for (size_t k = 0; k < t->n_tags; k++)
        if (shared(place, t->tags[k]))
            return false;
    for (size_t i = 0; i < t->item->n_boxes; i++) {
        const struct cli_rect box = box_on(t, i);
        if (shared(place, box) > 0.4 * area(box))
            return false;
    }
    return true;
}

/* The name of a box's class at one of its corners, in or outside of it. */
static void draw_tag(struct tile *t, size_t i, const char *text)
{
    const struct cli_rect box = box_on(t, i);
    const int width = (int)ceil(cli_text_width(text, TAG_SIZE)) + 7, high = TAG_HEIGHT;
    const int right = box.x + box.width - width, bottom = box.y + box.height;
    const struct cli_rect places[] = {{box.x, box.y - high, width, high},  {box.x, box.y, width, high},
                                      {right, box.y - high, width, high},  {right, box.y, width, high},
                                      {box.x, bottom, width, high},        {box.x, bottom - high, width, high},
                                      {right, bottom - high, width, high}, {right, bottom, width, high}};
    for (size_t p = 0; p < sizeof places / sizeof *places && t->n_tags < MAX_TAGS; p++) {
        if (!is_free(t, places[p]))
            continue;
        const uint32_t colour = colour_of(t->item, i);
        t->tags[t->n_tags++] = places[p];
        cli_canvas_fill(t->canvas, places[p], colour, 0.92);
        cli_canvas_text(t->canvas, places[p].x + 3.5, places[p].y + 10.5, TAG_SIZE, cli_contrast(colour), text);
        return;
    }
}

static const struct tile *sorted_by; /* qsort has no argument for it */

/* Large boxes first, so that small ones are drawn over them. */
static int larger(const void *a, const void *b)
{
    const float *p = sorted_by->item->boxes + 4 * *(const size_t *)a,
                *q = sorted_by->item->boxes + 4 * *(const size_t *)b;
    const double s = fabs(((double)p[2] - p[0]) * ((double)p[3] - p[1])),
                 u = fabs(((double)q[2] - q[0]) * ((double)q[3] - q[1]));
    return s > u ? -1 : s < u ? 1 : *(const size_t *)a < *(const size_t *)b ? -1 : 1;
}

static void draw_boxes(struct tile *t)
{
    const size_t n = t->item->n_boxes;
    size_t *order = calloc(n ? n : 1, sizeof *order);
    if (!order)
        return;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    sorted_by = t;
    qsort(order, n, sizeof *order, larger);
    for (size_t k = 0; k < n; k++) {
        const struct cli_rect b = box_on(t, order[k]);
        cli_canvas_frame(t->canvas, (struct cli_rect){b.x - 1, b.y - 1, b.width + 2, b.height + 2}, 1, 0, 0.55);
        cli_canvas_frame(t->canvas, b, 2, colour_of(t->item, order[k]), 1);
    }
    for (size_t k = 0; t->item->classes && k < n; k++) {
        char name[120], text[64];
        cli_class_name(t->dataset, t->item->classes[order[k]], name, sizeof name);
        draw_tag(t, order[k], cli_text_fit(name, TAG_SIZE, 110, text, sizeof text));
    }
    free(order);
}

/* Pairs of the 17 points in the order of COCO that belong together. */
static const uint8_t limbs[][2] = {{15, 13}, {13, 11}, {16, 14}, {14, 12}, {11, 12}, {5, 11}, {6, 12},
                                   {5, 6},   {5, 7},   {6, 8},   {7, 9},   {8, 10},  {1, 2},  {0, 1},
                                   {0, 2},   {1, 3},   {2, 4},   {3, 5},   {4, 6}};

static void draw_points(struct tile *t)
{
    const struct cli_item *item = t->item;
    for (size_t i = 0; i < item->n_people; i++) {
        const float *p = item->points + i * item->n_points * 3;
        const uint32_t colour = cli_colour(i + 3);
#define AT_X(k) (t->rect.x + p[3 * (k)] * t->across)
#define AT_Y(k) (t->rect.y + p[3 * (k) + 1] * t->down)
        for (size_t l = 0; item->n_points == 17 && l < sizeof limbs / sizeof *limbs; l++) {
            const size_t a = limbs[l][0], b = limbs[l][1];
            if (p[3 * a + 2] > 0 && p[3 * b + 2] > 0)
                cli_canvas_line(t->canvas, AT_X(a), AT_Y(a), AT_X(b), AT_Y(b), 1.6, colour);
        }
        for (size_t k = 0; k < item->n_points; k++) {
            if (!(p[3 * k + 2] > 0))
                continue;
            cli_canvas_disc(t->canvas, AT_X(k), AT_Y(k), 3, 0x101114u);
            cli_canvas_disc(t->canvas, AT_X(k), AT_Y(k), 2, colour);
        }
    }
}

/* A text in lines of at most `width` pixels, broken between words. */
static void draw_paragraph(struct cli_canvas *canvas, int x, int y, int width, int lines, const char *text)
{
    char line[256], word[128], next[sizeof line + sizeof word];
    line[0] = 0;
    while (lines > 0) {
        text += strspn(text, " ");
        const size_t length = strcspn(text, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        snprintf(next, sizeof next, "%s%s%s", line, line[0] ? " " : "", word);
        if (length && (!line[0] || (strlen(next) < sizeof line && cli_text_width(next, DETAIL_SIZE) <= width))) {
            strcpy(line, next);
            text += length;
            continue;
        }
        if (!line[0])
            return;
        cli_canvas_text(canvas, x, y, DETAIL_SIZE, 0xb00020u,
                        cli_text_fit(line, DETAIL_SIZE, width, next, sizeof next));
        y += 14;
        lines--;
        line[0] = 0;
    }
}

void cli_item_draw(const struct cli_item *item, struct cli_canvas *canvas, int x, int y, int side, int high,
                   const struct leat_dataset *dataset)
{
    const struct cli_rect cell = {x - 2, y, side + 4, high + CLI_CAPTION};
    char text[320];
    cli_canvas_fill(canvas, (struct cli_rect){x, y, side, high}, 0xeeeff1u, 1);
    if (item->picture.pixels) {
        struct tile t = {.canvas = canvas, .item = item, .dataset = dataset};
        t.rect =
            (struct cli_rect){x + (side - (int)item->picture.width) / 2, y + (high - (int)item->picture.height) / 2,
                              (int)item->picture.width, (int)item->picture.height};
        t.across = item->picture.width / item->width;
        t.down = item->picture.height / item->height;
        draw_picture(&t);
        cli_canvas_clip(canvas, t.rect);
        if (item->mask)
            draw_mask(&t);
        if (item->owners)
            draw_masks(&t);
        if (item->boxes)
            draw_boxes(&t);
        draw_points(&t);
    }
    cli_canvas_clip(canvas, cell);
    if (item->error[0]) {
        if (item->picture.pixels)
            cli_canvas_fill(canvas, (struct cli_rect){x, y + high - 38, side, 38}, CLI_WHITE, 0.85);
        draw_paragraph(canvas, x + 8, item->picture.pixels ? y + high - 24 : y + (high < 40 ? 15 : 24), side - 16,
                       item->picture.pixels ? 2
                       : high < 44          ? 1
                                            : (high - 30) / 14,
                       item->error);
    }
    cli_canvas_text(canvas, x, y + high + 15, TITLE_SIZE, CLI_INK,
                    cli_text_fit(item->title, TITLE_SIZE, side, text, sizeof text));
    cli_canvas_text(canvas, x, y + high + 31, DETAIL_SIZE, CLI_GREY,
                    cli_text_fit(item->detail, DETAIL_SIZE, side, text, sizeof text));
    cli_canvas_unclip(canvas);
}
