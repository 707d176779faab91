/* The statistics as a person reads them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "left_out.h"
#include "print.h"
#include "stats/stats.h"

enum { LABEL = 14, SHOWN = 12, BAR = 40, VALUE = 24, LETTERS = 60 };

static const char *name_of(const json_t *object, char *out, size_t room)
{
    const char *name = json_string_value(json_object_get(object, "field"));
    return leat_escape(name ? name : "?", out, room);
}

static void begin(const char *label)
{
    printf("%-*s ", cli_padded(label, LABEL), label);
}

/* "227 to 640, median 500, 90% from 320 to 640". Bytes are shortened. */
static void print_range(const json_t *q, bool bytes)
{
    static const char *const keys[] = {"least", "most", "median", "p5", "p95"};
    char text[5][32];
    for (int i = 0; i < 5; i++) {
        const double v = cli_real(q, keys[i]);
        if (bytes)
            cli_bytes((uint64_t)(v > 0 ? v : 0), text[i]);
        else
            snprintf(text[i], sizeof text[i], fabs(v) < 1e15 && v == floor(v) ? "%.0f" : "%.4g", v);
    }
    printf("%s to %s, median %s, 90%% from %s to %s\n", text[0], text[1], text[2], text[3], text[4]);
}

static void print_images(const json_t *images)
{
    char name[160], count[32];
    json_t *shape, *n;
    const char *kind;
    size_t i;
    bool first = true;
    begin(name_of(images, name, sizeof name));
    json_object_foreach(json_object_get(images, "kinds"), kind, n)
    {
        printf("%s%s %s", first ? "" : ", ", cli_count((uint64_t)json_integer_value(n), count), kind);
        first = false;
    }
    printf("%s\n", first ? "no photos" : "");
    if (!json_is_object(json_object_get(images, "width")))
        return;
    begin("  width");
    print_range(json_object_get(images, "width"), false);
    begin("  height");
    print_range(json_object_get(images, "height"), false);
    begin("  size");
    print_range(json_object_get(images, "bytes"), true);
    begin("  shapes");
    json_array_foreach(json_object_get(images, "shapes"), i, shape)
    {
        if (i == 5)
            break;
        printf("%s%" PRId64 " x %" PRId64 " (%s)", i ? ", " : "", (int64_t)json_integer_value(json_array_get(shape, 0)),
               (int64_t)json_integer_value(json_array_get(shape, 1)),
               cli_count((uint64_t)json_integer_value(json_array_get(shape, 2)), count));
    }
    const uint64_t distinct = cli_whole(images, "distinct_shapes");
    if (distinct > 5)
        printf(", %s others", cli_count(distinct - 5, count));
    putchar('\n');
}

static void print_classes(const json_t *classes)
{
    char name[160], a[32], b[32];
    json_t *list = json_object_get(classes, "counts"), *one;
    size_t shown = 0, i;
    uint64_t most = 0, below = UINT64_MAX;
    const uint64_t outside = cli_whole(classes, "outside");
    begin(name_of(classes, name, sizeof name));
    printf("%s %s; %s", cli_count(cli_whole(classes, "count"), a),
           strcmp(json_string_value(json_object_get(classes, "per")), "box") ? "samples" : "boxes",
           cli_count(cli_whole(classes, "used"), b));
    if (cli_whole(classes, "names"))
        printf(" of %s", cli_count(cli_whole(classes, "names"), a));
    printf(" %s\n",
           cli_whole(classes, "names") <= 1 && cli_whole(classes, "used") == 1 ? "class occurs" : "classes occur");
    if (outside)
        printf("  %s numbers are no class%s\n", cli_count(outside, a),
               cli_whole(classes, "names") ? " that has a name" : "");
    json_array_foreach(list, i, one) most = cli_whole(one, "count") > most ? cli_whole(one, "count") : most;
    /* The most frequent ones: the list is gone through once for each. */
    for (size_t last = SIZE_MAX; shown < SHOWN; shown++) {
        const json_t *best = NULL;
        size_t at = 0;
        json_array_foreach(list, i, one)
        {
            const uint64_t n = cli_whole(one, "count");
            const bool after = n < below || (n == below && last != SIZE_MAX && i > last);
            if (n && after && (!best || n > cli_whole(best, "count"))) {
                best = one;
                at = i;
            }
        }
        if (!best)
            break;
        below = cli_whole(best, "count");
        last = at;
        const char *text = json_string_value(json_object_get(best, "name"));
        char number[24], clean[120];
        snprintf(number, sizeof number, "%" PRIu64, cli_whole(best, "class"));
        leat_escape(text ? text : number, clean, sizeof clean);
        char bar[BAR + 1];
        const size_t length = (size_t)(below * BAR / most);
        memset(bar, '#', length);
        bar[length] = 0;
        printf("  %-*s %10s %s\n", cli_padded(clean, 24), clean, cli_count(below, a), bar);
    }
    if (cli_whole(classes, "used") > shown)
        printf("  ... %s more (--json lists all)\n", cli_count(cli_whole(classes, "used") - shown, a));
}

