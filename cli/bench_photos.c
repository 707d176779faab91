/*
 * leat bench --photos: the bytes and speed of each form of photos. A sample of the photos is packed once per form, and
 * the training job is run on each of the files.
 *
 *     SRC --sample, read once--> page cache
 *         --writer, one thread--> original, fast, raw (x largest sides) --loader, one thread--> rates
 *
 * Machines are noisy, so forms take turns in short runs, and the median of each counts. Every run goes over whole
 * epochs of the same photos with the same draws, whatever the form. Packing is measured in CPU time, because it also
 * waits for the disk.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "bench.h"
#include "new_file.h"
#include "print.h"
#include "progress.h"
#include "temporary.h"

#define SAMPLE_BYTES 64000000
#define LEAST_SAMPLES 16
#define PROBES 64 /* photos whose lengths tell how many make up the sample */

static const struct {
    const char *name;
    enum leat_photos photos;
} known_forms[] = {{"original", LEAT_PHOTOS_ORIGINAL}, {"fast", LEAT_PHOTOS_FAST}, {"raw", LEAT_PHOTOS_RAW}};
#define N_KNOWN (sizeof known_forms / sizeof *known_forms)

struct work {
    struct cli_forms *forms;
    struct leat_dataset *source;
    struct leat_field field; /* the photos */
    size_t field_index;
    uint64_t *lengths; /* in bytes, of each photo of the sample */
    char *program;
    char folder[CLI_FOLDER]; /* of the temporary files */

    /* The progress of the work: read by the thread that draws the progress. */
    double begin;
    _Atomic(const char *) doing;
    _Atomic uint64_t pack_units, pack_units_done; /* photos to be packed, over all forms */
    _Atomic uint64_t pack_us;                     /* spent on those done */
    _Atomic uint64_t runs, runs_done, run_us;     /* `run_us` is spent on those done */
};

static uint64_t microseconds(double seconds)
{
    return seconds > 0 ? (uint64_t)(seconds * 1e6) : 0;
}

/* ---- progress -------------------------------------------------------------------------------- */

/* The rest of each part is estimated from the speed of its finished work; a part that has not begun is guessed. */
static void read_progress(void *user, struct cli_progress_state *state)
{
    const struct work *work = user;
    const struct cli_forms *forms = work->forms;
    const double packed = (double)work->pack_units_done, runs = (double)work->runs_done;
    const double sample_seconds = (double)forms->source_bytes / 100e6; /* to decode it once, or so */
    const double photo =
        packed > 0 ? (double)work->pack_us * 1e-6 / packed : 3 * sample_seconds / (double)(forms->sampled + 1);
    const double least = forms->seconds / CLI_FORMS_ROUNDS;
    const double run = runs > 0 ? (double)work->run_us * 1e-6 / runs : sample_seconds > least ? sample_seconds : least;
    const double left = ((double)work->pack_units - packed) * photo + ((double)work->runs - runs) * run;
    const double spent = cli_now() - work->begin;
    state->bytes = microseconds(spent);
    state->total_bytes = microseconds(spent + (left > 0.1 ? left : 0.1));
    snprintf(state->note, sizeof state->note, "%s", work->doing);
}

/* ---- the sample ------------------------------------------------------------------------------ */

/* Position of photo `i` of the sample. They are spread evenly, so that the sample has photos of all classes. */
static uint64_t position_of(const struct cli_forms *forms, uint64_t i, uint64_t n)
{
    return (uint64_t)((double)i / (double)n * (double)forms->count);
}

static int read_photo(const struct work *work, uint64_t position, struct leat_value *value, struct leat_error *error)
{
    return leat_dataset_read(work->source, position, work->field_index, value, error);
}

