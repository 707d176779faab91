/* The options of the loader that saved a state. */
#ifndef LEAT_CLI_REPLAY_H
#define LEAT_CLI_REPLAY_H

#include <jansson.h>

#include "args.h"
#include "leat/leat.h"

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

#endif
