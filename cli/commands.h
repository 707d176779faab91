/* The commands; each is one file. */
#ifndef LEAT_CLI_COMMANDS_H
#define LEAT_CLI_COMMANDS_H

#include "args.h"

extern const struct cli_command cli_pack, cli_info, cli_verify, cli_cat, cli_replay, cli_bench;

#endif