static void print_boxes(const json_t *boxes)
{
    char name[160], a[32], b[32], c[32];
    begin(name_of(boxes, name, sizeof name));
    const uint64_t without = cli_whole(boxes, "images_without");
    printf("%s boxes; %s sample%s without any\n", cli_count(cli_whole(boxes, "count"), a),
           without ? cli_count(without, b) : "no", without > 1 ? "s" : "");
    if (json_is_object(json_object_get(boxes, "per_image"))) {
        begin("  per sample");
        print_range(json_object_get(boxes, "per_image"), false);
    }
    if (json_is_object(json_object_get(boxes, "side"))) {
        begin("  side");
        print_range(json_object_get(boxes, "side"), false);
        begin("  aspect");
        print_range(json_object_get(boxes, "aspect"), false);
        begin("  area");
        printf("%s small (below 32 x 32), %s medium, %s large (from 96 x 96)\n",
               cli_count(cli_whole(boxes, "small"), a), cli_count(cli_whole(boxes, "medium"), b),
               cli_count(cli_whole(boxes, "large"), c));
    }
    char label[32];
    snprintf(label, sizeof label, "%-*s ", LABEL, "  faults");
    if (cli_print_box_faults(label, boxes))
        putchar('\n');
    if (json_object_get(boxes, "suspect")) {
        begin("  suspect");
        printf("%s\n", json_string_value(json_object_get(boxes, "suspect")));
    }
}

/* "12 to 3,422 a row, mean 847, median 816, half of them 690 to 953". */
static void print_quartiles(const char *label, const json_t *q)
{
    static const char *const keys[] = {"least", "most", "mean", "median", "p25", "p75"};
    char text[6][32];
    if (!json_is_object(q))
        return;
    for (int i = 0; i < 6; i++) {
        const double v = cli_real(q, keys[i]);
        if (v >= 0 && v < 1e15 && v == floor(v))
            cli_count((uint64_t)v, text[i]);
        else
            snprintf(text[i], sizeof text[i], fabs(v) >= 100 && fabs(v) < 1e9 ? "%.1f" : "%.4g", v);
    }
    begin(label);
    printf("%s to %s a row, mean %s, median %s, half of them %s to %s\n", text[0], text[1], text[2], text[3], text[4],
           text[5]);
}

/* Genes of the files, as they were copied: python/leat/commands/cells.py. */
static void print_cells(const json_t *cells)
{
    const json_t *first = json_object_get(cells, "first"), *name;
    const uint64_t any = cli_whole(cells, "genes"), files = cli_whole(cells, "files");
    size_t i;
    begin("genes");
    printf("%" PRIu64, any);
    if (files > 1)
        printf(" in any of %" PRIu64 " files, %" PRIu64 " in all", files, cli_whole(cells, "in_all"));
    json_array_foreach(first, i, name)
    {
        char text[200];
        printf("%s%s", i ? ", " : ": ", leat_escape(json_string_value(name), text, sizeof text));
    }
    printf("%s\n", json_array_size(first) < any ? ", ..." : "");
}

static void print_sparse(const json_t *sparse)
{
    char name[160], a[32], b[32], c[32];
    const double all = cli_real(sparse, "rows") * cli_real(sparse, "columns");
    const uint64_t rows = cli_whole(sparse, "rows"), read = cli_whole(sparse, "read");
    begin(name_of(sparse, name, sizeof name));
    printf("%s values in %s rows of %s columns (%.2f%% of all)\n", cli_count((uint64_t)cli_real(sparse, "total"), a),
           cli_count(rows, b), cli_count(cli_whole(sparse, "columns"), c),
           all > 0 ? 100 * cli_real(sparse, "total") / all : 0);
    print_quartiles("  values", json_object_get(sparse, "values"));
    if (read < rows) {
        begin("  read");
        printf("%s rows, spread evenly, of which follow\n", cli_count(read, a));
    }
    begin("  columns");
    printf("%s occur (%.2f%%)", cli_count(cli_whole(sparse, "used"), a), 100 * cli_real(sparse, "share"));
    if (cli_whole(sparse, "wrong"))
        printf("; of %s rows columns do not rise, or are beyond the last", cli_count(cli_whole(sparse, "wrong"), b));
    putchar('\n');
    print_quartiles("  sums", json_object_get(sparse, "sums"));
}

