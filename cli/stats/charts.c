/*
 * The statistics as charts, two in a row: histograms, the most frequent classes, and the shapes of photos.
 *
 *     +--------- PANEL_WIDTH ---------+
 *     | title                         |
 *     |   |    _                      |  the inside, with an axis left and below
 *     |   |  _| |_                    |
 *     |   +-----------                |
 *     |     ticks                     |
 *     +-------------------------------+
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/canvas.h"
#include "draw/font.h"
#include "print.h"
#include "stats/stats.h"

enum {
    MARGIN = 24,
    PANEL_WIDTH = 620,
    PANEL_HEIGHT = 340,
    LEFT = 64,
    TOP = 40,
    RIGHT = 16,
    BOTTOM = 42,
    MAX_PANELS = 24
};
enum { CLASSES = 16, LETTERS = 30 };
#define SIZE 8.0
#define INK 0x3b6fd4u

enum panel_kind { HISTOGRAM, BARS, SHAPES, RESIDUES };

struct panel {
    enum panel_kind kind;
    char title[160];
    const char *unit;
    const json_t *data;
};

struct charts {
    struct panel panels[MAX_PANELS];
    size_t n;
};

static const char *short_number(double v, char out[32])
{
    const double a = fabs(v);
    if (a >= 1e12)
        snprintf(out, 32, "%.3g", v);
    else if (a >= 1e9)
        snprintf(out, 32, "%.3gG", v / 1e9);
    else if (a >= 1e6)
        snprintf(out, 32, "%.3gM", v / 1e6);
    else if (a >= 1e4)
        snprintf(out, 32, "%.3gk", v / 1e3);
    else
        snprintf(out, 32, "%.4g", v);
    return out;
}

static void text(struct cli_canvas *canvas, double x, double y, double size, uint32_t colour, double align,
                 const char *what)
{
    cli_canvas_text(canvas, x - align * cli_text_width(what, size), y, size, colour, what);
}

enum { TICKS = 20 }; /* at most: a step may be too small to move a large number */

/* The round distance of about five ticks. */
static double tick_step(double range)
{
    const double rough = range / 5, power = pow(10, floor(log10(rough > 0 ? rough : 1)));
    const double rest = rough / power;
    return power * (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10);
}

static struct cli_rect inside_of(int x, int y)
{
    return (struct cli_rect){x + LEFT, y + TOP, PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM};
}

static void draw_axes(struct cli_canvas *canvas, struct cli_rect in)
{
    cli_canvas_fill(canvas, (struct cli_rect){in.x - 1, in.y, 1, in.height + 1}, CLI_GREY, 1);
    cli_canvas_fill(canvas, (struct cli_rect){in.x - 1, in.y + in.height, in.width + 1, 1}, CLI_GREY, 1);
}

/* Lines and numbers across the inside, from 0 to `most` upwards. */
static void draw_levels(struct cli_canvas *canvas, struct cli_rect in, double most)
{
    char number[32];
    const double step = fmax(tick_step(most), 1);
    for (int k = 0; k < TICKS && k * step <= most; k++) {
        const double v = k * step;
        const int y = in.y + in.height - (int)lround(v / most * in.height);
        if (v > 0)
            cli_canvas_fill(canvas, (struct cli_rect){in.x, y, in.width, 1}, 0xe3e5e8u, 1);
        text(canvas, in.x - 8, y + 3, SIZE, CLI_GREY, 1, short_number(v, number));
    }
}

static void draw_ticks(struct cli_canvas *canvas, struct cli_rect in, double low, double high)
{
    char number[32];
    const double step = tick_step(high - low), first = ceil(low / step - 1e-9) * step;
    for (int k = 0; k < TICKS && first + k * step <= high + 1e-9 * step; k++) {
        const double v = first + k * step;
        const int x = in.x + (int)lround((v - low) / (high - low) * in.width);
        cli_canvas_fill(canvas, (struct cli_rect){x, in.y + in.height, 1, 5}, CLI_GREY, 1);
        text(canvas, x, in.y + in.height + 17, SIZE, CLI_GREY, 0.5, short_number(fabs(v) < step / 1e6 ? 0 : v, number));
    }
}

