/* The measurements of leat doctor, and its conclusions. */
#ifndef LEAT_CLI_DOCTOR_H
#define LEAT_CLI_DOCTOR_H

#include <jansson.h>

#include "bench.h"
#include "opening.h"

enum { DOCTOR_TRIED = 6 };

/* A setting that was tried. */
struct cli_remedy {
    const char *name; /* "num_threads" */
    char option[64];  /* "num_threads=4" */
    char how[2000];   /* the output to write */
    double rate;      /* samples per second with it, and */
    double without;   /* without, measured beside it */
};

struct cli_doctor {
    const struct cli_command *command;
    const char *path, *program_path;
    uint64_t batch_size;
    unsigned threads; /* 0: all */
    double step_ms;   /* 0: not given */
    double seconds;   /* of each measurement, or that a process is watched; 0: as usual */
    bool json;
    struct cli_opening opening;

    struct leat_dataset *dataset;
    char *program;
    const char *program_name;
    unsigned cores;
    struct cli_result flat, training;     /* batches dropped at once; with steps */
    double reading, decoding, transforms; /* thread seconds of `flat` */
    char slowest[200];                    /* the step among the transforms that took most */
    double slowest_seconds;
    uint64_t bytes;      /* of the data, 0: not known */
    double storage_rate; /* bytes per second around the page cache; 0: not known */
    double cached;       /* part of the data in the page cache; negative: not known */
    struct cli_remedy tried[DOCTOR_TRIED];
    size_t n_tried;
};

/* Bytes per second that the storage of FILE gives around the page cache, and the part of it that is in the cache. */
void cli_doctor_storage(struct cli_doctor *doctor);
/* Measures settings that could help. Returns an exit code. */
int cli_doctor_try(struct cli_doctor *doctor);
/* One run. Returns an exit code, after a message if it is not 0. */
int cli_doctor_run(const struct cli_doctor *doctor, struct leat_dataset *dataset, const char *program, unsigned threads,
                   uint64_t budget, double step_ms, struct cli_result *out);
double cli_doctor_bytes_per_sample(const struct cli_doctor *doctor);
/* Samples per second that the steps take at most, with the short last batch of an epoch; infinite: any number. */
double cli_doctor_need(const struct cli_doctor *doctor);
/* The bottleneck of the training: "consumer", "storage", "decoding", "transforms", "reading" or "window". */
const char *cli_doctor_bottleneck(const struct cli_doctor *doctor);
/* Whether storage is read in each epoch, because the data do not stay in memory. */
bool cli_doctor_reads_storage(const struct cli_doctor *doctor);
void cli_doctor_report(const struct cli_doctor *doctor);
/* What limits the loaders of a running process. Returns an exit code. */
int cli_doctor_watch(const struct cli_doctor *doctor, int pid);

/* A text in lines of at most 100 columns. */
void cli_doctor_print(const char *text);
/* A rate as "12.3" or "1,234". Returns `out`. */
const char *cli_doctor_rate(double rate, char out[32]);

#endif
