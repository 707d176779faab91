/*
 *     title                          60 residues a line, in groups of ten, each a cell in the colour of its class;
 *     note                           below it its quality: the darker the better
 *     [] aliphatic  [] aromatic ..
 *     sample 4: sp|P1, 354 residues  a description
 *            0  MHPKIFALLA KFPRVELIPW
 *           60  ...
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/canvas.h"
#include "draw/font.h"
#include "print.h"
#include "view/sequences.h"

enum {
    MARGIN = 20,
    HEADING = 92,
    NAME = 32,   /* of a sequence: its first line */
    NUMBER = 92, /* left of its lines */
    CELL = 14,   /* width of a residue */
    HIGH = 18,   /* height of one */
    QUALITY = 7, /* and of its quality */
    BETWEEN = 3, /* lines */
    GAP = 8,     /* between groups */
    BEHIND = 14, /* a sequence */
    BEST = 42,   /* quality that is all ink */
    WIDTH = 2 * MARGIN + NUMBER + CLI_LINE * CELL + (CLI_LINE / CLI_GROUP - 1) * GAP
};

static int line_height(const struct cli_sequences *s)
{
    return HIGH + BETWEEN + (s->qualities >= 0 ? QUALITY : 0);
}

static int64_t height_of(const struct cli_sequences *s, const struct cli_sequence *one)
{
    char text[120];
    int64_t lines = 0;
    for (size_t p = 0; p < one->n_parts; p++)
        lines += (int64_t)((one->parts[p].n + CLI_LINE - 1) / CLI_LINE) + (cli_sequence_left_out(one, p, text)[0] != 0);
    return NAME + (lines ? lines : 1) * line_height(s) + BEHIND;
}

static void draw_legend(struct cli_canvas *canvas, const struct cli_sequences *s)
{
    double x = MARGIN;
    for (unsigned n = 0; n < CLI_RESIDUE_CLASSES; n++) {
        const struct cli_residue_class *class = cli_residue_class_at(s->alphabet, n);
        char text[64];
        if (!class->letters)
            continue;
        cli_canvas_fill(canvas, (struct cli_rect){(int)x, MARGIN + 44, 12, 12}, class->colour, 1);
        snprintf(text, sizeof text, s->alphabet == CLI_NUCLEOTIDES || n == CLI_OTHER_RESIDUES ? "%s" : "%s %s",
                 class->name, class->letters);
        cli_canvas_text(canvas, x + 18, MARGIN + 54, 8, CLI_GREY, text);
        x += cli_text_width(text, 8) + 40;
    }
}

/* Lower case is paler. */
static void draw_line(struct cli_canvas *canvas, const struct cli_sequences *s, const uint8_t *at,
                      const uint8_t *qualities, size_t n, int y)
{
    for (size_t i = 0; i < n; i++) {
        const int x = MARGIN + NUMBER + (int)i * CELL + (int)(i / CLI_GROUP) * GAP;
        const bool lower = at[i] >= 'a' && at[i] <= 'z';
        const char text[2] = {at[i] >= '!' && at[i] <= '~' ? (char)at[i] : '?'};
        cli_canvas_fill(canvas, (struct cli_rect){x, y, CELL, HIGH}, cli_residue_class(s->alphabet, at[i])->colour,
                        lower ? 0.35 : 1);
        cli_canvas_text(canvas, x + (CELL - cli_text_width(text, 9)) / 2, y + 13.5, 9, CLI_INK, text);
        if (!qualities)
            continue;
        const int q = qualities[i] > '!' ? qualities[i] - '!' : 0;
        cli_canvas_fill(canvas, (struct cli_rect){x, y + HIGH, CELL, QUALITY}, 0xe9eaedu, 1);
        cli_canvas_fill(canvas, (struct cli_rect){x, y + HIGH, CELL, QUALITY}, CLI_INK,
                        q < BEST ? 0.8 * q / BEST : 0.8);
    }
}