static void draw_histogram(struct cli_canvas *canvas, struct cli_rect in, const json_t *q)
{
    const json_t *bins = json_object_get(q, "bins"), *edges = json_object_get(q, "edges");
    const size_t n = json_array_size(bins);
    const double low = json_number_value(json_array_get(edges, 0)), high = json_number_value(json_array_get(edges, n));
    double most = 1;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, (double)json_integer_value(json_array_get(bins, i)));
    most *= 1.05;
    draw_levels(canvas, in, most);
    for (size_t i = 0; i < n; i++) {
        const int left = in.x + (int)((size_t)in.width * i / n), right = in.x + (int)((size_t)in.width * (i + 1) / n);
        const double count = (double)json_integer_value(json_array_get(bins, i));
        int high_of = (int)lround(count / most * in.height);
        high_of = count > 0 && !high_of ? 1 : high_of;
        cli_canvas_fill(canvas,
                        (struct cli_rect){left, in.y + in.height - high_of, right - left - (right - left > 4), high_of},
                        INK, 1);
    }
    draw_axes(canvas, in);
    draw_ticks(canvas, in, low, high);
}

static int by_count(const void *a, const void *b)
{
    const double x = cli_real(*(const json_t *const *)a, "count"), y = cli_real(*(const json_t *const *)b, "count");
    return x > y                                                                                         ? -1
           : x < y                                                                                       ? 1
           : cli_real(*(const json_t *const *)a, "class") < cli_real(*(const json_t *const *)b, "class") ? -1
                                                                                                         : 1;
}

/* The most frequent classes, one below the other, each in the colour that leat view gives it. */
static void draw_bars(struct cli_canvas *canvas, struct cli_rect in, const json_t *classes)
{
    const json_t *counts = json_object_get(classes, "counts");
    const size_t n = json_array_size(counts), shown = n < CLASSES ? n : CLASSES;
    const json_t **list = malloc((n + 1) * sizeof *list);
    char number[32], clean[120], name[64];
    if (!list)
        return;
    for (size_t i = 0; i < n; i++)
        list[i] = json_array_get(counts, i);
    qsort(list, n, sizeof *list, by_count);
    in.x += 70;
    in.width -= 110;
    const double most = n ? fmax(cli_real(list[0], "count"), 1) : 1;
    for (size_t i = 0; i < shown; i++) {
        const int top = in.y + (int)((size_t)in.height * i / shown), high = in.height / (int)shown;
        const double count = cli_real(list[i], "count");
        const char *said = json_string_value(json_object_get(list[i], "name"));
        snprintf(number, sizeof number, "%.0f", cli_real(list[i], "class"));
        leat_escape(said ? said : number, clean, sizeof clean);
        const int bar = high > 22 ? 18 : high - 4;
        cli_canvas_fill(canvas,
                        (struct cli_rect){in.x, top + (high - bar) / 2, (int)lround(count / most * in.width) + 1, bar},
                        cli_colour((uint64_t)cli_real(list[i], "class")), 1);
        text(canvas, in.x - 8, top + high / 2.0 + 4, SIZE, CLI_INK, 1,
             cli_text_fit(clean, SIZE, 120, name, sizeof name));
        text(canvas, in.x + count / most * in.width + 8, top + high / 2.0 + 4, SIZE, CLI_GREY, 0,
             short_number(count, number));
    }
    const size_t used = (size_t)cli_real(classes, "used");
    if (used > shown) {
        snprintf(clean, sizeof clean, "and %zu more", used - shown);
        text(canvas, in.x, in.y + in.height + 18, SIZE, CLI_GREY, 0, clean);
    }
    free(list);
}

static int by_share(const void *a, const void *b)
{
    const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
    const double n = cli_real(x, "count"), m = cli_real(y, "count");
    return n != m ? (n > m ? -1 : 1)
                  : strcmp(json_string_value(json_object_get(x, "residue")),
                           json_string_value(json_object_get(y, "residue")));
}

