/*
 * Plots. A terminal is a grid of characters and an SVG a plane of pixels, but both need round ticks, places of points,
 * and labels that hide neither a point nor another label. So both draw into a frame in their own unit, and only the
 * last step differs.
 *
 *     y title                      frame: width x height, left and top are 0
 *     ^   +---------------------+
 *     |   |  o label            |  a label is tried to the right of its point, to the left, above, below, then at the
 *     |   |        label o      |  corners and further away; one that fits nowhere is left out
 *         +---------------------+
 *             x title, logarithmic
 */
#include "plot.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define TICKS 24

struct frame {
    double width, height;           /* of the inside */
    double x_least, x_most, y_most; /* in values */
    double x_ticks[TICKS], y_step;  /* in values */
    size_t n_x_ticks;
};

struct box {
    double left, top, width, height;
    bool shown;
};

/* The size of marks and labels, in units of the frame. */
struct metrics {
    double mark, gap, line; /* half of a mark; from a mark to its label; height of a label */
    double character;       /* width of one of a label */
};

/* The largest of 1, 2 and 5 times a power of ten that is not above `value`. */
static double round_down(double value)
{
    const double power = pow(10, floor(log10(value))), rest = value / power;
    return power * (rest >= 5 ? 5 : rest >= 2 ? 2 : 1);
}

static struct frame make_frame(const struct cli_plot *plot, double width, double height)
{
    struct frame frame = {.width = width, .height = height};
    double least = INFINITY, most = 0, high = 0;
    for (size_t i = 0; i < plot->n; i++) {
        least = fmin(least, plot->points[i].x);
        most = fmax(most, plot->points[i].x);
        high = fmax(high, plot->points[i].y);
    }
    if (!plot->n)
        least = most = 1;
    /* Room at both sides for labels, and at least a decade, so that points that are near look near. */
    const double spread = fmax(most / least * 2, 10), middle = sqrt(least * most);
    frame.x_least = middle / sqrt(spread);
    frame.x_most = middle * sqrt(spread);
    frame.y_step = round_down(high > 0 ? high / 3 : 1);
    frame.y_most = frame.y_step * (floor(high / frame.y_step + 0.25) + 1);
    for (double power = pow(10, floor(log10(frame.x_least))); power <= frame.x_most; power *= 10)
        for (int i = 0; i < 3; i++) {
            const double tick = power * (i == 0 ? 1 : i == 1 ? 2 : 5);
            if (tick >= frame.x_least && tick <= frame.x_most && frame.n_x_ticks < TICKS)
                frame.x_ticks[frame.n_x_ticks++] = tick;
        }
    return frame;
}

static double across(const struct frame *frame, double x)
{
    return frame->width * log(x / frame->x_least) / log(frame->x_most / frame->x_least);
}

static double down(const struct frame *frame, double y)
{
    return frame->height * (1 - y / frame->y_most);
}

static bool overlap(const struct box *a, const struct box *b)
{
    return a->left < b->left + b->width && b->left < a->left + a->width && a->top < b->top + b->height &&
           b->top < a->top + a->height;
}

/* Places the labels one after the other. `marks` are the boxes of the points, on whole units if `whole`. */
static void place_labels(const struct cli_plot *plot, const struct frame *frame, const struct metrics *m,
                         const struct box *marks, size_t n, bool whole, struct box *labels)
{
    /* Steps from the mark's centre: sideways -1 left of it, 0 centred, 1 right of it; then lines down. */
    static const struct {
        int side;
        double lines;
    } tries[] = {{1, 0},  {-1, 0}, {0, -1}, {0, 1},   {1, -1}, {1, 1},  {-1, -1},
                 {-1, 1}, {1, -2}, {1, 2},  {-1, -2}, {-1, 2}, {0, -2}, {0, 2}};
    for (size_t i = 0; i < n; i++) {
        struct box *label = &labels[i];
        const double width = m->character * (double)strlen(plot->points[i].label);
        const double x = marks[i].left + marks[i].width / 2, y = marks[i].top + marks[i].height / 2;
        *label = (struct box){.width = width, .height = m->line};
        for (size_t t = 0; t < sizeof tries / sizeof *tries && !label->shown; t++) {
            const int side = tries[t].side;
            label->left = side > 0 ? x + m->mark + m->gap : side < 0 ? x - m->mark - m->gap - width : x - width / 2;
            label->top = y - m->line / 2 + tries[t].lines * fmax(m->line, m->mark + m->line / 2);
            if (whole)
                label->left = floor(label->left);
            label->shown = label->left >= 0 && label->top >= 0 && label->left + width <= frame->width &&
                           label->top + m->line <= frame->height;
            for (size_t j = 0; j < n && label->shown; j++)
                label->shown =
                    !overlap(label, &marks[j]) && (j >= i || !labels[j].shown || !overlap(label, &labels[j]));
        }
    }
}

