/* leat top: the loaders of a running process, live. */
#include <math.h>
#include <stdio.h>

#include "commands.h"
#include "loaders.h"
#include "print.h"
#include "progress.h"

struct top {
    const char *pid;
    double seconds;
    bool once, json;
};
static const struct cli_option options[] = {
    {"seconds", "S", "how often the picture is drawn; default: 1", CLI_SECONDS, .at = offsetof(struct top, seconds)},
    {"once", NULL, "draw it once, and end", CLI_SET, .at = offsetof(struct top, once)},
    {"json", NULL, "one JSON list, and end; the keys are in docs/cli.md", CLI_SET, .at = offsetof(struct top, json)},
};

static const char *escaped(const json_t *of, const char *key, char *out, size_t room)
{
    const char *text = json_string_value(json_object_get(of, key));
    return leat_escape(text ? text : "?", out, room);
}

/* The cluster that makes a loader's rows (leat.ray.Loader). */
static void print_elsewhere(const json_t *now)
{
    const json_t *ray = json_object_get(now, "ray"), *stages = json_object_get(now, "stages"), *stage;
    char a[32], b[32], c[32], name[128];
    if (!ray)
        return;
    printf("  cluster    %.0f flying, %.0f can run; %s of %s in stores, at most %s; %.0f made again\n",
           cli_real(ray, "flying"), cli_real(ray, "slots"), cli_bytes((uint64_t)cli_real(ray, "in_use_bytes"), a),
           cli_bytes((uint64_t)cli_real(ray, "budget_bytes"), b), cli_bytes((uint64_t)cli_real(ray, "peak_bytes"), c),
           cli_real(ray, "again"));
    const char *node;
    const json_t *rows;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(ray, "nodes"), node, rows)
        printf("  node       %s: %s rows\n", leat_escape(node, name, sizeof name),
               cli_count((uint64_t)json_number_value(rows), a));
    size_t i;
    json_array_foreach(stages, i, stage)
        printf("  stage      %s: %s rows, %s in %.0f actor%s\n", escaped(stage, "name", name, sizeof name),
               cli_count((uint64_t)cli_real(stage, "rows"), a), cli_duration(cli_real(stage, "seconds"), b),
               cli_real(stage, "actors"), cli_real(stage, "actors") == 1 ? "" : "s");
    printf("  limit      %s\n", escaped(ray, "limit", name, sizeof name));
}

static void print_loader(const json_t *now, const json_t *before)
{
    char a[32], b[32], c[32];
    const double written = cli_loader_written(now), was = before ? cli_loader_written(before) : 0;
    const double span = fmax(written - was, 1e-9);
    const double samples = cli_real(now, "samples") - (before ? cli_real(before, "samples") : 0);
    const double bytes = cli_real(now, "bytes") - (before ? cli_real(before, "bytes") : 0);
    const bool moved = before && written > was;
    printf("loader %-3.0f epoch %.0f, step %.0f; open for %s\n", cli_real(now, "loader"), cli_real(now, "epoch"),
           cli_real(now, "step"), cli_duration(cli_real(now, "open_s"), a));
    if (moved)
        printf("  rate       %s samples/s, %s/s; %s samples in all\n", cli_count((uint64_t)(samples / span + 0.5), a),
               cli_bytes((uint64_t)(bytes / span), b), cli_count((uint64_t)cli_real(now, "samples"), c));
    else
        printf("  rate       %s%s samples in all\n", before ? "nothing was handed out meanwhile; " : "",
               cli_count((uint64_t)cli_real(now, "samples"), c));
    printf("  waits      %.1f%% of the time", 100 * cli_loader_waits(now, before));
    if (cli_real(now, "waiting_s") > 0.2)
        printf("; now for %s", cli_duration(cli_real(now, "waiting_s"), a));
    else if (cli_real(now, "age_s") > 2)
        printf("; the training has taken no batch for %s", cli_duration(cli_real(now, "age_s"), a));
    printf("\n  window     %.0f batches ready of %.0f in flight\n", cli_real(json_object_get(now, "window"), "ready"),
           cli_real(json_object_get(now, "window"), "depth"));
    const double running = cli_real(json_object_get(now, "tasks"), "running"),
                 threads = cli_real(json_object_get(now, "tasks"), "threads");
    const double calling = cli_real(json_object_get(now, "tasks"), "calling");
    printf("  threads    %.0f task%s running on at most %.0f thread%s; %.0f waiting for reads, %.0f in functions\n",
           running, running == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
           cli_real(json_object_get(now, "tasks"), "parked") - calling, calling);
    printf("  memory     %s of %s\n", cli_bytes((uint64_t)cli_real(json_object_get(now, "memory"), "in_use_bytes"), a),
           cli_bytes((uint64_t)cli_real(json_object_get(now, "memory"), "budget_bytes"), b));
    if (cli_real(json_object_get(now, "broken"), "skipped") + cli_real(json_object_get(now, "broken"), "substituted") +
            cli_real(json_object_get(now, "broken"), "raised") >
        0)
        printf("  broken     %.0f skipped, %.0f substituted, %.0f raised\n",
               cli_real(json_object_get(now, "broken"), "skipped"),
               cli_real(json_object_get(now, "broken"), "substituted"),
               cli_real(json_object_get(now, "broken"), "raised"));
    print_elsewhere(json_object_get(now, "elsewhere"));
}

