/*
 * leat view: a contact sheet of samples with their targets, of the output of a program for them, or of the batch that a
 * saved state points at. Sequences of residues are printed, or drawn.
 *
 * Augmented samples come from a loader over the chosen samples, with the program and `--seed`; each further version is
 * the next epoch. So they are what a training with that program sees, of other samples at other rows.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "print.h"
#include "python.h"
#include "replay.h"
#include "view/sequences.h"
#include "view/sheet.h"
#include "view/strip.h"

enum { MAX_VERSIONS = 100, SEQUENCES = 8, SIDE = 256, STRIP = 1024 };

struct view {
    const struct cli_command *command;
    const char *path, *out, *ids, *field, *tokenizer, *pattern;
    uint64_t length; /* of rows of tokens; 0: not given */
    int how;
    bool tokens;
    uint64_t samples, first, seed; /* UINT64_MAX: not given */
    uint64_t begin;                /* the same */
    uint64_t residues;
    unsigned side, columns, versions;
    struct cli_saved_batch saved;
    int64_t *positions;
    size_t n;
    struct cli_sheet sheet;
    char note[400];
};
static const struct cli_option options[] = {
    {"out", "PNG", "the picture to write; sequences are printed without it", CLI_TEXT, .at = offsetof(struct view, out),
     .is_written = true},
    {"samples", "N", "how many samples are shown; default: 24, spread evenly over FILE, or the first 8 sequences",
     CLI_U64, .at = offsetof(struct view, samples), 1, 10000},
    {"from", "ID", "show the samples from this one on, one after the other", CLI_U64,
     .at = offsetof(struct view, first), 0, INT64_MAX},
    {"ids", "LIST", "show these samples: numbers with commas between them", CLI_TEXT, .at = offsetof(struct view, ids)},
    {"field", "F", "the field or output with the pictures; default: all of them", CLI_TEXT,
     .at = offsetof(struct view, field)},
    {"begin", "N", "of sequences: show them from residue N on, numbered from 0", CLI_U64,
     .at = offsetof(struct view, begin), 0, INT64_MAX},
    {"residues", "N", "so many residues of each; default: 600, of longer ones the two ends", CLI_U64,
     .at = offsetof(struct view, residues), 1, 1 << 30},
    {"size", "PIXELS", "side of a picture on the sheet; default: 256, and 1024 of sparse rows", CLI_UNSIGNED,
     .at = offsetof(struct view, side), 32, 2048},
    {"columns", "N", "pictures, or groups of them, in a row; default: as many as 1600 pixels take", CLI_UNSIGNED,
     .at = offsetof(struct view, columns), 1, 1000},
    {"program", "FILE", "a program of a loader as JSON: what it makes of each sample stands beside it", CLI_TEXT,
     .at = offsetof(struct view, saved.program_path)},
    {"versions", "N", "so many augmented versions of each sample; default: 3", CLI_UNSIGNED,
     .at = offsetof(struct view, versions), 1, MAX_VERSIONS},
    {"seed", "S", "the seed that they are drawn with; default: 0", CLI_U64, .at = offsetof(struct view, seed), 0,
     UINT64_MAX},
    {"batch", "STATE", "a saved state (loader.state_dict() as JSON): show the batch that it points at", CLI_TEXT,
     .at = offsetof(struct view, saved.state_path)},
    {"rank", "R", "with --batch: the rank whose part is shown; default: 0", CLI_U64,
     .at = offsetof(struct view, saved.rank), 0, UINT32_MAX - 1, .needs = "batch"},
    {"world-size", "W", "with --batch: ranks that it was divided among; default: what the state says", CLI_U64,
     .at = offsetof(struct view, saved.world_size), 1, UINT32_MAX, .needs = "batch"},
    {"epoch", "E", "with --batch: another batch of that run; needs --step", CLI_U64,
     .at = offsetof(struct view, saved.epoch), 0, INT64_MAX, .needs = "step"},
    {"step", "S", "with --batch: another batch of that run", CLI_U64, .at = offsetof(struct view, saved.step), 0,
     INT64_MAX, .needs = "batch"},
    {"select", "FILE", "with --batch: the positions of a run over a long select(positions), one a line", CLI_TEXT,
     .at = offsetof(struct view, saved.select_path), .needs = "batch"},
    {"tokens", NULL, "FILE has tokens: print them, documents in colours, or write a page with --out FILE.html", CLI_SET,
     .at = offsetof(struct view, tokens)},
    {"length", "N", "the same of rows of so many tokens, packed of the documents of FILE", CLI_U64,
     .at = offsetof(struct view, length), 1, UINT32_MAX},
    {"how", "WAY", "of --length: cut, best_fit or pad; default: cut", CLI_CHOICE, .at = offsetof(struct view, how),
     .choices = "cut, best_fit or pad"},
    {"tokenizer", "PATH", "of tokens: the tokenizer that gives their text; default: the one that FILE names", CLI_TEXT,
     .at = offsetof(struct view, tokenizer)},
    {"pattern", "REGEX", "of a tiktoken file: as of leat pack", CLI_TEXT, .at = offsetof(struct view, pattern)},
    CLI_WHERE_OPTION(struct view, saved.opening),
    CLI_OPENING_OPTIONS(struct view, saved.opening),
};