/* Sets the number of photos: as asked for, or as many as have SAMPLE_BYTES. */
static int choose_samples(struct work *work, struct leat_error *error)
{
    struct cli_forms *forms = work->forms;
    const uint64_t probes = forms->count < PROBES ? forms->count : PROBES;
    uint64_t bytes = 0;
    forms->sampled = forms->samples;
    for (uint64_t i = 0; i < probes && !forms->samples; i++) {
        struct leat_value value;
        const int rc = read_photo(work, position_of(forms, i, probes), &value, error);
        if (rc)
            return rc;
        bytes += value.length;
        leat_value_clear(&value);
    }
    if (!forms->samples)
        forms->sampled = bytes ? (uint64_t)((double)SAMPLE_BYTES / (double)bytes * (double)probes) : forms->count;
    if (forms->sampled < LEAST_SAMPLES && !forms->samples)
        forms->sampled = LEAST_SAMPLES;
    if (forms->sampled > forms->count)
        forms->sampled = forms->count;
    return LEAT_OK;
}

/* Reads the sample once, to have it in the page cache, and counts its bytes. */
static int read_sample(struct work *work, struct leat_error *error)
{
    struct cli_forms *forms = work->forms;
    work->lengths = calloc(forms->sampled, sizeof *work->lengths);
    if (!work->lengths)
        return error->code = LEAT_E_NOMEM;
    for (uint64_t i = 0; i < forms->sampled && !cli_interrupted(); i++) {
        struct leat_value value;
        const int rc = read_photo(work, position_of(forms, i, forms->sampled), &value, error);
        if (rc)
            return rc;
        work->lengths[i] = value.length;
        forms->source_bytes += value.length;
        leat_value_clear(&value);
    }
    return LEAT_OK;
}

/* ---- packing --------------------------------------------------------------------------------- */

static int write_sample(struct work *work, struct leat_writer *writer, struct leat_error *error)
{
    const struct cli_forms *forms = work->forms;
    const uint64_t done = work->pack_units_done, spent = work->pack_us;
    const double begin = cli_now();
    for (uint64_t i = 0; i < forms->sampled && !cli_interrupted(); i++) {
        struct leat_value value;
        int rc = read_photo(work, position_of(forms, i, forms->sampled), &value, error);
        if (rc)
            return rc;
        const struct leat_value_ref ref = leat_value_given(&value);
        rc = leat_writer_add(writer, &ref, NULL, error);
        leat_value_clear(&value);
        if (rc)
            return rc;
        work->pack_units_done = done + i + 1;
        work->pack_us = spent + microseconds(cli_now() - begin);
    }
    return LEAT_OK;
}

/* Takes the writer's counts, and the reason if no photo has this form. */
static void read_outcome(const struct work *work, struct leat_writer *writer, struct cli_form *form)
{
    struct leat_writer_progress progress;
    struct leat_as_came kept;
    struct leat_bad_sample bad;
    leat_writer_progress(writer, &progress);
    form->photos = progress.samples;
    form->other = progress.as_came;
    form->source_bytes = work->forms->source_bytes;
    for (size_t i = 0; leat_writer_bad(writer, i, &bad); i++)
        form->source_bytes -= bad.skipped && bad.index < work->forms->sampled ? work->lengths[bad.index] : 0;
    if (!form->photos && leat_writer_bad(writer, 0, &bad))
        snprintf(form->missing, sizeof form->missing, "all photos are broken: %s", bad.reason);
    else if (form->other && form->other == form->photos && leat_writer_as_came(writer, 0, &kept))
        snprintf(form->missing, sizeof form->missing, "no photo can have this form: %s", kept.reason);
}

/* Packs the sample in one form, opens the file and unlinks it, so that it is gone however this process ends. */
static int pack_form(struct work *work, struct cli_form *form, struct leat_error *error)
{
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_open_options open = LEAT_OPEN_OPTIONS_INIT;
    struct leat_writer *writer = NULL;
    char path[4200];
    options.on_bad = LEAT_BAD_SKIP; /* broken photos are not measured */
    options.num_threads = 1;
    options.max_side = form->max_side;
    options.photos = known_forms[form->form].photos;
    snprintf(path, sizeof path, "%s/%s-%u.leat", work->folder, form->name, form->max_side);
    const double begin = cli_cpu_now();
    int rc = leat_writer_open(path, &work->field, 1, &options, &writer, error);
    if (!rc)
        rc = write_sample(work, writer, error);
    if (!rc && !cli_interrupted())
        rc = leat_writer_finish(writer, error);
    form->pack_seconds = cli_cpu_now() - begin;
    if (!rc && !cli_interrupted())
        read_outcome(work, writer, form);
    leat_writer_free(writer, false);
    if (!rc && !cli_interrupted() && !form->missing[0]) {
        rc = leat_dataset_open(path, &open, &form->dataset, error);
        json_t *about = rc ? NULL : cli_about(form->dataset);
        if (!rc && !about)
            rc = error->code = LEAT_E_NOMEM;
        form->bytes = cli_whole(about, "bytes");
        json_decref(about);
    }
    unlink(path);
    return rc;
}