/* "12.3%" of a whole that may be nothing. */
static double percent(double part, double all)
{
    return all > 0 ? 100 * part / all : 0;
}

static void print_repeated(const json_t *texts)
{
    char a[32];
    json_t *one, *sample;
    size_t i, k;
    json_array_foreach(json_object_get(texts, "repeated"), i, one)
    {
        json_t *samples = json_object_get(one, "samples");
        if (i == 3)
            break;
        begin("");
        printf("%s x \"%s\": samples ", cli_count(cli_whole(one, "count"), a),
               json_string_value(json_object_get(one, "begins")));
        json_array_foreach(samples, k, sample)
            printf("%s%" JSON_INTEGER_FORMAT, k ? ", " : "", json_integer_value(sample));
        printf("%s\n", cli_whole(one, "count") > json_array_size(samples) ? ", ..." : "");
    }
}

static void print_groups(const json_t *texts, const char *unit, const char *by)
{
    char a[32], b[32], name[200];
    json_t *one, *list = json_object_get(texts, "by");
    const bool bytes = !strcmp(unit, "bytes");
    size_t i;
    if (!json_array_size(list))
        return;
    begin("  by");
    printf("%s\n", leat_escape(by ? by : "", name, sizeof name));
    json_array_foreach(list, i, one)
    {
        const char *value = json_string_value(json_object_get(one, "value"));
        const double total = cli_real(one, "total");
        if (i == SHOWN)
            break;
        if (bytes)
            cli_bytes((uint64_t)total, b);
        else
            cli_count((uint64_t)total, b);
        printf("    %-*s %12s documents %5.1f%% %14s%s%s %5.1f%%\n", cli_padded(value ? value : "others", 24),
               value ? value : "others", cli_count(cli_whole(one, "documents"), a),
               percent(cli_real(one, "documents"), cli_real(texts, "documents")), b, bytes ? "" : " ",
               bytes ? "" : unit, percent(total, cli_real(texts, "total")));
    }
    if (json_array_size(list) > SHOWN)
        printf("    ... %s more (--json lists all)\n", cli_count(json_array_size(list) - SHOWN, a));
}

/* Texts that nearly all occur again and again, such as languages: the values say more than their lengths do. */
static bool is_property(const json_t *texts)
{
    const double median = cli_real(json_object_get(texts, "characters"), "median");
    return cli_real(texts, "documents") >= 20 && cli_real(texts, "distinct") * 2 < cli_real(texts, "documents") &&
           median > 0 && median < 100;
}

static void print_property(const json_t *texts)
{
    char name[160], a[32];
    json_t *one, *list = json_object_get(texts, "repeated");
    size_t i;
    begin(name_of(texts, name, sizeof name));
    printf("%s values:", cli_count(cli_whole(texts, "distinct"), a));
    json_array_foreach(list, i, one)
    {
        if (i == 5)
            break;
        const char *text = json_string_value(json_object_get(one, "begins"));
        int length = (int)strnlen(text, VALUE);
        while (length && ((unsigned char)text[length] & 0xc0) == 0x80) /* not within a character */
            length--;
        printf("%s %.*s%s (%s)", i ? "," : "", length, text, text[length] ? "..." : "",
               cli_count(cli_whole(one, "count"), a));
    }
    printf("%s\n", cli_whole(texts, "distinct") > i ? ", ..." : "");
}

/* "; 3 empty; 1 broken". */
static void print_faults(const json_t *texts)
{
    static const char *const keys[] = {"empty", "broken", "not_utf8", "no_residues", "no_qualities"},
                             *const said[] = {"empty", "broken", "not UTF-8", "bytes are no residues",
                                              "bytes are no qualities"};
    char count[32];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (cli_whole(texts, keys[i]))
            printf("; %s %s", cli_count(cli_whole(texts, keys[i]), count), said[i]);
    putchar('\n');
}

/* The most frequent first: the list is gone through once for each. */
static void print_letters(const json_t *texts)
{
    json_t *list = json_object_get(texts, "residues"), *one;
    double below = INFINITY, most = 0;
    size_t i, last = 0, shown = 0;
    char count[32];
    json_array_foreach(list, i, one) most = fmax(most, cli_real(one, "count"));
    for (; shown < LETTERS; shown++) {
        const json_t *best = NULL;
        size_t at = 0;
        json_array_foreach(list, i, one)
        {
            const double n = cli_real(one, "count");
            if ((n < below || (n == below && i > last)) && (!best || n > cli_real(best, "count"))) {
                best = one;
                at = i;
            }
        }
        if (!best)
            return;
        below = cli_real(best, "count");
        last = at;
        printf("  %s %19s %6.2f%% %.*s\n", json_string_value(json_object_get(best, "residue")),
               cli_count((uint64_t)below, count), 100 * cli_real(best, "share"), (int)(below * BAR / most),
               "########################################");
    }
}