static int failed(const struct view *view, const struct leat_error *error)
{
    return cli_fail(view->command, error,
                    error->code == LEAT_E_TYPE && !view->saved.program_path
                        ? "Give the program of the loader with --program FILE."
                        : NULL);
}

static int no_memory(const struct view *view)
{
    cli_say(view->command, "there is no memory for the sheet.");
    return CLI_EXIT_FAILED;
}

/* ---- which samples, which columns ------------------------------------------------------------ */

static bool read_ids(struct view *view, uint64_t count)
{
    for (const char *at = view->ids;;) {
        char word[24];
        uint64_t id;
        const size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length < 23 ? length : 23), at);
        if (!cli_parse_u64(view->command, "ids", word, 0, count - 1, &id))
            return false;
        view->positions[view->n++] = (int64_t)id;
        if (!at[length])
            return true;
        at += length + 1;
    }
}

/* False after a message. */
static bool choose_samples(struct view *view, uint64_t count)
{
    const bool from = view->first != UINT64_MAX;
    uint64_t wanted = view->samples != UINT64_MAX ? view->samples : 24;
    if (view->ids && (from || view->samples != UINT64_MAX)) {
        cli_usage_error(view->command, "--ids says which samples: leave --samples and --from out.");
        return false;
    }
    if (!count || (from && view->first >= count)) {
        cli_say(view->command,
                count ? "%s has %" PRIu64 " samples, so none is numbered %" PRIu64 "." : "%s has no samples.",
                view->path, count, view->first);
        return false;
    }
    if (view->ids)
        wanted = strlen(view->ids) / 2 + 1;
    const uint64_t there = from ? count - view->first : count;
    if (!view->ids && wanted > there)
        wanted = there;
    view->positions = malloc((size_t)wanted * sizeof *view->positions);
    if (!view->positions) {
        no_memory(view);
        return false;
    }
    if (view->ids)
        return read_ids(view, count);
    for (; view->n < wanted; view->n++) {
        const uint64_t spread = (uint64_t)((double)count * (double)view->n / (double)wanted);
        view->positions[view->n] = (int64_t)(from ? view->first + view->n : spread);
    }
    return true;
}

/* The picture is written. */
static void tell(const struct view *view, int width, int height)
{
    char out[1200];
    printf("%s in %s (%d x %d)\n", view->note, leat_escape(view->out, out, sizeof out), width, height);
}

static void note_samples(struct view *view)
{
    char count[32];
    snprintf(view->note, sizeof view->note, "%zu of %s samples", view->n,
             cli_count(leat_dataset_count(view->saved.dataset), count));
}

