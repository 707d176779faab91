/*
 * Progress on standard error: on a terminal one line that is redrawn, elsewhere a line every ten seconds, so that a log
 * file stays short. A thread draws it, so that the work never waits for a terminal.
 */
#ifndef LEAT_CLI_PROGRESS_H
#define LEAT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cli_progress_state {
    uint64_t samples, bytes; /* done */
    uint64_t total_bytes;    /* to be done, if only the work itself knows; else 0 */
    char note[64];           /* printed at the end of the line; may be "" */
};

struct cli_progress_options {
    const char *verb;                                           /* "packing" */
    uint64_t total_samples, total_bytes;                        /* 0: unknown, and not shown */
    uint64_t first_samples, first_bytes;                        /* done by an earlier run: not counted in rates */
    void (*read)(void *user, struct cli_progress_state *state); /* called by the drawing thread */
    void *user;
    bool only_time; /* samples and bytes are a measure of the work, not to be shown */
    bool quiet;
};

struct cli_progress;
/* NULL if nothing is to be drawn or no thread could be started. */
struct cli_progress *cli_progress_start(const struct cli_progress_options *options);
/* Ends the line and the thread. NULL is allowed. */
void cli_progress_stop(struct cli_progress *progress);

double cli_now(void);     /* seconds, monotonic */
double cli_cpu_now(void); /* seconds that the processor has worked for this process */
void cli_sleep(double seconds);

/* SIGINT, SIGTERM and SIGHUP set a flag; the second of a kind ends the process at once. */
void cli_catch_interrupts(void);
bool cli_interrupted(void);

#endif
