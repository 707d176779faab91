/*
 * Settings that could help are measured, not guessed: each in a run of its own, beside one without it. A form of photos
 * is tried on a sample of the data, packed twice, once as the photos came, into files that have no name any more when
 * they are read.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include "print.h"
#include "progress.h"
#include "temporary.h"

#define SAMPLE_BYTES 48000000
enum { LEAST_SAMPLES = 32, MOST_SAMPLES = 2000 };

static struct cli_remedy *begin(struct cli_doctor *doctor, const char *name)
{
    struct cli_remedy *remedy = &doctor->tried[doctor->n_tried];
    *remedy = (struct cli_remedy){.name = name};
    return remedy;
}

/* The two runs: one way as things are, one with the setting. */
struct way {
    struct leat_dataset *dataset;
    const char *program;
    unsigned threads;
    uint64_t budget;
};

/* Whether the work of threads, and not their waits, decides how fast a loader is. */
static bool needs_processor(const struct cli_doctor *doctor)
{
    return doctor->reading < 0.2 * (doctor->reading + doctor->decoding + doctor->transforms);
}

/* The two ways take turns, and the best run of each counts: other work of the machine makes runs slower, never faster.
 * For work on the same threads the processor time of a sample is compared, which other work changes less than the time
 * by the clock. */
static int compare(const struct cli_doctor *doctor, struct way now, struct way then, double step_ms,
                   struct cli_remedy *remedy)
{
    enum { ROUNDS = 3 };
    const bool by_work = step_ms <= 0 && now.threads == then.threads && needs_processor(doctor);
    double work[2] = {INFINITY, INFINITY}; /* of a sample: processor seconds */
    struct cli_doctor part = *doctor;
    part.seconds = doctor->seconds / ROUNDS;
    for (int round = 0; round < ROUNDS; round++) {
        struct cli_result one, two;
        int exit_code = cli_doctor_run(&part, now.dataset, now.program, now.threads, now.budget, step_ms, &one);
        if (!exit_code)
            exit_code = cli_doctor_run(&part, then.dataset, then.program, then.threads, then.budget, step_ms, &two);
        if (exit_code)
            return exit_code;
        remedy->without = fmax(remedy->without, cli_rate(&one));
        remedy->rate = fmax(remedy->rate, cli_rate(&two));
        work[0] = fmin(work[0], one.cpu_seconds / fmax((double)one.samples, 1));
        work[1] = fmin(work[1], two.cpu_seconds / fmax((double)two.samples, 1));
    }
    if (by_work && work[0] > 0 && work[1] > 0)
        remedy->rate = remedy->without * work[0] / work[1];
    return CLI_EXIT_OK;
}

/* ---- settings of the loader ------------------------------------------------------------------ */

static int try_threads(struct cli_doctor *doctor)
{
    const unsigned now = doctor->threads ? doctor->threads : doctor->cores;
    const bool waits_for_reads = doctor->reading > doctor->decoding + doctor->transforms;
    const unsigned more = now < doctor->cores ? doctor->cores : waits_for_reads ? 2 * now : 0;
    if (!more)
        return CLI_EXIT_OK;
    struct cli_remedy *remedy = begin(doctor, "num_threads");
    snprintf(remedy->option, sizeof remedy->option, "num_threads=%u", more);
    snprintf(remedy->how, sizeof remedy->how, "leat.Loader(..., num_threads=%u)", more);
    doctor->n_tried++;
    return compare(doctor, (struct way){doctor->dataset, doctor->program, doctor->threads, 0},
                   (struct way){doctor->dataset, doctor->program, more, 0}, 0, remedy);
}

/* The program with dct_scaling in each Decode; NULL: it is there already, or there is no Decode. */
static char *with_dct_scaling(const char *program)
{
    json_t *root = json_loads(program ? program : "", 0, NULL), *op;
    const char *key;
    bool changed = false;
    json_object_foreach(json_object_get(root, "operators"), key, op)
    {
        const char *type = json_string_value(json_object_get(op, "type"));
        if (!type || strcmp(type, "Decode") != 0 || json_is_true(json_object_get(op, "dct_scaling")))
            continue;
        json_object_set_new(op, "dct_scaling", json_true());
        changed = true;
    }
    char *text = changed ? json_dumps(root, 0) : NULL;
    json_decref(root);
    return text;
}

static int try_dct_scaling(struct cli_doctor *doctor)
{
    char *program = with_dct_scaling(doctor->program);
    if (!program)
        return CLI_EXIT_OK;
    struct cli_remedy *remedy = begin(doctor, "dct_scaling");
    snprintf(remedy->option, sizeof remedy->option, "Decode(dct_scaling=True)");
    snprintf(remedy->how, sizeof remedy->how,
             "leat.ops.Decode(dct_scaling=True), with which photos much larger than their crop are decoded at 1/2, 1/4 "
             "or 1/8 (the pixels are near those of now, not equal)");
    doctor->n_tried++;
    const int exit_code = compare(doctor, (struct way){doctor->dataset, doctor->program, doctor->threads, 0},
                                  (struct way){doctor->dataset, program, doctor->threads, 0}, 0, remedy);
    free(program);
    return exit_code;
}