enum { MAX_PICTURES = 16 };

/* The pictures of a row: the column, and the number of the picture. */
struct pictures {
    size_t column[MAX_PICTURES], nth[MAX_PICTURES];
    size_t n;
    bool strips; /* all are sparse rows */
};

/* The first pictures that a row has. None after a message. */
static size_t find_pictures(const struct view *view, const struct cli_rows *rows, struct pictures *out)
{
    size_t n = 0;
    for (size_t i = 0; i < rows->n_columns; i++) {
        const char *name = rows->columns[i].field.name;
        if (!name || (view->field && strcmp(view->field, name) != 0))
            continue;
        const size_t several = cli_column_pictures(&rows->columns[i]);
        for (size_t k = 0; k < several && n < MAX_PICTURES; k++, n++) {
            out->column[n] = i;
            out->nth[n] = k;
        }
    }
    out->n = n;
    out->strips = n > 0;
    for (size_t p = 0; p < n; p++)
        out->strips = out->strips && cli_column_is_strip(&rows->columns[out->column[p]]);
    if (!n && view->field && !view->saved.program_path && cli_field(view->saved.dataset, view->field) < 0)
        cli_say_no_field(view->command, view->saved.dataset, view->path, view->field);
    else if (!n && view->field)
        cli_say(view->command, "%s has no pictures in \"%s\".", view->path, view->field);
    else if (!n)
        cli_say(view->command,
                "%s has no pictures: no field is a photo or has sparse rows, and none is an array like a photo.",
                view->path);
    return n;
}

/* ---- the pictures ---------------------------------------------------------------------------- */

/* The size of tiles: sparse rows are strips. Decided by the first pictures, unless it was given. */
static void choose_size(struct view *view, const struct pictures *pictures)
{
    if (!view->sheet.side) {
        view->sheet.side = view->side ? view->side : pictures->strips ? STRIP : SIDE;
        view->sheet.high = pictures->strips ? CLI_STRIP : 0;
    }
}

static int add(struct view *view, const struct cli_rows *rows, uint64_t row, const struct pictures *pictures, size_t p,
               struct cli_item **out)
{
    struct leat_error error;
    struct cli_item *item = cli_sheet_add(&view->sheet);
    if (!item)
        return no_memory(view);
    *out = item;
    const bool strip = cli_column_is_strip(&rows->columns[pictures->column[p]]);
    const unsigned side = strip || !view->sheet.high ? view->sheet.side : view->sheet.high;
    return cli_item_make(rows, row, pictures->column[p], pictures->nth[p], side, item, &error) ? failed(view, &error)
                                                                                               : CLI_EXIT_OK;
}

static int show_samples(struct view *view)
{
    struct cli_rows rows;
    struct cli_item *item;
    struct pictures pictures = {.n = 0};
    int exit_code = CLI_EXIT_OK;
    if (!cli_rows_of_dataset(view->saved.dataset, &rows))
        return no_memory(view);
    if (!find_pictures(view, &rows, &pictures))
        exit_code = CLI_EXIT_FAILED;
    choose_size(view, &pictures);
    view->sheet.group = pictures.n;
    for (size_t i = 0; !exit_code && i < view->n; i++)
        for (size_t p = 0; !exit_code && p < pictures.n; p++)
            exit_code = add(view, &rows, (uint64_t)view->positions[i], &pictures, p, &item);
    cli_rows_clear(&rows);
    return exit_code;
}

/* The row of a batch that a sample became, by its id; `rows` if it was left out. */
static uint64_t row_of(const struct leat_batch *batch, int64_t id, uint64_t nth)
{
    const uint64_t rows = leat_batch_rows(batch);
    if (nth < rows && leat_batch_ids(batch)[nth] == id)
        return nth;
    for (uint64_t r = 0; r < rows; r++)
        if (leat_batch_ids(batch)[r] == id)
            return r;
    return rows;
}