static void print_residues(const json_t *texts)
{
    char a[32], b[32], c[32];
    const char *alphabet = json_string_value(json_object_get(texts, "alphabet"));
    const bool bases = alphabet && !strcmp(alphabet, "nucleotides");
    printf("%s residues in %s sequences; N50 %s", cli_count(cli_whole(texts, "total"), a),
           cli_count(cli_whole(texts, "documents"), b), cli_count(cli_whole(texts, "n50"), c));
    print_faults(texts);
    if (alphabet) {
        begin("  alphabet");
        printf("%s: %.1f%% of the letters are A, C, G, T, U or N (from 85%% on: nucleotides)\n", alphabet,
               100 * cli_real(texts, "acgtun"));
    }
    begin("  shares");
    if (json_is_number(json_object_get(texts, "gc")))
        printf("GC %.2f%%, ", 100 * cli_real(texts, "gc"));
    printf("%s %.2f%%, not %s %.2f%%, lower case%s %.2f%%\n", bases ? "N" : "X", 100 * cli_real(texts, "unknown"),
           bases ? "A, C, G, T, U" : "one of the 20", 100 * cli_real(texts, "not_standard"),
           bases ? " (soft-masked)" : "", 100 * cli_real(texts, "lower_case"));
    print_letters(texts);
}

static void print_qualities(const json_t *texts)
{
    char count[32];
    const json_t *scores = json_object_get(texts, "scores");
    printf("%s qualities", cli_count(cli_whole(texts, "total"), count));
    if (json_is_object(scores))
        printf(" by Phred+33: mean %.2f; from Q20 on %.2f%%, from Q30 on %.2f%%", cli_real(scores, "mean"),
               100 * cli_real(texts, "q20"), 100 * cli_real(texts, "q30"));
    print_faults(texts);
    if (json_is_object(scores)) {
        begin("  scores");
        print_range(scores, false);
    }
}

static void print_texts(const json_t *texts, const char *by)
{
    char name[160], a[32], b[32];
    const char *unit = json_string_value(json_object_get(texts, "unit"));
    const bool bytes = !strcmp(unit, "bytes"), residues = !strcmp(unit, "residues");
    begin(name_of(texts, name, sizeof name));
    if (!strcmp(unit, "qualities")) {
        print_qualities(texts);
        return;
    }
    if (residues) {
        print_residues(texts);
    } else {
        printf("%s documents, ", cli_count(cli_whole(texts, "documents"), a));
        if (bytes)
            printf("%s, %s characters", cli_bytes(cli_whole(texts, "total"), a),
                   cli_count((uint64_t)cli_real(texts, "characters_total"), b));
        else
            printf("%s tokens, the largest is %s", cli_count(cli_whole(texts, "total"), a),
                   cli_count(cli_whole(texts, "largest_token"), b));
        print_faults(texts);
    }
    const json_t *q = json_object_get(texts, bytes ? "characters" : "lengths");
    if (json_is_object(q) && !residues) {
        begin(bytes ? "  characters" : "  tokens");
        print_range(q, false);
    }
    begin("  duplicates");
    printf("%s (%.2f%%); %s distinct\n", cli_count(cli_whole(texts, "duplicates"), a),
           percent(cli_real(texts, "duplicates"), cli_real(texts, "documents")),
           cli_count(cli_whole(texts, "distinct"), b));
    print_repeated(texts);
    print_groups(texts, unit, by);
}

static void print_events(const json_t *events)
{
    char a[32], b[32];
    json_t *pending = json_object_get(events, "pending"), *one, *first = json_object_get(events, "first");
    const double n = cli_real(events, "events");
    size_t i;
    begin("events");
    printf("%s of %s nodes\n", cli_count(cli_whole(events, "events"), a), cli_count(cli_whole(events, "nodes"), b));
    begin("  times");
    if (json_is_integer(first))
        printf("%" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT, json_integer_value(first),
               json_integer_value(json_object_get(events, "last")));
    else
        printf("%.17g to %.17g", cli_real(events, "first"), cli_real(events, "last"));
    printf("; %.2f%% as the event before", percent(cli_real(events, "equal_times"), n));
    if (cli_whole(events, "out_of_order"))
        printf("; %s are out of order", cli_count(cli_whole(events, "out_of_order"), a));
    putchar('\n');
    begin("  degrees");
    print_range(json_object_get(events, "degree"), false);
    begin("  pairs");
    printf("%.2f%% of the events repeat one; %s of a node with itself\n", percent(cli_real(events, "repeated"), n),
           cli_count(cli_whole(events, "self_loops"), a));
    begin("  pending");
    json_array_foreach(pending, i, one) printf("%s%.1f%%", i ? ", " : "", 100 * cli_real(one, "share"));
    printf(" of the sides of events, in batches of ");
    json_array_foreach(pending, i, one) printf("%s%s", i ? ", " : "", cli_count(cli_whole(one, "batch"), a));
    putchar('\n');
}

