/* leat convert: any data set becomes a file of leat, sample by sample as it is. leat pack does the work; its options
 * that change or leave out samples are none of this command's. */
#include "commands.h"
#include "pack.h"

static const struct cli_option options[] = {CLI_WRITING_OPTIONS};

const struct cli_command cli_convert = {
    .name = "convert",
    .usage = "SRC... DST [options]",
    .summary = "make leat's own file (or shards) of any data set that leat opens",
    .about =
        "SRC is a data set of any format: a tar, JSONL, IDX, a folder, a file of leat, tables of Parquet and Arrow,\n"
        "cells and arrays (these by the Python package), or several files, or a pattern in quotes such as\n"
        "'train-{000..099}.tar'. DST has the same samples in the same order and the same fingerprint: states of\n"
        "runs over SRC go on with DST. DST appears only when it is complete; until then the work is in\n"
        "DST.partial, and --resume continues it.\n",
    .arguments = {{"SRC", offsetof(struct cli_pack, sources)}, {"DST", offsetof(struct cli_pack, dst)}},
    .several_first = true,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat convert 'train-{000..099}.tar' train.leat --photos fast\n"
            "  leat convert train.parquet train.leat --shard-bytes 4G\n"
            "  leat convert web.tar web.leat --field jpg=image --field cls\n"
            "\nExit codes: 0 converted (broken photos are marked); 1 a checksum of SRC does not hold; 2 could not\n"
            "convert; 130 interrupted, DST.partial can be resumed.\n",
    .run = cli_pack_run,
};
