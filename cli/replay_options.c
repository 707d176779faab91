/*
 * From a saved state to the options of its loader. The state's log begins with the entry of the opening; later entries
 * of kind "resume" have the sizes with which a run was started again. Decisions made while running ("decide") stay in
 * the log, which the loader reads itself.
 *
 *     {"seed": "7", "order": {"sources": [{"order": "shuffled", ...}]},
 *      "log": [{"kind": "open", "global_batch": 256, "world_size": 8, "tail": "pad",
 *               "facts": {"on_error": .., "program": ..}}, ...]}
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"
#include "replay.h"

static bool refuse(const struct cli_command *command, const char *path, const char *what)
{
    cli_say(command, "%s is not a state of a loader: %s. Save json.dumps(loader.state_dict()) there.", path, what);
    return false;
}

/* The index of a name among `names`, or -1. */
static int find(const json_t *value, const char *const *names, int n)
{
    const char *text = json_string_value(value);
    for (int i = 0; text && i < n; i++)
        if (!strcmp(text, names[i]))
            return i;
    return -1;
}

/* The part of a run's order that its state has the hash of, at most. NULL: the state says all of the order. */
static const char *not_there(const json_t *sources, const json_t *source)
{
    if (json_is_object(sources) || json_array_size(sources) > 1)
        return "several sources";
    if (json_object_get(source, "packed_length"))
        return "packed rows";
    if (json_object_get(source, "groups"))
        return "batches by size";
    if (json_object_get(source, "members_hash"))
        return "groups of samples";
    const char *order = json_string_value(json_object_get(source, "order"));
    return order && !strcmp(order, "weighted") ? "weights" : NULL;
}

static bool read_order(const struct cli_command *command, const char *path, const json_t *state,
                       struct leat_loader_options *options)
{
    static const char *const names[] = {"sequential", "shuffled", "blocks", "weighted", "list"};
    const json_t *sources = json_object_get(json_object_get(state, "order"), "sources"),
                 *source = json_array_get(sources, 0);
    const char *what = not_there(sources, source);
    if (what) {
        cli_say(command,
                "%s is of a run with %s, which do not stand in the state. Replay it in the program that has them: "
                "loader.batch_at().",
                path, what);
        return false;
    }
    const int order = find(json_object_get(source, "order"), names, 5);
    if (order < 0)
        return refuse(command, path, "it names no order");
    options->order = (enum leat_order)order;
    options->block_rows = cli_whole(source, "block_rows");
    options->block_window = cli_whole(source, "block_window");
    return true;
}

static bool read_log(const struct cli_command *command, const char *path, const json_t *state,
                     struct leat_loader_options *options, struct cli_saved_options *saved)
{
    static const char *const tails[] = {"pad", "drop", "uneven"}, *const policies[] = {"raise", "skip", "substitute"};
    const json_t *log = json_object_get(state, "log");
    json_t *entry;
    size_t i;
    options->global_batch_size = 0;
    json_array_foreach(log, i, entry)
    {
        const char *kind = json_string_value(json_object_get(entry, "kind"));
        const json_t *facts = json_object_get(entry, "facts");
        if (!kind || !strcmp(kind, "decide"))
            continue;
        const int tail = find(json_object_get(entry, "tail"), tails, 3),
                  policy = find(json_object_get(facts, "on_error"), policies, 3);
        const uint64_t rows = cli_whole(entry, "global_batch"), ranks = cli_whole(entry, "world_size");
        options->global_batch_size = rows ? rows : options->global_batch_size;
        options->world_size = ranks && ranks <= UINT32_MAX ? (uint32_t)ranks : options->world_size;
        options->tail = tail >= 0 ? (enum leat_tail)tail : options->tail;
        options->on_error = policy >= 0 ? (enum leat_on_error)policy : options->on_error;
        saved->program = json_is_object(facts) ? json_string_value(json_object_get(facts, "program")) : saved->program;
    }
    return options->global_batch_size ? true : refuse(command, path, "its log does not say how large a batch is");
}

bool cli_options_of_state(const struct cli_command *command, const char *path, const char *text,
                          struct leat_loader_options *options, struct cli_saved_options *saved)
{
    json_error_t syntax;
    char *end;
    *saved = (struct cli_saved_options){.state = json_loads(text, JSON_REJECT_DUPLICATES, &syntax)};
    if (!saved->state) {
        cli_say(command, "%s is no JSON (line %d: %s). Save json.dumps(loader.state_dict()) there.", path, syntax.line,
                syntax.text);
        return false;
    }
    const char *seed = json_string_value(json_object_get(saved->state, "seed"));
    if (!seed || seed[0] < '0' || seed[0] > '9')
        return refuse(command, path, "it has no seed");
    errno = 0;
    options->seed = strtoull(seed, &end, 10);
    if (errno || *end)
        return refuse(command, path, "its seed is no number below 2^64");
    return read_order(command, path, saved->state, options) && read_log(command, path, saved->state, options, saved);
}

void cli_check_program(const struct cli_command *command, const struct leat_loader *loader,
                       const struct cli_saved_options *saved)
{
    char *text = NULL;
    if (!saved->program || leat_loader_state(loader, &text, NULL))
        return;
    json_t *own = cli_taken(text);
    const json_t *facts = json_object_get(json_array_get(json_object_get(own, "log"), 0), "facts");
    const char *hash = json_string_value(json_object_get(facts, "program"));
    if (hash && strcmp(hash, saved->program) != 0)
        cli_say(command,
                "note: this program (hash %s) is not the one of the saved run (%s): the samples are the same, their "
                "values may not be.",
                hash, saved->program);
    json_decref(own);
}

void cli_saved_options_clear(struct cli_saved_options *saved)
{
    json_decref(saved->state);
    *saved = (struct cli_saved_options){0};
}
