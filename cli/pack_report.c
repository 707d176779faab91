/*
 * The report of leat pack: counts per class, broken photos and the reasons, sizes and rates.
 */
#include "pack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "print.h"

#define SHOWN_BAD 20
#define SHOWN_REASONS 5
#define SHOWN_CLASSES 24 /* of more, only the largest and smallest are shown */
#define SHOWN_ENDS 5

struct tally {
    size_t class;
    uint64_t samples, bad;
};

/* The path of a bad sample, or its number if it was not added by path. */
static const char *bad_name(const struct leat_bad_sample *bad, char *out, size_t room)
{
    if (bad->name[0])
        return leat_escape(bad->name, out, room);
    snprintf(out, room, "sample %" PRIu64, bad->index);
    return out;
}

/* Writes all bad samples as JSON lines beside the target, or removes the list of an earlier pack of this target. */
static bool write_bad_list(const struct cli_pack *pack, const char *path, size_t *n)
{
    struct leat_bad_sample bad;
    FILE *file = NULL;
    *n = 0;
    if (!leat_writer_bad(pack->writer, 0, &bad)) {
        remove(path);
        return true;
    }
    file = fopen(path, "w");
    for (; file && leat_writer_bad(pack->writer, *n, &bad); ++*n) {
        json_t *line = json_pack("{sI sb}", "index", (json_int_t)bad.index, "skipped", (int)bad.skipped);
        json_object_set_new(line, "path", cli_json_text(bad.name));
        json_object_set_new(line, "reason", cli_json_text(bad.reason));
        json_dumpf(line, file, JSON_COMPACT);
        fputc('\n', file);
        json_decref(line);
    }
    if (file && !(fflush(file) | ferror(file)) && !fclose(file))
        return true;
    cli_say(pack->command, "%s is packed, but the list of broken photos could not be written to %s: %s%s.", pack->dst,
            path, strerror(errno), cli_if_full(errno));
    return false;
}

static int by_size(const void *a, const void *b)
{
    const struct tally *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples < y->samples ? 1 : -1;
    return x->class < y->class ? -1 : 1;
}

static void print_class(const char *name, const struct tally *tally, int width)
{
    char clean[256], count[32];
    leat_escape(name, clean, sizeof clean);
    printf("  %-*s %12s", cli_padded(clean, width), clean, cli_count(tally->samples, count));
    if (tally->bad)
        printf("  (%" PRIu64 " broken)", tally->bad);
    putchar('\n');
}

static void print_classes(const struct cli_pack *pack)
{
    size_t n;
    const char *const *names = leat_dataset_classes(pack->dataset, &n);
    const int64_t *labels = pack->labels_column.data;
    struct tally *tallies = n && labels ? calloc(n, sizeof *tallies) : NULL;
    struct leat_bad_sample bad;
    if (!tallies)
        return;
    int width = 5;
    for (size_t c = 0; c < n; c++) {
        tallies[c].class = c;
        int columns = cli_columns(names[c]);
        if (columns > width)
            width = columns < 60 ? columns : 60;
    }
    for (uint64_t i = 0; i < pack->count; i++)
        if (labels[i] >= 0 && (uint64_t)labels[i] < n)
            tallies[labels[i]].samples++;
    for (size_t i = 0; leat_writer_bad(pack->writer, i, &bad); i++)
        if (bad.index < pack->count && labels[bad.index] >= 0 && (uint64_t)labels[bad.index] < n) {
            tallies[labels[bad.index]].bad++;
            tallies[labels[bad.index]].samples -= bad.skipped;
        }
    printf("  %-*s %12s\n", width, "class", "samples");
    if (n <= SHOWN_CLASSES) {
        for (size_t c = 0; c < n; c++)
            print_class(names[c], &tallies[c], width);
    } else {
        qsort(tallies, n, sizeof *tallies, by_size);
        for (size_t c = 0; c < SHOWN_ENDS; c++)
            print_class(names[tallies[c].class], &tallies[c], width);
        printf("  ... %zu more classes of %" PRIu64 " to %" PRIu64 " samples ...\n", n - 2 * SHOWN_ENDS,
               tallies[n - SHOWN_ENDS - 1].samples, tallies[SHOWN_ENDS].samples);
        for (size_t c = n - SHOWN_ENDS; c < n; c++)
            print_class(names[tallies[c].class], &tallies[c], width);
    }
    free(tallies);
}