static const json_t *before_of(const json_t *list, const json_t *now)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one) if (cli_loader_is(one, now)) return one;
    return NULL;
}

static void draw(const struct top *top, const json_t *now, const json_t *before)
{
    size_t i;
    json_t *one;
    if (!top->once)
        cli_redraw();
    printf("process %s: %zu loader%s\n", top->pid, json_array_size(now), json_array_size(now) == 1 ? "" : "s");
    json_array_foreach(now, i, one) print_loader(one, before_of(before, one));
    fflush(stdout);
}

static int show(const struct cli_command *command, const struct top *top, int pid)
{
    json_t *before = NULL;
    int exit_code;
    for (bool first = true; !cli_interrupted(); first = false) {
        json_t *now = cli_loaders(command, pid, !first, &exit_code);
        if (!now) {
            json_decref(before);
            if (!exit_code)
                printf("process %s has ended\n", top->pid);
            return exit_code;
        }
        if (top->json) {
            cli_print_json(now);
            return CLI_EXIT_OK;
        }
        if (!first || !top->once) /* a rate needs two readings */
            draw(top, now, before);
        json_decref(before);
        before = now;
        if (!first && top->once)
            break;
        cli_sleep(fmax(top->seconds, 0.25)); /* loaders write ten times a second: two writings lie between */
    }
    json_decref(before);
    return cli_interrupted() ? CLI_EXIT_INTERRUPTED : CLI_EXIT_OK;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct top top = {.seconds = 1};
    int exit_code;
    if (!cli_parse(command, argc, argv, &top, &exit_code))
        return exit_code;
    const int pid = cli_pid(top.pid);
    if (!pid)
        return cli_usage_error(command, "PID is the number of a process, not \"%s\".", top.pid);
    cli_catch_interrupts();
    return show(command, &top, pid);
}

const struct cli_command cli_top = {
    .name = "top",
    .usage = "PID [options]",
    .summary = "what the loaders of a running process are doing, live",
    .about =
        "Shows for each loader of the process how many samples per second it delivers, how long the training waits\n"
        "for batches, how many are ready, and what threads and memory it has. The process needs no preparation,\n"
        "and is not slowed down. It must be yours.\n",
    .arguments = {{"PID", offsetof(struct top, pid)}},
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat top 4711\n"
            "  leat top 4711 --json\n"
            "\nExit codes: 0 shown; 2 there is no such process, or it has no loader; 130 interrupted.\n",
    .run = run,
};
