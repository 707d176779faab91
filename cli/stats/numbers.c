/* Quantiles and histograms. */
#include <math.h>
#include <stdlib.h>

#include "stats/stats.h"

/* KEPT: 32 MB of numbers for each distribution; a quantile of 1% is then that of 40,000 and more. */
enum { BINS = 24, KEPT = 1 << 22 };

static bool keep(struct cli_numbers *numbers, double value)
{
    if (numbers->n == KEPT) {
        for (size_t i = 0; i < KEPT / 2; i++)
            numbers->at[i] = numbers->at[2 * i];
        numbers->n = KEPT / 2;
        numbers->stride *= 2;
    }
    if (numbers->n == numbers->room) {
        const size_t room = numbers->room ? 2 * numbers->room : 256;
        double *at = realloc(numbers->at, room * sizeof *at);
        if (!at)
            return false;
        numbers->at = at;
        numbers->room = room;
    }
    numbers->at[numbers->n++] = value;
    return true;
}

bool cli_numbers_add(struct cli_numbers *numbers, double value)
{
    numbers->stride = numbers->stride ? numbers->stride : 1;
    if (numbers->all % numbers->stride == 0 && !keep(numbers, value))
        return false;
    numbers->sum += value;
    numbers->least = numbers->all ? fmin(numbers->least, value) : value;
    numbers->most = numbers->all ? fmax(numbers->most, value) : value;
    numbers->all++;
    return true;
}

void cli_numbers_clear(struct cli_numbers *numbers)
{
    free(numbers->at);
    *numbers = (struct cli_numbers){0};
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(const struct cli_numbers *numbers, double part)
{
    return numbers->at[(size_t)(part * (double)(numbers->n - 1) + 0.5)];
}

/* The least of 1, 2, 2.5 and 5 times a power of ten that is not below `width`. */
static double round_up(double width)
{
    static const double steps[] = {1, 2, 2.5, 5, 10};
    const double power = pow(10, floor(log10(width)));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i] * power >= width * (1 - 1e-9))
            return steps[i] * power;
    return 10 * power;
}

/* Bins of a round width. Values beyond the 99.5th percentile are in the last one, so that one odd value does not leave
 * all others in the first. A bin is at least so wide that doubles of this size can tell its edges apart. */
static void histogram(const struct cli_numbers *numbers, bool whole, json_t *into)
{
    const double least = numbers->least, most = fmax(quantile(numbers, 0.995), least);
    json_t *edges = json_array(), *bins = json_array();
    json_object_set_new(into, "edges", edges);
    json_object_set_new(into, "bins", bins);
    if (!(most - least < 1e300 && fabs(least) < 1e300))
        return;
    double width = round_up(fmax(fmax((most - least) / BINS, 1e-9), ldexp(fmax(fabs(least), fabs(most)), -46)));
    if (whole)
        width = fmax(1, ceil(width));
    const double first = floor(least / width) * width;
    size_t n = (size_t)fmin(floor((most - first) / width) + 1, BINS + 2);
    uint64_t counts[BINS + 2] = {0};
    for (size_t i = 0; i < numbers->n; i++) {
        const double at = fmax(0, (numbers->at[i] - first) / width);
        counts[at < (double)n ? (size_t)at : n - 1]++;
    }
    for (size_t i = 0; i <= n; i++) {
        json_array_append_new(edges, json_real(first + (double)i * width));
        if (i < n)
            json_array_append_new(bins, json_integer((json_int_t)(counts[i] * numbers->all / numbers->n)));
    }
}

json_t *cli_numbers_json(struct cli_numbers *numbers, bool whole)
{
    static const struct {
        const char *key;
        double part;
    } parts[] = {{"p5", 0.05}, {"median", 0.5}, {"p95", 0.95}};
    if (!numbers->n)
        return json_null();
    qsort(numbers->at, numbers->n, sizeof *numbers->at, compare);
    json_t *q = json_pack("{sf sf}", "least", numbers->least, "most", numbers->most);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        json_object_set_new(q, parts[i].key, json_real(quantile(numbers, parts[i].part)));
    const double mean = numbers->sum / (double)numbers->all;
    json_object_set_new(q, "mean", isfinite(mean) ? json_real(mean) : json_null());
    histogram(numbers, whole, q);
    return q;
}

void cli_numbers_quartiles(const struct cli_numbers *numbers, json_t *q)
{
    if (!json_is_object(q))
        return;
    json_object_set_new(q, "p25", json_real(quantile(numbers, 0.25)));
    json_object_set_new(q, "p75", json_real(quantile(numbers, 0.75)));
}
