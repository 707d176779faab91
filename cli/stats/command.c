/* leat stats: sizes, classes and boxes of a data set, as a table, as JSON, and as charts. */
#include <string.h>

#include "commands.h"
#include "new_file.h"
#include "opening.h"
#include "print.h"
#include "progress.h"
#include "python.h"
#include "stats/stats.h"

struct wish {
    struct cli_several paths;
    const char *plot;
    struct cli_stats_wish of;
    bool json;
    const char *prompts, *tokenizer;
    struct cli_opening opening;
};
static const struct cli_option options[] = {
    {"plot", "PNG", "draw charts of it, too", CLI_TEXT, .at = offsetof(struct wish, plot), .is_written = true},
    {"samples", "N",
     "decode at most so many photos where their sizes are not in the file, as of a\n"
     "folder; default: 1000, spread evenly",
     CLI_U64, .at = offsetof(struct wish, of.samples), 1, INT64_MAX},
    {"text", NULL,
     "read all texts and tokens: characters, exact duplicates, the largest token;\n"
     "of up to a million documents their one field is read without it",
     CLI_SET, .at = offsetof(struct wish, of.text)},
    {"no-text", NULL, "do not read it", CLI_SET, .at = offsetof(struct wish, of.no_text)},
    {"by", "FIELD", "the same, with sums for each value of this field, such as a domain", CLI_TEXT,
     .at = offsetof(struct wish, of.by)},
    {"prompts", "FIELD",
     "show the tree of what prompts share, in the place of all else: FIELD has tokens;\n"
     "of JSON lines and .csv a text, tokens or messages; auto: as leat prompts finds it",
     CLI_TEXT, .at = offsetof(struct wish, prompts)},
    {"tokenizer", "PATH", "of the prompts: as for leat prompts", CLI_TEXT, .at = offsetof(struct wish, tokenizer),
     .needs = "prompts"},
    {"json", NULL, "one JSON object, complete; the keys are in docs/cli.md", CLI_SET,
     .at = offsetof(struct wish, json)},
    CLI_WHERE_OPTION(struct wish, opening),
    CLI_OPENING_OPTIONS(struct wish, opening),
    CLI_FIELD_OPTION(struct wish, opening),
    CLI_TABLE_OPTIONS(struct wish, opening),
};

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct wish wish = {.of.samples = 1000, .opening.tables = CLI_TABLES_ALL, .opening.parsed = &wish};
    char name[1200];
    int exit_code;
    if (!cli_parse(command, argc, argv, &wish, &exit_code))
        return exit_code;
    if (wish.prompts)
        return cli_become_python(command, &wish, "src", &wish.paths, NULL, NULL);
    if (!cli_ending_fits(command, "plot", wish.plot, ".png"))
        return CLI_EXIT_FAILED;
    const int why = wish.plot ? cli_new_file_probe(wish.plot) : 0;
    if (why) {
        cli_say_unwritten(command, wish.plot, why);
        return CLI_EXIT_FAILED;
    }
    struct leat_dataset *dataset = cli_open_all(command, &wish.paths, &wish.opening, &exit_code);
    if (!dataset)
        return exit_code;
    const char *path = cli_paths_name(&wish.paths, name, sizeof name);
    json_t *stats = cli_stats_collect(command, dataset, path, &wish.of, &exit_code);
    if (stats && wish.opening.where) { /* marks of broken samples are counted in whole files */
        json_object_set_new(stats, "where", cli_json_text(wish.opening.where));
        json_object_set_new(stats, "broken", json_null());
        json_object_del(stats, "annotations");
    }
    if (stats && wish.plot && !cli_stats_plot(command, stats, wish.plot))
        exit_code = CLI_EXIT_FAILED;
    if (stats && !exit_code && wish.json)
        cli_print_json(json_incref(stats));
    else if (stats && !exit_code)
        cli_stats_print(stats);
    json_decref(stats);
    leat_dataset_release(dataset);
    return exit_code;
}

const struct cli_command cli_stats = {
    .name = "stats",
    .usage = "FILE... [options]",
    .summary = "what the samples are like: sizes, classes, boxes, broken ones",
    .about =
        "Counts the classes, and says how the sizes of photos, the numbers, sizes and shapes of boxes, the lengths\n"
        "of texts and lists, the values of numbers, and the numbers and sums of values of sparse rows are spread.\n"
        "Boxes that a training would stumble over are counted: not finite, without area, outside of their image.\n"
        "Photos themselves are not read, unless their sizes are not in the file: of a folder, some are decoded, and\n"
        "broken ones among them counted. Several files, or a pattern in quotes such as 'part-{000..009}.jsonl', are\n"
        "one data set. The Python package copies Parquet and Arrow to $TMPDIR first.\n",
    .arguments = {{"FILE", offsetof(struct wish, paths)}},
    .several = true,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat stats train.leat\n"
            "  leat stats train.leat --plot stats.png\n"
            "  leat stats corpus.jsonl --by meta.domain\n"
            "  leat stats 'shards/part-{000..009}.jsonl.zst'\n"
            "  leat stats train.leat --json | jq '.boxes[0].per_image.median'\n"
            "\nExit codes: 0 printed; 1 the file is damaged; 2 could not run.\n",
    .run = run,
};