/* The most frequent residues side by side, in the colours that leat view gives them. Lower case is paler. */
static void draw_residues(struct cli_canvas *canvas, struct cli_rect in, const json_t *texts)
{
    const json_t *counts = json_object_get(texts, "residues");
    const char *alphabet = json_string_value(json_object_get(texts, "alphabet"));
    const size_t n = json_array_size(counts), shown = n < LETTERS ? n : LETTERS;
    const json_t **list = malloc((n + 1) * sizeof *list);
    char number[32];
    if (!list)
        return;
    for (size_t i = 0; i < n; i++)
        list[i] = json_array_get(counts, i);
    qsort(list, n, sizeof *list, by_share);
    const double most = n ? fmax(cli_real(list[0], "count"), 1) * 1.12 : 1;
    draw_levels(canvas, in, most);
    for (size_t i = 0; i < shown; i++) {
        const char *letter = json_string_value(json_object_get(list[i], "residue"));
        const double count = cli_real(list[i], "count"), share = 100 * cli_real(list[i], "share");
        const int left = in.x + (int)((size_t)in.width * i / shown), wide = in.width / (int)shown,
                  bar = wide > 40      ? 36
                        : wide - 4 > 1 ? wide - 4
                                       : 1,
                  middle = left + wide / 2;
        const int high = count > 0 ? (int)fmax(count / most * in.height, 1) : 0;
        const struct cli_residue_class *class =
            cli_residue_class(alphabet && alphabet[0] == 'n' ? CLI_NUCLEOTIDES : CLI_AMINO_ACIDS, (uint8_t)letter[0]);
        const struct cli_rect rect = {middle - bar / 2, in.y + in.height - high, bar, high};
        cli_canvas_fill(canvas, rect, CLI_WHITE, 1);
        cli_canvas_fill(canvas, rect, class->colour, letter[0] >= 'a' && letter[0] <= 'z' ? 0.5 : 1);
        snprintf(number, sizeof number, share < 10 ? "%.1f" : "%.0f", share);
        if (wide > cli_text_width(number, 7) + 2)
            text(canvas, middle, in.y + in.height - high - 5, 7, CLI_GREY, 0.5, number);
        text(canvas, middle, in.y + in.height + 17, SIZE, CLI_INK, 0.5, letter);
    }
    draw_axes(canvas, in);
    free(list);
}

/* Width across, height up; the area of a disc is how many photos have that shape. */
static void draw_shapes(struct cli_canvas *canvas, struct cli_rect in, const json_t *images)
{
    const json_t *shapes = json_object_get(images, "shapes");
    const double wide = fmax(cli_real(json_object_get(images, "width"), "most"), 1) * 1.08,
                 high = fmax(cli_real(json_object_get(images, "height"), "most"), 1) * 1.08;
    const double all = fmax((double)json_integer_value(json_array_get(json_array_get(shapes, 0), 2)), 1);
    draw_levels(canvas, in, high);
    for (size_t i = 0; i < json_array_size(shapes); i++) {
        const json_t *one = json_array_get(shapes, i);
        const double x = (double)json_integer_value(json_array_get(one, 0)) / wide * in.width,
                     y = (double)json_integer_value(json_array_get(one, 1)) / high * in.height,
                     n = (double)json_integer_value(json_array_get(one, 2));
        const double radius = fmax(2, 13 * sqrt(n / all));
        cli_canvas_disc(canvas, in.x + x, in.y + in.height - y, radius + 1, CLI_WHITE);
        cli_canvas_disc(canvas, in.x + x, in.y + in.height - y, radius, INK);
    }
    draw_axes(canvas, in);
    draw_ticks(canvas, in, 0, wide);
}

static void add(struct charts *charts, enum panel_kind kind, const json_t *data, const json_t *of, const char *unit,
                const char *what)
{
    const char *field = json_string_value(json_object_get(of, "field"));
    char clean[80];
    const bool bins = json_array_size(json_object_get(data, "bins"));
    if (!json_is_object(data) || (kind == HISTOGRAM && !bins) || charts->n == MAX_PANELS)
        return;
    struct panel *panel = &charts->panels[charts->n++];
    *panel = (struct panel){.kind = kind, .unit = unit, .data = data};
    snprintf(panel->title, sizeof panel->title, "%s%s%s", leat_escape(field ? field : "", clean, sizeof clean),
             what[0] ? ": " : "", what);
}

