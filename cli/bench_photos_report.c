/*
 * The report of leat bench --photos: a table, advice which form fits which storage, and a plot; or JSON.
 *
 * Storage that gives a core B bytes per second delivers B / (bytes per photo) photos, and the core decodes `rate` of
 * them: training gets the smaller of the two. So forms with few bytes win on slow storage, and fast ones on fast
 * storage. The advice follows the upper edge of these curves.
 *
 *     photos/s                      ______ raw
 *        |            _____ fast ../.........
 *        |  ___ original ../
 *        | /
 *        +------------------------------------ B
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "bench.h"
#include "new_file.h"
#include "plot.h"
#include "print.h"

#define WORTH 1.05 /* a form must be so much faster to be advised; less is noise */

static bool measured(const struct cli_form *form)
{
    return form->dataset && form->rate > 0;
}

/* Bytes per second that a core needs to be given. */
static double needed(const struct cli_form *form)
{
    return form->rate * form->bytes_per_photo;
}

static double packing_rate(const struct cli_form *form)
{
    return form->pack_seconds > 0 ? (double)form->photos / form->pack_seconds : 0;
}

static const char *side_text(unsigned side, char out[32])
{
    snprintf(out, 32, side ? "%u" : "-", side);
    return out;
}

/* Photos that are not in a file, or not in its form. Broken photos are usually so in every form, and then printed
 * once. */
static void print_exceptions(const struct cli_forms *forms)
{
    const struct cli_form *first = NULL;
    bool alike = true;
    char a[32], b[32], c[32];
    for (size_t i = 0; i < forms->n_forms; i++) {
        const struct cli_form *form = &forms->forms[i];
        if (measured(form) && !first)
            first = form;
        alike &= !measured(form) || form->photos == first->photos;
    }
    if (alike && first && first->photos < forms->sampled)
        printf("%s of %s photos are broken and left out.\n", cli_count(forms->sampled - first->photos, a),
               cli_count(forms->sampled, b));
    for (size_t i = 0; i < forms->n_forms; i++) {
        const struct cli_form *form = &forms->forms[i];
        if (!measured(form))
            continue;
        if (!alike && form->photos < forms->sampled)
            printf("%s, max side %s: %s of %s photos are broken and left out.\n", form->name,
                   side_text(form->max_side, a), cli_count(forms->sampled - form->photos, b),
                   cli_count(forms->sampled, c));
        if (form->other)
            printf("%s, max side %s: %s of %s photos cannot have this form and are stored unchanged.\n", form->name,
                   side_text(form->max_side, a), cli_count(form->other, b), cli_count(form->photos, c));
    }
}

static void print_table(const struct cli_forms *forms)
{
    char a[32], b[32], c[32], path[1200];
    printf("%s: %s of %s photos, %s, batches of %" PRIu64 ", %s, one thread.\n%s\n\n",
           leat_escape(forms->path, path, sizeof path), cli_count(forms->sampled, a), cli_count(forms->count, b),
           cli_bytes(forms->source_bytes, c), forms->batch_size, forms->order ? "sequential" : "shuffled",
           forms->program_name);
    printf("%-10s%9s%14s%12s%12s%14s%12s\n", "form", "max side", "bytes/photo", "x as came", "photos/s", "storage",
           "packed/s");
    for (size_t i = 0; i < forms->n_forms; i++) {
        const struct cli_form *form = &forms->forms[i];
        printf("%-10s%9s", form->name, side_text(form->max_side, a));
        if (!measured(form)) {
            printf("   %s\n", form->missing);
            continue;
        }
        printf("%14s%12.2f%12s", cli_bytes((uint64_t)form->bytes_per_photo, a), form->ratio,
               cli_count((uint64_t)form->rate, b));
        printf("%12s/s%12s\n", cli_bytes((uint64_t)needed(form), a), cli_count((uint64_t)packing_rate(form), b));
    }
    print_exceptions(forms);
    printf("\nAll rates are of one core: photos/s of training, storage that this reads, packed/s of its CPU time. This "
           "process may use %u "
           "core%s.\n",
           leat_cpu_count(), leat_cpu_count() == 1 ? "" : "s");
}

/* ---- advice ---------------------------------------------------------------------------------- */

/* The form to prefer to `form` (NULL: the first) when storage gets faster: among those that are enough faster, the one
 * with the fewest bytes. NULL: there is none. */
static const struct cli_form *next_form(const struct cli_forms *forms, unsigned side, const struct cli_form *form)
{
    const struct cli_form *best = NULL;
    for (size_t i = 0; i < forms->n_forms; i++) {
        const struct cli_form *other = &forms->forms[i];
        if (!measured(other) || other->max_side != side || (form && other->rate < form->rate * WORTH))
            continue;
        if (!best || other->bytes_per_photo < best->bytes_per_photo)
            best = other;
    }
    return best;
}