/* A tile for a version of a sample that could not be made. */
static int add_broken(struct view *view, unsigned version, const char *reason)
{
    struct cli_item *item = cli_sheet_add(&view->sheet);
    if (!item)
        return no_memory(view);
    snprintf(item->error, sizeof item->error, "broken: %s", reason);
    snprintf(item->title, sizeof item->title, "version %u", version + 1);
    return CLI_EXIT_OK;
}

/* Why a sample is not in the batch. */
static const char *reason_of(const struct leat_batch *batch, int64_t id)
{
    struct leat_row_error error;
    for (size_t e = 0; e < leat_batch_errors(batch); e++)
        if (!leat_batch_error(batch, e, &error) && error.planned == id)
            return error.reason;
    return "it was left out";
}

/* The pictures of one version of all samples. */
static int add_version(struct view *view, const struct cli_rows *rows, const struct pictures *pictures,
                       unsigned version)
{
    struct cli_item *item;
    int exit_code = CLI_EXIT_OK;
    for (size_t i = 0; i < view->n; i++) {
        const uint64_t row = row_of(rows->batch, view->positions[i], i);
        for (size_t p = 0; !exit_code && p < pictures->n; p++) {
            if (row < leat_batch_rows(rows->batch)) {
                exit_code = add(view, rows, row, pictures, p, &item);
                if (!exit_code)
                    snprintf(item->title, sizeof item->title, "version %u", version + 1);
            } else {
                exit_code = add_broken(view, version, reason_of(rows->batch, view->positions[i]));
            }
        }
    }
    return exit_code;
}

/* The program, with its images of open size as lists: several samples are in a batch here. NULL: no memory, or there
 * is nothing to change. */
static char *with_lists(json_t *program)
{
    const char *name;
    json_t *entry;
    bool changed = false;
    json_object_foreach(json_object_get(program, "outputs"), name, entry)
    {
        if (json_object_get(entry, "stack"))
            continue;
        json_object_set_new(entry, "stack", json_string("list"));
        changed = true;
    }
    return changed ? json_dumps(program, 0) : NULL;
}

static int open_loader(struct view *view, json_t *program, struct leat_loader **loader, struct leat_error *error)
{
    struct leat_loader_options wish = LEAT_LOADER_OPTIONS_INIT;
    wish.batch_size = view->n;
    wish.order = LEAT_ORDER_LIST;
    wish.positions = view->positions;
    wish.n_positions = view->n;
    wish.seed = view->seed;
    wish.epochs = view->versions;
    wish.on_error = LEAT_ON_ERROR_SKIP;
    wish.program = view->saved.program;
    int rc = leat_loader_open(view->saved.dataset, &wish, loader, error);
    /* A program for batches of one row may make images of any size, as long as nobody stacks them. */
    char *lists = rc == LEAT_E_INVALID || rc == LEAT_E_TYPE ? with_lists(program) : NULL;
    wish.program = lists;
    if (lists && !leat_loader_open(view->saved.dataset, &wish, loader, NULL))
        rc = LEAT_OK;
    free(lists);
    return rc;
}

/* Whether no row of a batch could be made because of its samples. */
static bool is_of_samples(const struct leat_error *error)
{
    return error->code == LEAT_E_DECODE || error->code == LEAT_E_CORRUPT || error->code == LEAT_E_CHANGED ||
           error->code == LEAT_E_NOT_FOUND;
}