static void choose(struct charts *charts, const json_t *stats)
{
    json_t *one;
    size_t i;
    json_array_foreach(json_object_get(stats, "images"), i, one)
    {
        if (!json_is_object(json_object_get(one, "width")))
            continue;
        add(charts, SHAPES, one, one, "width in pixels; upwards: height", "shapes");
        add(charts, HISTOGRAM, json_object_get(one, "bytes"), one, "bytes", "size of a photo");
    }
    json_array_foreach(json_object_get(stats, "classes"), i, one)
        add(charts, BARS, one, one, "",
            strcmp(json_string_value(json_object_get(one, "per")), "box") ? "samples of a class" : "boxes of a class");
    json_array_foreach(json_object_get(stats, "boxes"), i, one)
    {
        add(charts, HISTOGRAM, json_object_get(one, "per_image"), one, "boxes", "how many a sample has");
        add(charts, HISTOGRAM, json_object_get(one, "side"), one, "square root of the area, pixels", "size");
        add(charts, HISTOGRAM, json_object_get(one, "aspect"), one, "width / height", "aspect");
    }
    json_array_foreach(json_object_get(stats, "sparse"), i, one)
    {
        add(charts, HISTOGRAM, json_object_get(one, "values"), one, "values", "how many a row has");
        add(charts, HISTOGRAM, json_object_get(one, "sums"), one, "sum of the values", "sum of a row");
    }
    json_array_foreach(json_object_get(stats, "lengths"), i, one) if (!cli_stats_per_box(stats, one))
        add(charts, HISTOGRAM, one, one, json_string_value(json_object_get(one, "unit")), "length");
    json_array_foreach(json_object_get(stats, "texts"), i, one) if (json_is_object(json_object_get(one, "characters")))
        add(charts, HISTOGRAM, json_object_get(one, "characters"), one, "characters", "length");
    json_array_foreach(json_object_get(stats, "texts"), i, one)
    {
        add(charts, HISTOGRAM, json_object_get(one, "scores"), one, "Phred+33", "qualities");
        if (json_array_size(json_object_get(one, "residues")))
            add(charts, RESIDUES, one, one, "residues; above: percent", "composition");
    }
    json_array_foreach(json_object_get(stats, "numbers"), i, one) add(charts, HISTOGRAM, one, one, "", "");
}

static void draw_panel(struct cli_canvas *canvas, const struct panel *panel, int x, int y)
{
    const struct cli_rect in = inside_of(x, y);
    char fit[200];
    cli_canvas_fill(canvas, (struct cli_rect){x, y, PANEL_WIDTH, PANEL_HEIGHT}, 0xf7f8fau, 1);
    cli_canvas_clip(canvas, (struct cli_rect){x, y, PANEL_WIDTH, PANEL_HEIGHT});
    text(canvas, x + 16, y + 24, 10, CLI_INK, 0, cli_text_fit(panel->title, 10, PANEL_WIDTH - 32, fit, sizeof fit));
    if (panel->kind == HISTOGRAM)
        draw_histogram(canvas, in, panel->data);
    else if (panel->kind == BARS)
        draw_bars(canvas, in, panel->data);
    else if (panel->kind == RESIDUES)
        draw_residues(canvas, in, panel->data);
    else
        draw_shapes(canvas, in, panel->data);
    text(canvas, in.x + in.width, y + PANEL_HEIGHT - 9, SIZE, CLI_GREY, 1, panel->unit);
    cli_canvas_unclip(canvas);
}

bool cli_stats_plot(const struct cli_command *command, const json_t *stats, const char *path)
{
    struct charts charts = {.n = 0};
    struct cli_canvas canvas;
    char clean[600], fit[600], count[32];
    choose(&charts, stats);
    const int rows = (int)(charts.n + 1) / 2, width = 2 * PANEL_WIDTH + 3 * MARGIN,
              height = 76 + rows * (PANEL_HEIGHT + MARGIN);
    if (!cli_canvas_init(&canvas, width, height, CLI_WHITE)) {
        cli_say(command, "there is no memory for the charts.");
        return false;
    }
    const char *said = json_string_value(json_object_get(stats, "path"));
    leat_escape(said ? said : "", clean, sizeof clean);
    text(&canvas, MARGIN, 36, 13, CLI_INK, 0, cli_text_fit(clean, 13, width - 2 * MARGIN, fit, sizeof fit));
    snprintf(fit, sizeof fit, "%s samples", cli_count((uint64_t)cli_real(stats, "count"), count));
    if (json_is_integer(json_object_get(stats, "broken")))
        snprintf(fit + strlen(fit), sizeof fit - strlen(fit), ", %.0f broken", cli_real(stats, "broken"));
    text(&canvas, MARGIN, 56, 8.5, CLI_GREY, 0, fit);
    for (size_t i = 0; i < charts.n; i++)
        draw_panel(&canvas, &charts.panels[i], MARGIN + (int)(i % 2) * (PANEL_WIDTH + MARGIN),
                   76 + (int)(i / 2) * (PANEL_HEIGHT + MARGIN));
    const int why = cli_canvas_save(&canvas, path);
    cli_canvas_clear(&canvas);
    if (why)
        cli_say_unwritten(command, path, why);
    return !why;
}