static int pack_all(struct work *work, struct leat_error *error)
{
    struct cli_forms *forms = work->forms;
    for (size_t i = 0; i < forms->n_forms && !cli_interrupted(); i++) {
        struct cli_form *form = &forms->forms[i];
        work->doing = "packing";
        const int rc = pack_form(work, form, error);
        if (rc)
            return rc;
        work->pack_units_done = (i + 1) * forms->sampled;
    }
    return LEAT_OK;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* One run. */
static int run_once(const struct work *work, const struct cli_form *form, uint64_t seed, double seconds, double *rate,
                    struct leat_error *error)
{
    const struct cli_forms *forms = work->forms;
    struct leat_loader_options wish = LEAT_LOADER_OPTIONS_INIT;
    struct cli_result run;
    wish.batch_size = forms->batch_size;
    wish.order = forms->order ? LEAT_ORDER_SEQUENTIAL : LEAT_ORDER_SHUFFLED;
    wish.on_error = LEAT_ON_ERROR_SKIP;
    wish.num_threads = 1;
    wish.program = work->program;
    wish.seed = seed;
    const int rc = cli_measure(form->dataset, &wish, true, seconds, 0, &run, error);
    *rate = cli_rate(&run);
    return rc;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, size_t n)
{
    double sorted[CLI_FORMS_ROUNDS];
    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, by_value);
    return sorted[n / 2];
}

/* Round 0 warms up: it brings the file into the page cache and verifies its checksums. The others alternate in
 * direction, so that a machine that gets slower or faster meanwhile affects all forms alike. */