/* Photos that could not have the requested form, and the reasons. */
static void print_as_came(const struct cli_pack *pack, uint64_t n)
{
    static const char *const forms[] = {"", "in the fast form", "as pixels"};
    struct leat_as_came why;
    char count[32], reason[600];
    if (!n)
        return;
    printf("%s photo%s stored unchanged, not %s:\n", cli_count(n, count), n == 1 ? " is" : "s are",
           forms[pack->options.photos]);
    size_t i = 0;
    for (; i < SHOWN_REASONS && leat_writer_as_came(pack->writer, i, &why); i++)
        printf("  %12s  %s\n", cli_count(why.photos, count), leat_escape(why.reason, reason, sizeof reason));
    if (leat_writer_as_came(pack->writer, i, &why))
        printf("  ... and other reasons\n");
}

/* The warnings that lenient decoding accepted. */
static void print_warned(const struct cli_pack *pack)
{
    struct leat_as_came why;
    char count[32], reason[600];
    if (!leat_writer_warned(pack->writer, 0, &why))
        return;
    printf("photos that are decoded with warnings, by Decode(strict=False)%s:\n",
           pack->options.photos == LEAT_PHOTOS_RAW ? " and as pixels" : "");
    for (size_t i = 0; leat_writer_warned(pack->writer, i, &why); i++)
        printf("  %12s  %s\n", cli_count(why.photos, count), leat_escape(why.reason, reason, sizeof reason));
}

/* So many boxes were written; `given` if that is not known, as for a resumed file. */
static uint64_t stored_boxes(const struct cli_pack *pack, uint64_t given)
{
    struct leat_box_counts n;
    for (size_t f = 0; f < pack->n_fields && !pack->resumed; f++)
        if (leat_writer_boxes(pack->writer, f, &n))
            return n.count;
    return given;
}

/* The number of boxes of annotations that are not as they should be, and of all boxes if those lie beside their
 * photos. */
static void print_boxes(const struct cli_pack *pack)
{
    char count[32], said[400], name[160];
    json_t *about = cli_about(pack->dataset), *boxes = json_object_get(about, "boxes");
    const uint64_t given = cli_whole(boxes, "count"), stored = stored_boxes(pack, given);
    if (about && (boxes || stored)) { /* polygons have their boxes made */
        printf("%s boxes", cli_count(stored, count));
        if (boxes && stored != given)
            printf(", of %s in the annotations", cli_count(given, count));
        puts(cli_print_box_faults(": ", boxes) ? ", and are cut off or left out" : "");
    }
    json_decref(about);
    for (size_t f = 0; f < pack->n_fields; f++) {
        struct leat_box_counts n;
        if (leat_writer_boxes(pack->writer, f, &n) && leat_box_counts_suspect(&n, &pack->fields[f], said, sizeof said))
            printf("field '%s': %s\n", leat_escape(pack->fields[f].name, name, sizeof name), said);
    }
}

int cli_pack_report(const struct cli_pack *pack)
{
    struct leat_writer_progress total;
    char a[32], b[32], c[32], name[1200], reason[600], path[4200], shown[1200];
    size_t n_bad;
    leat_writer_progress(pack->writer, &total);
    snprintf(path, sizeof path, "%s.bad.jsonl", pack->dst);
    const bool listed = write_bad_list(pack, path, &n_bad);
    if (pack->quiet)
        return listed ? CLI_EXIT_OK : CLI_EXIT_FAILED;

    const uint64_t now = total.samples + total.skipped - pack->begin;
    printf("%s: %s samples, %s, in %s", leat_escape(pack->dst, shown, sizeof shown), cli_count(total.samples, a),
           cli_bytes(total.bytes, b), cli_duration(pack->seconds, c));
    if (now && pack->seconds > 0)
        printf(" (%s samples/s)", cli_count((uint64_t)((double)now / pack->seconds), a));
    printf("%s\n", pack->resumed ? ", resumed" : "");
    print_classes(pack);
    print_boxes(pack);
    print_as_came(pack, total.as_came);
    print_warned(pack);
    if (!n_bad)
        return CLI_EXIT_OK;

    printf("%s broken: %s marked, %s left out. All of them: %s\n", cli_count(n_bad, a), cli_count(total.broken, b),
           cli_count(total.skipped, c), leat_escape(path, shown, sizeof shown));
    struct leat_bad_sample bad;
    for (size_t i = 0; i < SHOWN_BAD && leat_writer_bad(pack->writer, i, &bad); i++)
        printf("  %s: %s\n", bad_name(&bad, name, sizeof name), leat_escape(bad.reason, reason, sizeof reason));
    if (n_bad > SHOWN_BAD)
        printf("  ... %zu more\n", n_bad - SHOWN_BAD);
    return listed ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