/* A window of twice as many bytes, if batches are made in time but not ready in time. */
static int try_budget(struct cli_doctor *doctor, uint64_t budget)
{
    struct cli_remedy *remedy = begin(doctor, "budget_bytes");
    snprintf(remedy->option, sizeof remedy->option, "budget_bytes=%" PRIu64, 2 * budget);
    snprintf(remedy->how, sizeof remedy->how, "leat.Loader(..., budget_bytes=%" PRIu64 ")", 2 * budget);
    doctor->n_tried++;
    return compare(doctor, (struct way){doctor->dataset, doctor->program, doctor->threads, budget},
                   (struct way){doctor->dataset, doctor->program, doctor->threads, 2 * budget}, doctor->step_ms,
                   remedy);
}

/* ---- the form of photos ---------------------------------------------------------------------- */

/* Whether photos are stored as they came, as in a folder. */
static bool has_original_photos(const struct cli_doctor *doctor, size_t *field)
{
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(doctor->dataset, &n);
    *field = n;
    for (size_t i = 0; i < n && *field == n; i++)
        if (fields[i].kind == LEAT_KIND_IMAGE && fields[i].role == LEAT_ROLE_NONE)
            *field = i;
    json_t *about = *field < n ? cli_about(doctor->dataset) : NULL;
    if (!about)
        return false;
    const json_t *photos = json_object_get(about, "photos");
    const bool other = json_object_get(photos, "fast") || json_object_get(photos, "raw");
    json_decref(about);
    return !other;
}

/* Copies samples, spread evenly, until they have SAMPLE_BYTES. */
static int copy_samples(const struct cli_doctor *doctor, struct leat_writer *writer, const size_t *fields, size_t n,
                        struct leat_error *error)
{
    const uint64_t count = leat_dataset_count(doctor->dataset), most = count < MOST_SAMPLES ? count : MOST_SAMPLES;
    struct leat_value *values = calloc(n, sizeof *values);
    struct leat_value_ref *refs = calloc(n, sizeof *refs);
    uint64_t bytes = 0;
    int rc = values && refs ? LEAT_OK : (error->code = LEAT_E_NOMEM);
    for (uint64_t i = 0; !rc && i < most && (i < LEAST_SAMPLES || bytes < SAMPLE_BYTES) && !cli_interrupted(); i++) {
        /* Van der Corput's sequence: wherever it ends, the samples are spread. */
        double at = 0, part = 0.5;
        for (uint64_t k = i; k; k >>= 1, part /= 2)
            at += k & 1 ? part : 0;
        bool whole = true;
        memset(values, 0, n * sizeof *values);
        for (size_t f = 0; f < n; f++) {
            whole = whole &&
                    !leat_dataset_read(doctor->dataset, (uint64_t)(at * (double)count), fields[f], &values[f], error);
            refs[f] = leat_value_given(&values[f]);
            bytes += values[f].length;
        }
        if (whole) /* broken ones are not measured */
            rc = leat_writer_add(writer, refs, NULL, error);
        for (size_t f = 0; f < n; f++)
            leat_value_clear(&values[f]);
    }
    free(values);
    free(refs);
    return rc;
}

/* A sample of the data with photos in a form. NULL with *rc 0: no photo has that form, or it was interrupted. */
static struct leat_dataset *pack_sample(const struct cli_doctor *doctor, enum leat_photos form, int *rc,
                                        struct leat_error *error)
{
    struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    struct leat_open_options open = LEAT_OPEN_OPTIONS_INIT;
    struct leat_writer_progress progress = {0};
    struct leat_writer *writer = NULL;
    struct leat_dataset *dataset = NULL;
    char folder[CLI_FOLDER] = "", path[CLI_FOLDER + 16];
    size_t all, n = 0;
    const struct leat_field *fields = leat_dataset_fields(doctor->dataset, &all);
    struct leat_field *stored = calloc(all, sizeof *stored);
    size_t *numbers = calloc(all, sizeof *numbers);
    *error = (struct leat_error){.code = LEAT_E_NOMEM, .message = "no memory for the fields of a sample"};
    *rc = stored && numbers ? cli_temporary_make("doctor", folder, error) : LEAT_E_NOMEM;
    if (*rc)
        goto out;
    for (size_t i = 0; i < all; i++)
        if (!(fields[i].flags & LEAT_FIELD_DERIVED)) {
            stored[n] = fields[i];
            stored[n].flags = 0;
            numbers[n++] = i;
        }
    snprintf(path, sizeof path, "%s/sample.leat", folder);
    options.photos = form;
    options.on_bad = LEAT_BAD_SKIP;
    *rc = leat_writer_open(path, stored, n, &options, &writer, error);
    *rc = *rc ? *rc : copy_samples(doctor, writer, numbers, n, error);
    if (!*rc && !cli_interrupted())
        *rc = leat_writer_finish(writer, error);
    if (writer)
        leat_writer_progress(writer, &progress);
    leat_writer_free(writer, false);
    if (!*rc && !cli_interrupted() && progress.samples && progress.as_came < progress.samples)
        *rc = leat_dataset_open(path, &open, &dataset, error);
    if (*rc)
        cli_temporary_failed(folder, error);
    cli_temporary_remove(folder);
out:
    free(stored);
    free(numbers);
    return dataset;
}