static int measure_all(struct work *work, struct leat_error *error)
{
    struct cli_forms *forms = work->forms;
    double rate;
    work->doing = "training";
    for (size_t r = 0; r <= CLI_FORMS_ROUNDS; r++) {
        for (size_t i = 0; i < forms->n_forms; i++) {
            struct cli_form *form = &forms->forms[r % 2 ? forms->n_forms - 1 - i : i];
            if (!form->dataset)
                continue;
            const double begin = cli_now();
            const int rc = run_once(work, form, r, r ? forms->seconds / CLI_FORMS_ROUNDS : 0, &rate, error);
            if (rc || cli_interrupted())
                return rc;
            if (!r)
                continue;
            form->rates[r - 1] = rate;
            work->run_us += microseconds(cli_now() - begin);
            work->runs_done++;
        }
    }
    for (size_t i = 0; i < forms->n_forms; i++) {
        struct cli_form *form = &forms->forms[i];
        if (!form->dataset)
            continue;
        form->rate = median(form->rates, CLI_FORMS_ROUNDS);
        form->bytes_per_photo = (double)form->bytes / (double)form->photos;
        form->ratio = (double)form->bytes / (double)form->source_bytes;
    }
    return LEAT_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Checks first that the plot can be written, because that comes last, after minutes of measuring. */
static bool plot_has_a_place(const struct cli_forms *forms)
{
    const int why = forms->plot_path ? cli_new_file_probe(forms->plot_path) : 0;
    if (why)
        cli_say(forms->command, "%s: the plot could not be written there: %s%s. Nothing was measured.",
                forms->plot_path, strerror(why), cli_if_full(why));
    return !why;
}

/* Finds the field of photos, the program, and the kind of sample. Returns an exit code. */
static int prepare(struct work *work)
{
    struct cli_forms *forms = work->forms;
    const struct leat_field *fields;
    size_t n, i = 0;
    int exit_code = CLI_EXIT_FAILED;
    if (!plot_has_a_place(forms))
        return exit_code;
    struct leat_open_options opening = LEAT_OPEN_OPTIONS_INIT;
    opening.labels = LEAT_LABELS_NONE;
    work->source = cli_open(forms->command, forms->path, &opening, &exit_code);
    if (!work->source)
        return exit_code;
    fields = leat_dataset_fields(work->source, &n);
    while (i < n && fields[i].kind != LEAT_KIND_IMAGE)
        i++;
    forms->count = leat_dataset_count(work->source);
    if (i == n || !forms->count) {
        cli_say(forms->command, "%s has no photos.", forms->path);
        return CLI_EXIT_FAILED;
    }
    if (cli_refuse_decoded(forms->command, work->source, forms->path))
        return CLI_EXIT_FAILED;
    work->field = fields[i];
    work->field.flags &= LEAT_FIELD_PIXELS; /* not a file of a folder any more: the name is left out */
    work->field_index = i;
    forms->program_name = forms->program_path ? forms->program_path : CLI_PHOTO_PROGRAM;
    if (forms->program_path && !(work->program = cli_read_program(forms->command, forms->program_path)))
        return CLI_EXIT_FAILED;
    if (!forms->batch_size)
        forms->batch_size = 64;
    forms->forms = calloc(forms->n_sides * N_KNOWN, sizeof *forms->forms);
    if (!forms->forms) {
        cli_say(forms->command, "memory could not be allocated.");
        return CLI_EXIT_FAILED;
    }
    for (size_t s = 0; s < forms->n_sides; s++)
        for (unsigned f = 0; f < N_KNOWN; f++)
            forms->forms[forms->n_forms++] =
                (struct cli_form){.name = known_forms[f].name, .form = f, .max_side = forms->sides[s]};
    struct leat_error error;
    return cli_temporary_make("forms", work->folder, &error) ? cli_fail(work->forms->command, &error, NULL)
                                                             : CLI_EXIT_OK;
}

static int do_work(struct work *work, struct leat_error *error)
{
    struct cli_forms *forms = work->forms;
    int rc = choose_samples(work, error);
    if (rc)
        return rc;
    work->pack_units = forms->n_forms * forms->sampled;
    work->runs = forms->n_forms * CLI_FORMS_ROUNDS;
    rc = read_sample(work, error);
    if (!rc)
        rc = pack_all(work, error);
    work->runs = 0;
    for (size_t i = 0; i < forms->n_forms; i++)
        work->runs += forms->forms[i].dataset ? CLI_FORMS_ROUNDS : 0;
    if (rc || cli_interrupted())
        return rc;
    size_t first = 0;
    while (first < forms->n_forms && !forms->forms[first].dataset)
        first++;
    *error = (struct leat_error){.code = LEAT_E_DECODE, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
    if (first == forms->n_forms) {
        snprintf(error->message, sizeof error->message, "%s: %s", forms->path, forms->forms[0].missing);
        return error->code;
    }
    if (!work->program && !(work->program = cli_photo_program(forms->forms[first].dataset))) {
        error->code = LEAT_E_NOMEM;
        return error->code;
    }
    return measure_all(work, error);
}

int cli_bench_photos(struct cli_forms *forms)
{
    struct work work = {.forms = forms, .begin = cli_now(), .doing = "reading"};
    struct leat_error error = {0};
    cli_catch_interrupts();
    int exit_code = prepare(&work);
    if (!exit_code) {
        const struct cli_progress_options drawing = {
            .verb = "measuring", .read = read_progress, .user = &work, .only_time = true};
        struct cli_progress *progress = cli_progress_start(&drawing);
        const int rc = do_work(&work, &error);
        cli_progress_stop(progress);
        if (cli_interrupted()) {
            cli_say(forms->command, "interrupted.");
            exit_code = CLI_EXIT_INTERRUPTED;
        } else if (rc) {
            exit_code = cli_fail(forms->command, &error,
                                 cli_temporary_failed(work.folder, &error) ? "--samples N packs fewer photos." : NULL);
        } else {
            exit_code = cli_report_forms(forms);
        }
    }
    for (size_t i = 0; i < forms->n_forms; i++)
        leat_dataset_release(forms->forms[i].dataset);
    cli_temporary_remove(work.folder);
    leat_dataset_release(work.source);
    free(forms->forms);
    free(work.lengths);
    free(work.program);
    return exit_code;
}