bool cli_stats_per_box(const json_t *stats, const json_t *lengths)
{
    static const char *const keys[] = {"least", "p5", "median", "mean", "p95", "most"};
    json_t *boxes;
    size_t i;
    json_array_foreach(json_object_get(stats, "boxes"), i, boxes)
    {
        const json_t *per_image = json_object_get(boxes, "per_image");
        bool equal = json_is_object(per_image) && !strcmp(json_string_value(json_object_get(lengths, "unit")), "rows");
        for (size_t k = 0; equal && k < sizeof keys / sizeof *keys; k++)
            equal = cli_real(per_image, keys[k]) == cli_real(lengths, keys[k]);
        if (equal)
            return true;
    }
    return false;
}

void cli_stats_print(const json_t *stats)
{
    char path[1200], a[32], b[32], name[160];
    const char *text = json_string_value(json_object_get(stats, "path"));
    json_t *one;
    size_t i;
    printf("%s\n", leat_escape(text ? text : "", path, sizeof path));
    begin("samples");
    printf("%s", cli_count(cli_whole(stats, "count"), a));
    if (cli_whole(stats, "looked_at") < cli_whole(stats, "count"))
        printf("; of photos, %s were decoded, spread evenly (--samples)", cli_count(cli_whole(stats, "looked_at"), b));
    putchar('\n');
    if (json_is_string(json_object_get(stats, "where"))) {
        begin("where");
        printf("%s\n", leat_escape(json_string_value(json_object_get(stats, "where")), path, sizeof path));
    }
    if (json_is_integer(json_object_get(stats, "broken"))) {
        begin("broken");
        printf("%s\n", cli_count(cli_whole(stats, "broken"), a));
    }
    if (json_object_get(stats, "cells"))
        print_cells(json_object_get(stats, "cells"));
    if (json_object_get(stats, "events"))
        print_events(json_object_get(stats, "events"));
    if (json_object_get(stats, "left_out"))
        begin("left out");
    cli_print_left_out(json_object_get(stats, "left_out"));
    json_array_foreach(json_object_get(stats, "images"), i, one) print_images(one);
    json_array_foreach(json_object_get(stats, "boxes"), i, one) print_boxes(one);
    json_array_foreach(json_object_get(stats, "sparse"), i, one) print_sparse(one);
    if (cli_print_box_faults("annotations    ", json_object_get(stats, "annotations")))
        printf(", and are cut off or left out\n");
    if (json_string_length(json_object_get(stats, "notice"))) {
        begin("note");
        printf("%s\n", json_string_value(json_object_get(stats, "notice")));
    }
    json_array_foreach(json_object_get(stats, "classes"), i, one) print_classes(one);
    json_array_foreach(json_object_get(stats, "lengths"), i, one)
    {
        const bool bytes = !strcmp(json_string_value(json_object_get(one, "unit")), "bytes");
        begin(name_of(one, name, sizeof name));
        if (cli_stats_per_box(stats, one)) {
            printf("one for each box\n");
            continue;
        }
        if (bytes)
            printf("%s; per sample ", cli_bytes((uint64_t)cli_real(one, "total"), a));
        else
            printf("%s rows; per sample ", cli_count((uint64_t)cli_real(one, "total"), a));
        print_range(one, bytes);
    }
    json_array_foreach(json_object_get(stats, "numbers"), i, one)
    {
        begin(name_of(one, name, sizeof name));
        print_range(one, false);
    }
    if (json_is_string(json_object_get(stats, "chosen"))) {
        begin("texts");
        printf("of %s, the field of documents (--text: of all fields; --no-text: of none)\n",
               leat_escape(json_string_value(json_object_get(stats, "chosen")), name, sizeof name));
    }
    json_array_foreach(json_object_get(stats, "texts"), i, one)
    {
        if (is_property(one))
            print_property(one);
        else
            print_texts(one, json_string_value(json_object_get(stats, "by")));
    }
}