/* The command that packs the data as they were opened: the options that decide how SRC is read decide the fields of
 * DST. */
static void write_pack(const struct cli_doctor *doctor, char *out, size_t room)
{
    static const char *const labels[] = {NULL, "folders", "none"}, *const on_bad[] = {NULL, "skip", "raise"};
    const struct cli_opening *o = &doctor->opening;
    const struct option {
        const char *name, *value, *instead; /* instead of a value that is too long to be shown */
    } given[] = {{"coco", o->coco, "FILE"},         {"yolo", o->yolo, "FOLDER"},     {"voc", o->voc, "FOLDER"},
                 {"masks", o->masks, "FOLDER"},     {"classes", o->classes, "FILE"}, {"labels", labels[o->labels], ""},
                 {"on-bad", on_bad[o->on_bad], ""}, {"where", o->where, "CLAUSE"}};
    enum { SHOWN = 150 };
    FILE *text = fmemopen(out, room, "w");
    if (!text) {
        snprintf(out, room, "leat pack SRC DST --photos fast, with the options that were given here");
        return;
    }
    fputs("leat pack SRC DST", text);
    for (size_t i = 0; i < o->fields.n; i++) {
        fputs(" --field ", text);
        cli_print_shell(text, o->fields.at[i]);
    }
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (!given[i].value)
            continue;
        fprintf(text, " --%s ", given[i].name);
        json_t *shown = strlen(given[i].value) > SHOWN ? NULL : json_string(given[i].value); /* of UTF-8 alone */
        if (shown)
            cli_print_shell(text, given[i].value);
        else
            fputs(given[i].instead, text);
        json_decref(shown);
    }
    fputs(" --photos fast", text);
    fclose(text);
}

static int try_fast_form(struct cli_doctor *doctor)
{
    struct leat_dataset *samples[2] = {NULL, NULL};
    struct leat_error error;
    size_t field;
    int rc = LEAT_OK, exit_code = CLI_EXIT_OK;
    if (!has_original_photos(doctor, &field))
        return CLI_EXIT_OK;
    for (int i = 0; !rc && i < 2 && (i == 0 || samples[0]); i++)
        samples[i] = pack_sample(doctor, i ? LEAT_PHOTOS_FAST : LEAT_PHOTOS_ORIGINAL, &rc, &error);
    if (rc)
        exit_code = cli_fail(doctor->command, &error, NULL);
    if (!exit_code && samples[1]) {
        struct cli_remedy *remedy = begin(doctor, "photos");
        snprintf(remedy->option, sizeof remedy->option, "--photos fast");
        write_pack(doctor, remedy->how, sizeof remedy->how);
        doctor->n_tried++;
        exit_code = compare(doctor, (struct way){samples[0], doctor->program, doctor->threads, 0},
                            (struct way){samples[1], doctor->program, doctor->threads, 0}, 0, remedy);
    }
    leat_dataset_release(samples[0]);
    leat_dataset_release(samples[1]);
    return exit_code;
}

static uint64_t budget_of(const struct cli_doctor *doctor)
{
    struct leat_loader_options wish = LEAT_LOADER_OPTIONS_INIT;
    struct leat_loader *loader = NULL;
    char *text = NULL;
    wish.batch_size = doctor->batch_size;
    wish.program = doctor->program;
    uint64_t budget = 0;
    if (!leat_loader_open(doctor->dataset, &wish, &loader, NULL) && !leat_loader_stats(loader, &text, NULL)) {
        json_t *stats = cli_taken(text);
        budget = cli_whole(json_object_get(stats, "memory"), "budget_bytes");
        json_decref(stats);
    }
    leat_loader_close(loader);
    return budget;
}

int cli_doctor_try(struct cli_doctor *doctor)
{
    const char *bottleneck = cli_doctor_bottleneck(doctor);
    const double all = doctor->reading + doctor->decoding + doctor->transforms;
    int exit_code = CLI_EXIT_OK;
    if (!strcmp(bottleneck, "consumer"))
        return exit_code;
    if (!strcmp(bottleneck, "window")) {
        const uint64_t budget = budget_of(doctor);
        return budget ? try_budget(doctor, budget) : exit_code;
    }
    exit_code = try_threads(doctor);
    if (!exit_code && !cli_interrupted() && doctor->decoding > 0.2 * all)
        exit_code = try_dct_scaling(doctor);
    if (!exit_code && !cli_interrupted() && doctor->decoding > 0.2 * all)
        exit_code = try_fast_form(doctor);
    return exit_code;
}