/* One sentence on the forms of one largest side. "" if none was measured. */
static void advise(const struct cli_forms *forms, unsigned side, char *out, size_t room)
{
    const struct cli_form *form = next_form(forms, side, NULL), *next;
    char a[32];
    size_t used;
    out[0] = 0;
    if (!form)
        return;
    if (side)
        used = (size_t)snprintf(out, room, "Photos of at most %u pixels a side: ", side);
    else
        used = (size_t)snprintf(out, room, "Photos in their own size: ");
    next = next_form(forms, side, form);
    if (!next) {
        snprintf(out + used, room - used, "%s; no other form is faster by 5%%.", form->name);
        return;
    }
    used += (size_t)snprintf(out + used, room - used, "%s, up to %s/s of storage for each core", form->name,
                             cli_bytes((uint64_t)(form->rate * next->bytes_per_photo), a));
    while (next && used < room) {
        const double times = next->rate / form->rate;
        form = next;
        next = next_form(forms, side, form);
        used += (size_t)snprintf(out + used, room - used, "; then %s", form->name);
        if (used < room && next)
            used += (size_t)snprintf(out + used, room - used, ", up to %s/s",
                                     cli_bytes((uint64_t)(form->rate * next->bytes_per_photo), a));
        if (used < room)
            used += (size_t)snprintf(out + used, room - used, " (%.1f times as many photos, where there are %s/s)",
                                     times, cli_bytes((uint64_t)needed(form), a));
    }
    if (used < room)
        snprintf(out + used, room - used, ".");
}

static void print_advice(const struct cli_forms *forms)
{
    char text[1024];
    putchar('\n');
    for (size_t s = 0; s < forms->n_sides; s++) {
        advise(forms, forms->sides[s], text, sizeof text);
        if (text[0])
            printf("%s\n", text);
    }
    if (forms->n_sides > 1)
        printf("Resizing changes photos: fewer pixels, encoded again.\n");
    printf("Photos that stay in memory from epoch to epoch need no storage: then take the fastest form that fits.\n");
}

/* ---- plot ------------------------------------------------------------------------------------ */

static const char *bytes_text(double value, char *out)
{
    if (value < 999.5)
        snprintf(out, 32, "%.0f B", value);
    else if (value < 999.5e3)
        snprintf(out, 32, "%.0f kB", value / 1e3);
    else
        snprintf(out, 32, "%.0f MB", value / 1e6);
    return out;
}

static int draw_svg(FILE *out, const void *drawing)
{
    cli_plot_svg(out, drawing);
    return 0;
}

/* In the terminal, and as SVG if a file is named. */
static int plot(const struct cli_forms *forms)
{
    struct cli_plot_point points[CLI_PLOT_POINTS] = {0};
    struct cli_plot drawing = {.title = "Photos: bytes at rest and training speed",
                               .x_title = "bytes per photo (logarithmic)",
                               .y_title = "photos per second, one core",
                               .text = bytes_text,
                               .marks = "ofr",
                               .points = points};
    for (size_t i = 0; i < forms->n_forms && drawing.n < CLI_PLOT_POINTS; i++) {
        const struct cli_form *form = &forms->forms[i];
        if (!measured(form))
            continue;
        struct cli_plot_point *point = &points[drawing.n++];
        *point = (struct cli_plot_point){.x = form->bytes_per_photo, .y = form->rate, .series = form->form};
        if (form->max_side)
            snprintf(point->label, sizeof point->label, "%s %u", form->name, form->max_side);
        else
            snprintf(point->label, sizeof point->label, "%s", form->name);
    }
    if (!forms->json) {
        putchar('\n');
        cli_plot_text(stdout, &drawing);
    }
    if (!forms->plot_path)
        return CLI_EXIT_OK;
    const int why = cli_new_file_write(forms->plot_path, draw_svg, &drawing);
    if (!why)
        return CLI_EXIT_OK;
    cli_say(forms->command, "%s: the plot could not be written: %s%s.", forms->plot_path, strerror(why),
            cli_if_full(why));
    return CLI_EXIT_FAILED;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *form_json(const struct cli_form *form)
{
    json_t *side = form->max_side ? json_integer((json_int_t)form->max_side) : json_null(), *runs = json_array();
    if (!measured(form)) {
        json_decref(runs);
        return json_pack("{ss so ss}", "form", form->name, "max_side", side, "missing", form->missing);
    }
    for (size_t r = 0; r < CLI_FORMS_ROUNDS; r++)
        json_array_append_new(runs, json_real(form->rates[r]));
    return json_pack("{ss so sI sI sf sf sf so sf sf}", "form", form->name, "max_side", side, "photos",
                     (json_int_t)form->photos, "photos_as_they_came", (json_int_t)form->other, "bytes_per_photo",
                     form->bytes_per_photo, "ratio", form->ratio, "photos_per_second", form->rate, "runs", runs,
                     "storage_bytes_per_second", needed(form), "packed_per_second", packing_rate(form));
}

static void print_json(const struct cli_forms *forms)
{
    json_t *list = json_array(), *advice = json_array();
    char text[1024];
    for (size_t i = 0; i < forms->n_forms; i++)
        json_array_append_new(list, form_json(&forms->forms[i]));
    for (size_t s = 0; s < forms->n_sides; s++) {
        advise(forms, forms->sides[s], text, sizeof text);
        if (text[0])
            json_array_append_new(advice, json_string(text));
    }
    cli_print_json(json_pack("{so? sI sI sf so? sI ss si ss so so}", "path", cli_json_text(forms->path), "count",
                             (json_int_t)forms->count, "samples", (json_int_t)forms->sampled, "source_bytes_per_photo",
                             (double)forms->source_bytes / (double)forms->sampled, "program",
                             json_string(forms->program_name), "batch_size", (json_int_t)forms->batch_size, "order",
                             forms->order ? "sequential" : "shuffled", "cores", (int)leat_cpu_count(), "version",
                             leat_version(), "forms", list, "advice", advice));
}

int cli_report_forms(const struct cli_forms *forms)
{
    if (forms->json) {
        print_json(forms);
    } else {
        print_table(forms);
        print_advice(forms);
    }
    return plot(forms);
}