/* The next version; *n pictures a sample of it are added. */
static int show_version(struct view *view, struct leat_loader *loader, const json_t *program, unsigned version,
                        size_t *n)
{
    struct leat_batch *batch = NULL;
    struct leat_error error;
    struct cli_rows rows;
    struct pictures pictures = {.n = 0};
    uint64_t iteration;
    int exit_code = CLI_EXIT_OK;
    int rc = leat_loader_set_epoch(loader, version, NULL, &error);
    rc = rc ? rc : leat_loader_start(loader, &iteration, &error);
    rc = rc ? rc : leat_loader_next(loader, iteration, -1, &batch, &error);
    *n = 1;
    if (rc && !is_of_samples(&error))
        return failed(view, &error);
    const char *first = rc && view->n == 1 ? strstr(error.message, "the first error: ") : NULL;
    for (size_t i = 0; rc && !exit_code && i < view->n; i++)
        exit_code = add_broken(view, version, first ? first + strlen("the first error: ") : error.message);
    if (rc)
        return exit_code;
    if (!cli_rows_of_batch(batch, view->saved.dataset, program, &rows)) {
        exit_code = no_memory(view);
    } else if (!(*n = find_pictures(view, &rows, &pictures))) {
        exit_code = CLI_EXIT_FAILED;
    } else {
        exit_code = add_version(view, &rows, &pictures, version);
    }
    cli_rows_clear(&rows);
    leat_batch_free(batch);
    return exit_code;
}

/* Puts tiles, which were made version by version, in the order of the samples. Part k has counts[k] tiles a sample. */
static int sort_tiles(struct view *view, const size_t *counts, size_t parts)
{
    struct cli_item *sorted = malloc(view->sheet.n * sizeof *sorted), *to = sorted;
    if (!sorted)
        return no_memory(view);
    for (size_t i = 0; i < view->n; i++) {
        const struct cli_item *from = view->sheet.items;
        for (size_t k = 0; k < parts; k++) {
            memcpy(to, from + i * counts[k], counts[k] * sizeof *to);
            to += counts[k];
            from += view->n * counts[k];
        }
    }
    free(view->sheet.items);
    view->sheet.items = sorted;
    view->sheet.room = view->sheet.n;
    view->sheet.group = view->sheet.n / view->n;
    return CLI_EXIT_OK;
}

/* Each sample as it is stored, then its versions. */
static int show_program(struct view *view)
{
    struct leat_loader *loader = NULL;
    struct leat_error error;
    size_t counts[MAX_VERSIONS + 1];
    json_t *program = json_loads(view->saved.program, 0, NULL);
    const char *field = view->field;
    view->field = NULL;
    int exit_code = show_samples(view);
    view->field = field;
    counts[0] = view->sheet.group;
    if (!exit_code && open_loader(view, program, &loader, &error))
        exit_code = failed(view, &error);
    for (unsigned version = 0; !exit_code && version < view->versions; version++)
        exit_code = show_version(view, loader, program, version, &counts[version + 1]);
    leat_loader_close(loader);
    json_decref(program);
    return exit_code ? exit_code : sort_tiles(view, counts, view->versions + 1);
}

static int show_batch(struct view *view)
{
    struct cli_rows rows;
    struct cli_item *item;
    struct pictures pictures = {.n = 0};
    json_t *program = view->saved.program ? json_loads(view->saved.program, 0, NULL) : NULL;
    int exit_code = CLI_EXIT_OK;
    if (!cli_rows_of_batch(view->saved.batch, view->saved.dataset, program, &rows))
        exit_code = no_memory(view);
    else if (!find_pictures(view, &rows, &pictures))
        exit_code = CLI_EXIT_FAILED;
    choose_size(view, &pictures);
    view->sheet.group = pictures.n;
    for (uint64_t r = 0; !exit_code && r < leat_batch_rows(view->saved.batch); r++)
        for (size_t p = 0; !exit_code && p < pictures.n; p++) {
            exit_code = add(view, &rows, r, &pictures, p, &item);
            if (!exit_code) {
                char title[160];
                snprintf(title, sizeof title, "%.159s", item->title);
                snprintf(item->title, sizeof item->title, "row %" PRIu64 ", %s%s", r, title,
                         leat_batch_valid(view->saved.batch)[r] ? "" : " (padding)");
            }
        }
    cli_rows_clear(&rows);
    json_decref(program);
    snprintf(view->note, sizeof view->note,
             "epoch %" PRIu64 ", step %" PRIu64 ", rank %" PRIu32 " of %" PRIu32 ": %" PRIu64 " rows",
             leat_batch_epoch(view->saved.batch), leat_batch_step(view->saved.batch), view->saved.of_rank,
             view->saved.of_ranks, leat_batch_rows(view->saved.batch));
    return exit_code;
}