/* Points of a plot that are drawn. */
static size_t drawn(const struct cli_plot *plot)
{
    return plot->n < CLI_PLOT_POINTS ? plot->n : CLI_PLOT_POINTS;
}

/* ---- text ------------------------------------------------------------------------------------ */

enum { COLUMNS = 68, ROWS = 17, MARGIN = 9 };

static void put(char *row, size_t at, const char *text)
{
    for (; *text && at < COLUMNS; text++, at++)
        row[at] = *text;
}

/* One line with the numbers under the axis; a tick whose number has no room is left bare. */
static void print_x_axis(FILE *out, const struct cli_plot *plot, const struct frame *frame)
{
    char rule[COLUMNS + 1], numbers[COLUMNS + 17], text[32];
    size_t used = 0;
    memset(rule, '-', COLUMNS);
    memset(numbers, ' ', sizeof numbers);
    rule[COLUMNS] = 0;
    for (size_t i = 0; i < frame->n_x_ticks; i++) {
        const size_t at = (size_t)across(frame, frame->x_ticks[i]);
        const size_t length = strlen(plot->text(frame->x_ticks[i], text));
        const size_t first = at > length / 2 ? at - length / 2 : 0;
        if (at < COLUMNS)
            rule[at] = '+';
        if (first < used || first + length > sizeof numbers - 1)
            continue;
        memcpy(numbers + first, text, length);
        used = first + length + 2;
    }
    size_t end = sizeof numbers - 1;
    while (end && numbers[end - 1] == ' ')
        end--;
    numbers[end] = 0;
    fprintf(out, "%*s +%s\n%*s  %s\n%*s  %s\n", MARGIN, "0", rule, MARGIN, "", numbers, MARGIN, "", plot->x_title);
}

void cli_plot_text(FILE *out, const struct cli_plot *plot)
{
    static const struct metrics metrics = {.mark = 0.5, .gap = 1, .line = 1, .character = 1};
    const struct frame frame = make_frame(plot, COLUMNS, ROWS);
    const size_t n = drawn(plot);
    struct box points[CLI_PLOT_POINTS], labels[CLI_PLOT_POINTS];
    char grid[ROWS][COLUMNS + 1];
    for (size_t i = 0; i < n; i++)
        points[i] = (struct box){floor(across(&frame, plot->points[i].x)),
                                 fmin(floor(down(&frame, plot->points[i].y)), ROWS - 1), 1, 1, true};
    place_labels(plot, &frame, &metrics, points, n, true, labels);
    for (size_t r = 0; r < ROWS; r++) {
        memset(grid[r], ' ', COLUMNS);
        grid[r][COLUMNS] = 0;
    }
    for (size_t i = 0; i < n; i++)
        if (labels[i].shown)
            put(grid[(size_t)labels[i].top], (size_t)labels[i].left, plot->points[i].label);
    for (size_t i = 0; i < n; i++)
        grid[(size_t)points[i].top][(size_t)points[i].left] = plot->marks[plot->points[i].series % strlen(plot->marks)];
    fprintf(out, "%s\n\n%s\n", plot->title, plot->y_title);
    for (size_t r = 0; r < ROWS; r++) {
        char number[32] = "";
        /* The tick that falls into this row, if there is one. */
        const double top = frame.y_most * (1 - (double)r / ROWS), bottom = frame.y_most * (1 - (double)(r + 1) / ROWS);
        const double tick = frame.y_step * floor(top / frame.y_step + 1e-9);
        if (tick > bottom && tick > 0)
            snprintf(number, sizeof number, "%.*f", frame.y_step < 1 ? 2 : 0, tick);
        size_t end = COLUMNS;
        while (end && grid[r][end - 1] == ' ')
            end--;
        grid[r][end] = 0;
        fprintf(out, "%*s %s%s\n", MARGIN, number, number[0] ? "+" : "|", grid[r]);
    }
    print_x_axis(out, plot, &frame);
}

/* ---- SVG ------------------------------------------------------------------------------------- */

enum { LEFT = 84, TOP = 52, WIDTH = 640, HEIGHT = 380, RIGHT = 24, BOTTOM = 64 };

/* Colours that people who see few of them tell apart (Okabe and Ito's). */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
#define N_COLOURS (sizeof colours / sizeof *colours)

static void print_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '<')
            fputs("&lt;", out);
        else if (c == '>')
            fputs("&gt;", out);
        else if (c == '&')
            fputs("&amp;", out);
        else
            fputc(c < 0x20 ? ' ' : c, out);
    }
}