static void draw_sequence(struct cli_canvas *canvas, const struct cli_sequences *s, size_t i,
                          const struct cli_sequence *one, int y)
{
    char text[700], fit[700], count[32];
    snprintf(text, sizeof text, "sample %" PRId64 ": %s%s%s residues", s->positions[i], one->name,
             one->name[0] ? ", " : "", cli_count(one->length, count));
    cli_canvas_text(canvas, MARGIN, y + 18, 10, CLI_INK, cli_text_fit(text, 10, WIDTH - 2 * MARGIN, fit, sizeof fit));
    const double x = MARGIN + cli_text_width(fit, 10) + 16;
    if (x + 60 < WIDTH - MARGIN)
        cli_canvas_text(canvas, x, y + 18, 8, CLI_GREY,
                        cli_text_fit(one->description, 8, WIDTH - MARGIN - x, text, sizeof text));
    y += NAME;
    if (one->error[0]) {
        snprintf(text, sizeof text, "broken: %s", one->error);
        cli_canvas_text(canvas, MARGIN, y + 12, 8, 0xb00020u,
                        cli_text_fit(text, 8, WIDTH - 2 * MARGIN, fit, sizeof fit));
    }
    for (size_t p = 0; p < one->n_parts; p++) {
        const struct cli_part *part = &one->parts[p];
        for (uint64_t k = 0; k < part->n; k += CLI_LINE, y += line_height(s)) {
            cli_count(part->begin + k, count);
            cli_canvas_text(canvas, MARGIN + NUMBER - 12 - cli_text_width(count, 8), y + 13, 8, CLI_GREY, count);
            draw_line(canvas, s, part->residues + k, part->qualities ? part->qualities + k : NULL,
                      part->n - k < CLI_LINE ? (size_t)(part->n - k) : CLI_LINE, y);
        }
        char left_out[120];
        if (!cli_sequence_left_out(one, p, left_out)[0])
            continue;
        cli_canvas_text(canvas, MARGIN + NUMBER, y + 13, 8, CLI_GREY, left_out);
        y += line_height(s);
    }
}

bool cli_sequences_draw(const struct cli_command *command, const struct cli_sequences *s, const char *note,
                        const char *path, int *width, int *height)
{
    struct cli_sequence one;
    struct cli_canvas canvas;
    struct leat_error error;
    int64_t high = HEADING + MARGIN;
    char text[700];
    for (size_t i = 0; i < s->n; i++) {
        cli_sequence_plan(s, i, &one);
        high += height_of(s, &one);
    }
    *width = WIDTH;
    *height = (int)high;
    if (high > 65535) {
        cli_say(command,
                "the sheet would have %d x %lld pixels: show fewer sequences (--samples) or residues "
                "(--residues).",
                WIDTH, (long long)high);
        return false;
    }
    if (!cli_canvas_init(&canvas, WIDTH, (int)high, CLI_WHITE)) {
        cli_say(command, "there is no memory for a sheet of %d x %lld pixels.", WIDTH, (long long)high);
        return false;
    }
    cli_canvas_text(&canvas, MARGIN, MARGIN + 13, 13, CLI_INK,
                    cli_text_fit(s->title, 13, WIDTH - 2 * MARGIN, text, sizeof text));
    cli_canvas_text(&canvas, MARGIN, MARGIN + 32, 8.5, CLI_GREY, note);
    draw_legend(&canvas, s);
    int rc = LEAT_OK;
    for (size_t i = 0, y = HEADING; i < s->n && !rc; i++) {
        rc = cli_sequence_read(s, i, &one, &error);
        if (rc)
            break;
        draw_sequence(&canvas, s, i, &one, (int)y);
        struct cli_sequence planned;
        cli_sequence_plan(s, i, &planned);
        y += (size_t)height_of(s, &planned);
        cli_sequence_clear(&one);
    }
    const int why = rc ? 0 : cli_canvas_save(&canvas, path);
    cli_canvas_clear(&canvas);
    if (rc)
        cli_fail(command, &error, NULL);
    if (why)
        cli_say_unwritten(command, path, why);
    return !rc && !why;
}
