/*
 * The batch that a saved state points at, computed again. The state has all inputs of the batch, except the program and
 * the data: seed, order, sizes, position.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"
#include "replay.h"

/* The batch at the state's position, or the one that --step names. */
static int take_batch(struct cli_saved_batch *saved, const char *state, struct leat_error *error)
{
    int rc = leat_loader_load_state(saved->loader, state, error);
    if (rc)
        return rc;
    if (saved->step != UINT64_MAX) {
        const uint64_t epoch = saved->epoch != UINT64_MAX ? saved->epoch : leat_loader_epoch(saved->loader);
        return leat_loader_batch_at(saved->loader, epoch, saved->step, &saved->batch, error);
    }
    uint64_t iteration;
    rc = leat_loader_start(saved->loader, &iteration, error);
    return rc ? rc : leat_loader_next(saved->loader, iteration, -1, &saved->batch, error);
}

/* The numbers of a text. NULL after a message. */
static int64_t *read_positions(const struct cli_command *command, const struct cli_saved_batch *saved, uint64_t *n)
{
    char *text = cli_read_text(command, saved->select_path, NULL), *end;
    int64_t *positions = text ? malloc((strlen(text) / 2 + 1) * sizeof *positions) : NULL;
    *n = 0;
    for (char *at = text; positions && *(at += strspn(at, " ,\t\r\n")); at = end) {
        errno = 0;
        positions[(*n)++] = strtoll(at, &end, 10);
        if (end > at && !errno && (!*end || strchr(" ,\t\r\n", *end)))
            continue;
        cli_say(command, "%s: entry %" PRIu64 " is no position: give numbers, one a line.", saved->select_path, *n - 1);
        free(positions);
        positions = NULL;
    }
    free(text);
    return positions;
}

/* DATA, or several joined. NULL after a message. */
static struct leat_dataset *open_data(const struct cli_command *command, struct cli_saved_batch *saved, int *exit_code)
{
    struct leat_dataset **parts = calloc(saved->data.n, sizeof *parts), *joined = NULL;
    struct leat_error error;
    size_t n = 0;
    while (parts && n < saved->data.n &&
           (parts[n] = cli_open_as(command, saved->data.at[n], &saved->opening, exit_code)))
        n++;
    if (parts && n == saved->data.n && n > 1 && leat_dataset_concat(parts, n, &joined, &error))
        *exit_code = cli_fail(command, &error, NULL);
    if (parts && n == 1 && saved->data.n == 1)
        joined = leat_dataset_retain(parts[0]);
    while (n)
        leat_dataset_release(parts[--n]);
    free(parts);
    return joined;
}

/* The part of the data set that the run covered, if the state names one. */
static int take_part(const struct cli_command *command, struct cli_saved_batch *saved,
                     const struct cli_saved_options *facts, struct leat_error *error)
{
    const json_t *view = json_object_get(facts->state, "view");
    if (!view)
        return LEAT_OK;
    uint64_t n = 0;
    int64_t *positions = saved->select_path ? read_positions(command, saved, &n) : NULL;
    if (saved->select_path && !positions)
        return LEAT_E_CANCELLED; /* it was said */
    char *text = json_dumps(view, JSON_COMPACT);
    struct leat_dataset *part;
    int rc = leat_dataset_view(saved->dataset, text ? text : "", positions, n, &part, error);
    free(text);
    free(positions);
    if (rc)
        return rc;
    leat_dataset_release(saved->dataset);
    saved->dataset = part;
    return LEAT_OK;
}

int cli_saved_batch_open(const struct cli_command *command, struct cli_saved_batch *saved)
{
    struct leat_loader_options wish = LEAT_LOADER_OPTIONS_INIT;
    struct leat_error error;
    struct cli_saved_options facts = {0};
    int exit_code = CLI_EXIT_FAILED;
    char *state = cli_read_text(command, saved->state_path, NULL);
    if (!state || !cli_options_of_state(command, saved->state_path, state, &wish, &facts))
        goto out;
    if (saved->world_size != UINT64_MAX)
        wish.world_size = (uint32_t)saved->world_size;
    wish.rank = saved->rank != UINT64_MAX ? (uint32_t)saved->rank : 0;
    if (wish.rank >= wish.world_size) {
        cli_say(command,
                "there is no rank %" PRIu32 " among %" PRIu32 "; ranks count from 0 (--world-size says how many).",
                wish.rank, wish.world_size);
        goto out;
    }
    if (saved->program_path && !(saved->program = cli_read_program(command, saved->program_path)))
        goto out;
    wish.program = saved->program;
    saved->dataset = open_data(command, saved, &exit_code);
    if (!saved->dataset)
        goto out;
    wish.epochs = 1; /* prefetch nothing of the next epoch */
    int rc = take_part(command, saved, &facts, &error);
    if (rc) {
        if (rc != LEAT_E_CANCELLED)
            exit_code =
                cli_fail(command, &error,
                         strstr(error.message, "list is needed") ? "Give the positions with --select FILE." : NULL);
        goto out;
    }
    rc = leat_loader_open(saved->dataset, &wish, &saved->loader, &error);
    if (!rc && saved->program)
        cli_check_program(command, saved->loader, &facts);
    if (rc || take_batch(saved, state, &error)) {
        const char *hint =
            error.code == LEAT_E_TYPE && !saved->program ? "Give the program of the loader with --program FILE." : NULL;
        if (error.code == LEAT_E_STATE && strstr(error.message, "another part"))
            hint =
                "If the run was over a part of DATA that the state does not describe, open that part in Python and use "
                "loader.batch_at().";
        exit_code = cli_fail(command, &error, hint);
        goto out;
    }
    saved->of_rank = wish.rank;
    saved->of_ranks = wish.world_size;
    exit_code = CLI_EXIT_OK;
out:
    cli_saved_options_clear(&facts);
    free(state);
    return exit_code;
}

void cli_saved_batch_close(struct cli_saved_batch *saved)
{
    leat_batch_free(saved->batch);
    leat_loader_close(saved->loader);
    leat_dataset_release(saved->dataset);
    free(saved->program);
    saved->batch = NULL;
    saved->loader = NULL;
    saved->dataset = NULL;
    saved->program = NULL;
}
