/* The common part of the two measurements of leat bench: of a file as it is, and of the forms that photos can be stored
 * in. */
#ifndef LEAT_CLI_BENCH_H
#define LEAT_CLI_BENCH_H

#include <stdbool.h>

#include "args.h"
#include "leat/leat.h"

/* The usual program of ImageNet models as JSON: the standard chain for photos, and the other fields of fixed size as
 * stored. NULL: there are no photos. Freed with free. */
char *cli_photo_program(const struct leat_dataset *dataset);
#define CLI_PHOTO_PROGRAM "Decode, RandomResizedCrop(224), RandomHorizontalFlip, Normalize to float32"

/* A measurement, and the work of the threads meanwhile. */
#define CLI_STEPS 32
struct cli_step {
    char name[200];
    double seconds;
};
struct cli_result {
    unsigned threads;
    uint64_t samples, bytes;          /* bytes: read */
    double seconds, cpu_seconds;      /* cpu: of all threads of the process */
    double waited;                    /* the consumer, for batches */
    struct cli_step steps[CLI_STEPS]; /* thread time of "reading", and of each step of the program */
    size_t n_steps;
};

/* Batches are taken and dropped for so many seconds, or for whole epochs until the seconds are over. Batches before the
 * clock starts fill caches and the window; over whole epochs, as much is in flight when it stops as when it started.
 * `step_seconds`: the consumer sleeps so long with each batch, as a training step would take. If it was interrupted,
 * the work of the threads is missing. */
int cli_measure(struct leat_dataset *dataset, const struct leat_loader_options *wish, bool whole_epochs, double seconds,
                double step_seconds, struct cli_result *out, struct leat_error *error);

/* Samples per second. */
static inline double cli_rate(const struct cli_result *result)
{
    return result->seconds > 0 ? (double)result->samples / result->seconds : 0;
}

/* ---- the forms of photos --------------------------------------------------------------------- */

#define CLI_FORMS_SIDES 8
#define CLI_FORMS_ROUNDS 5

/* One form and largest side. Rates are of one core. */
struct cli_form {
    const char *name; /* "original" */
    unsigned form;    /* its number: marks of the plot go by it */
    unsigned max_side;
    char missing[256];            /* why there are no figures, or "" */
    struct leat_dataset *dataset; /* the packed sample */
    uint64_t photos, bytes;       /* packed; of the file */
    uint64_t source_bytes;        /* of the same photos in SRC */
    uint64_t other;               /* photos among these that cannot have this form and are stored unchanged */
    double pack_seconds;          /* of a core */
    double rates[CLI_FORMS_ROUNDS], rate;
    /* Filled from these: */
    double bytes_per_photo, ratio; /* to those in SRC */
};

struct cli_forms {
    const struct cli_command *command;
    const char *path;         /* SRC */
    const char *program_path; /* NULL: the standard chain */
    const char *plot_path;    /* NULL: none */
    double seconds;           /* of measuring each form */
    uint64_t batch_size, samples;
    int order; /* 1: sequential */
    bool json;
    unsigned sides[CLI_FORMS_SIDES + 1]; /* the first is 0: as they are */
    size_t n_sides;

    uint64_t count;                 /* photos of SRC */
    uint64_t sampled, source_bytes; /* of the sample */
    const char *program_name;
    struct cli_form *forms;
    size_t n_forms;
};

/* leat bench --photos: packs, measures and reports. Returns an exit code. */
int cli_bench_photos(struct cli_forms *forms);
/* The table, the advice and the plot; or one JSON object. */
int cli_report_forms(const struct cli_forms *forms);

#endif