static void print_text(FILE *out, double x, double y, const char *attributes, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    print_escaped(out, text);
    fputs("</text>\n", out);
}

static void print_axes(FILE *out, const struct cli_plot *plot, const struct frame *frame)
{
    char text[32], rotate[96];
    fprintf(out, "<g stroke=\"#dddddd\">\n");
    for (size_t i = 0; i < frame->n_x_ticks; i++) {
        const double x = LEFT + across(frame, frame->x_ticks[i]);
        fprintf(out, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", x, TOP, x, TOP + HEIGHT);
    }
    for (double y = frame->y_step; y < frame->y_most * (1 + 1e-9); y += frame->y_step)
        fprintf(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n", LEFT, TOP + down(frame, y), LEFT + WIDTH,
                TOP + down(frame, y));
    fprintf(out, "</g>\n<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#333333\"/>\n", LEFT, TOP, TOP + HEIGHT,
            LEFT + WIDTH);
    for (size_t i = 0; i < frame->n_x_ticks; i++)
        print_text(out, LEFT + across(frame, frame->x_ticks[i]), TOP + HEIGHT + 19, "text-anchor=\"middle\"",
                   plot->text(frame->x_ticks[i], text));
    for (double y = 0; y < frame->y_most * (1 + 1e-9); y += frame->y_step) {
        snprintf(text, sizeof text, "%.*f", frame->y_step < 1 ? 2 : 0, y);
        print_text(out, LEFT - 8, TOP + down(frame, y) + 4.5, "text-anchor=\"end\"", text);
    }
    print_text(out, LEFT + WIDTH / 2.0, TOP + HEIGHT + 47, "text-anchor=\"middle\"", plot->x_title);
    snprintf(rotate, sizeof rotate, "text-anchor=\"middle\" transform=\"rotate(-90 22 %.1f)\"", TOP + HEIGHT / 2.0);
    print_text(out, 22, TOP + HEIGHT / 2.0, rotate, plot->y_title);
}

/* Joins the points of each series, from left to right. */
static void print_lines(FILE *out, const struct cli_plot *plot, const struct frame *frame, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        /* The nearest point of the series to the right of this one, or the next of the same x. */
        size_t next = n;
        for (size_t j = 0; j < n; j++) {
            const struct cli_plot_point *a = &plot->points[i], *b = &plot->points[j];
            if (a->series != b->series || b->x < a->x || (b->x == a->x && j <= i))
                continue;
            if (next == n || b->x < plot->points[next].x)
                next = j;
        }
        if (next < n)
            fprintf(out,
                    "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-opacity=\"0.4\"/>\n",
                    LEFT + across(frame, plot->points[i].x), TOP + down(frame, plot->points[i].y),
                    LEFT + across(frame, plot->points[next].x), TOP + down(frame, plot->points[next].y),
                    colours[plot->points[i].series % N_COLOURS]);
    }
}

/* A circle, a square or a diamond, by the series. */
static void print_mark(FILE *out, double x, double y, unsigned series)
{
    const char *colour = colours[series % N_COLOURS];
    if (series % 3 == 0)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>\n", x, y, colour);
    else if (series % 3 == 1)
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" fill=\"%s\"/>\n", x - 4.5, y - 4.5, colour);
    else
        fprintf(out, "<path d=\"M%.1f %.1fl6 6l-6 6l-6 -6z\" fill=\"%s\"/>\n", x, y - 6, colour);
}

void cli_plot_svg(FILE *out, const struct cli_plot *plot)
{
    static const struct metrics metrics = {.mark = 6, .gap = 3, .line = 16, .character = 7};
    const struct frame frame = make_frame(plot, WIDTH, HEIGHT);
    const size_t n = drawn(plot);
    struct box points[CLI_PLOT_POINTS], labels[CLI_PLOT_POINTS];
    for (size_t i = 0; i < n; i++)
        points[i] =
            (struct box){across(&frame, plot->points[i].x) - 6, down(&frame, plot->points[i].y) - 6, 12, 12, true};
    place_labels(plot, &frame, &metrics, points, n, false, labels);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" "
            "font-size=\"13\" fill=\"#333333\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM, LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM);
    print_text(out, LEFT, 30, "font-size=\"16\"", plot->title);
    print_axes(out, plot, &frame);
    print_lines(out, plot, &frame, n);
    for (size_t i = 0; i < n; i++)
        print_mark(out, LEFT + across(&frame, plot->points[i].x), TOP + down(&frame, plot->points[i].y),
                   plot->points[i].series);
    for (size_t i = 0; i < n; i++)
        if (labels[i].shown)
            print_text(out, LEFT + labels[i].left, TOP + labels[i].top + 12, "", plot->points[i].label);
    fprintf(out, "</svg>\n");
}
