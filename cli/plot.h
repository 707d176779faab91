/*
 * A plot of a few labelled points, as text for a terminal and as SVG: across on a logarithmic axis, up from 0.
 */
#ifndef LEAT_CLI_PLOT_H
#define LEAT_CLI_PLOT_H

#include <stddef.h>
#include <stdio.h>

struct cli_plot_point {
    double x, y;     /* x above 0, y not below it */
    char label[32];  /* stands beside the point if there is room */
    unsigned series; /* points of one series have one mark (and, as SVG, one colour) and are joined in the order of x */
};

struct cli_plot {
    const char *title, *x_title, *y_title;        /* with the units */
    const char *(*text)(double value, char *out); /* the text at a tick of the axis across; 32 bytes */
    const char *marks;                            /* of the series, in a terminal; at least one */
    const struct cli_plot_point *points;
    size_t n;
};

#define CLI_PLOT_POINTS 64 /* further ones are left out */

void cli_plot_text(FILE *out, const struct cli_plot *plot);
void cli_plot_svg(FILE *out, const struct cli_plot *plot);

#endif
