/* The contents of a saved state: the options of its loader, and the batch that it points at. */
#ifndef LEAT_CLI_REPLAY_H
#define LEAT_CLI_REPLAY_H

#include <jansson.h>

#include "args.h"
#include "leat/leat.h"
#include "opening.h"

struct cli_saved_options {
    json_t *state;
    const char *program; /* hash of the run's program, in `state`; or NULL */
};

/* Fills `options` with those of the loader that saved the state. False after a message. */
bool cli_options_of_state(const struct cli_command *command, const char *path, const char *text,
                          struct leat_loader_options *options, struct cli_saved_options *saved);
void cli_saved_options_clear(struct cli_saved_options *saved);

/* Prints a note if the loader's program is not the one of the saved run. Call before the state is loaded. */
void cli_check_program(const struct cli_command *command, const struct leat_loader *loader,
                       const struct cli_saved_options *saved);

/* A batch that was computed again. The fields above the line are filled from options of the command line. */
struct cli_saved_batch {
    const char *state_path, *program_path, *select_path; /* NULL: not given */
    struct cli_several data;
    struct cli_opening opening;             /* of each of them */
    uint64_t rank, world_size, epoch, step; /* UINT64_MAX: not given */
    /* ---- */
    char *program; /* its text, or NULL */
    struct leat_dataset *dataset;
    struct leat_loader *loader;
    struct leat_batch *batch;
    uint32_t of_rank, of_ranks;
};
#define CLI_SAVED_BATCH_INIT                                                                                           \
    {                                                                                                                  \
        .rank = UINT64_MAX, .world_size = UINT64_MAX, .epoch = UINT64_MAX, .step = UINT64_MAX                          \
    }

/* Returns an exit code, after a message if it is not CLI_EXIT_OK. In any case close it. */
int cli_saved_batch_open(const struct cli_command *command, struct cli_saved_batch *saved);
void cli_saved_batch_close(struct cli_saved_batch *saved);

#endif