/* ---- sequences ------------------------------------------------------------------------------- */

/* Whether FILE is shown as sequences: it has a field of residues, and no pictures unless that field was named. */
static bool is_of_sequences(const struct view *view, struct cli_sequences *out)
{
    const struct leat_dataset *dataset = view->saved.dataset;
    if (view->saved.program_path || !cli_sequences_find(dataset, view->field, out))
        return false;
    struct cli_rows rows;
    bool pictures = false;
    if (view->field || !cli_rows_of_dataset(dataset, &rows))
        return true;
    for (size_t i = 0; i < rows.n_columns; i++)
        pictures |= rows.columns[i].field.name && cli_column_pictures(&rows.columns[i]);
    cli_rows_clear(&rows);
    return !pictures;
}

static int show_sequences(struct view *view, struct cli_sequences *s)
{
    struct leat_dataset *chosen = NULL;
    struct leat_error error = {0};
    char title[600], note[440];
    int exit_code = CLI_EXIT_OK, width, height;
    if (!view->ids && view->first == UINT64_MAX)
        view->first = 0;
    if (!view->ids && view->samples == UINT64_MAX)
        view->samples = SEQUENCES;
    if (!choose_samples(view, leat_dataset_count(view->saved.dataset)))
        return CLI_EXIT_FAILED;
    int rc = leat_dataset_select(view->saved.dataset, view->positions, view->n, &chosen, &error);
    s->chosen = chosen;
    s->positions = view->positions;
    s->n = view->n;
    s->begin = view->begin;
    s->most = view->residues;
    s->title = leat_escape(view->path, title, sizeof title);
    note_samples(view);
    snprintf(note, sizeof note, "%s: %s", view->note, s->alphabet == CLI_NUCLEOTIDES ? "nucleotides" : "amino acids");
    rc = rc ? rc : cli_sequences_begin(s, &error);
    if (!rc && !view->out)
        rc = cli_sequences_print(s, &error);
    else if (!rc && !cli_sequences_draw(view->command, s, note, view->out, &width, &height))
        exit_code = CLI_EXIT_FAILED;
    else if (!rc)
        tell(view, width, height);
    cli_sequences_clear(s);
    leat_dataset_release(chosen);
    return rc ? cli_fail(view->command, &error, NULL) : exit_code;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Fills the sheet; *shown: something else was shown instead. */
static int collect(struct view *view, bool *shown)
{
    struct cli_sequences sequences = {0};
    int exit_code;
    if (view->saved.state_path) {
        view->saved.data = (struct cli_several){(char *const *)&view->path, 1};
        exit_code = cli_saved_batch_open(view->command, &view->saved);
        return exit_code ? exit_code : show_batch(view);
    }
    view->saved.opening.tables = CLI_TABLES_ALL;
    view->saved.dataset = cli_open_as(view->command, view->path, &view->saved.opening, &exit_code);
    if (!view->saved.dataset)
        return exit_code;
    if (is_of_sequences(view, &sequences)) {
        *shown = true;
        return show_sequences(view, &sequences);
    }
    if (!view->out)
        return cli_usage_error(view->command, "--out is missing: the PNG to write.");
    if (!choose_samples(view, leat_dataset_count(view->saved.dataset)))
        return CLI_EXIT_FAILED;
    note_samples(view);
    if (!view->saved.program_path)
        return show_samples(view);
    view->saved.program = cli_read_program(view->command, view->saved.program_path);
    return view->saved.program ? show_program(view) : CLI_EXIT_FAILED;
}

static bool options_fit(const struct view *view)
{
    const struct cli_saved_batch *saved = &view->saved;
    if (!view->out && (saved->program_path || saved->state_path))
        cli_usage_error(view->command, "--out is missing: the PNG to write.");
    else if (saved->state_path && (view->ids || view->samples != UINT64_MAX || view->first != UINT64_MAX))
        cli_usage_error(view->command, "--batch shows all rows of the batch: leave --samples, --from and --ids out.");
    else if (saved->state_path && saved->opening.where)
        cli_usage_error(view->command, "--batch shows the batch of the part that the state names: leave --where out.");
    else
        return cli_ending_fits(view->command, "out", view->out, ".png");
    return false;
}

/* Rows of tokens are shown by the Python package, where tokenizers are. */
static int view_tokens(const struct view *view)
{
    if (view->saved.program_path || view->saved.state_path)
        return cli_usage_error(view->command, "--tokens and --length go with neither --program nor --batch.");
    return cli_become_python(view->command, view, "path", &(struct cli_several){(char *const *)&view->path, 1}, NULL,
                             NULL);
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct view view = {.command = command,
                        .samples = UINT64_MAX,
                        .first = UINT64_MAX,
                        .begin = UINT64_MAX,
                        .residues = 600,
                        .versions = 3,
                        .saved = CLI_SAVED_BATCH_INIT};
    int exit_code, width, height;
    if (!cli_parse(command, argc, argv, &view, &exit_code))
        return exit_code;
    if (view.tokens || view.length)
        return view_tokens(&view);
    if (!options_fit(&view))
        return CLI_EXIT_FAILED;
    bool shown = false;
    exit_code = collect(&view, &shown);
    char title[600];
    view.sheet.title = leat_escape(view.path, title, sizeof title);
    view.sheet.note = view.note;
    view.sheet.columns = view.columns;
    view.sheet.dataset = view.saved.dataset;
    if (exit_code == CLI_EXIT_OK && !shown && !cli_sheet_write(command, &view.sheet, view.out, &width, &height))
        exit_code = CLI_EXIT_FAILED;
    if (exit_code == CLI_EXIT_OK && !shown)
        tell(&view, width, height);
    cli_sheet_clear(&view.sheet);
    free(view.positions);
    cli_saved_batch_close(&view.saved);
    return exit_code;
}

const struct cli_command cli_view = {
    .name = "view",
    .usage = "FILE [--out PNG] [options]",
    .summary = "a contact sheet: samples, augmented ones, or a batch, with their targets; sequences",
    .about =
        "Draws pictures of FILE side by side, with ids, class names, sizes, and what else the file says of them: boxes "
        "with\n"
        "their classes, masks, keypoints. With --program each sample stands beside augmented versions of it, with the\n"
        "targets that moved along. With --batch it is the batch that a saved state points at: in a training that "
        "failed,\n"
        "the one that could not be made. A broken sample has its error in the place of the picture. Sparse rows, such "
        "as\n"
        "counts of genes in cells, are strips: columns from left to right, the larger a value the brighter.\n"
        "Sequences, as of FASTA and FASTQ, are printed with their residues in colours, or drawn with --out.\n",
    .arguments = {{"FILE", offsetof(struct view, path)}},
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat view train.leat --out sheet.png\n"
            "  leat view train.leat --out sheet.png --ids 17,40 --size 600\n"
            "  leat view train.leat --out sheet.png --program program.json --versions 5\n"
            "  leat view train.leat --out sheet.png --batch state.json --program program.json\n"
            "  leat view proteins.fasta --ids 3 --begin 1000 --residues 200\n"
            "  leat view tokens.leat --length 2048 --out rows.html\n"
            "\nExit codes: 0 written; 1 the data are at fault; 2 could not run, or the state is of other data.\n",
    .run = run,
};
