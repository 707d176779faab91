/* The commands; each is one file. */
#ifndef LEAT_CLI_COMMANDS_H
#define LEAT_CLI_COMMANDS_H

#include "args.h"

extern const struct cli_command cli_pack, cli_convert, cli_info, cli_stats, cli_view, cli_verify, cli_cat, cli_mix,
    cli_prompts, cli_replay, cli_bench, cli_doctor, cli_trace, cli_top, cli_serve, cli_port, cli_completion;

/* All of them, in the order of the overview. */
extern const struct cli_command *const cli_commands[];
extern const size_t cli_n_commands;

/* Manual pages as roff: of one command, and of leat itself. */
void cli_print_man(const struct cli_command *command);
void cli_print_man_of_all(void);

#endif
