/* leat top: the loaders of a running process, live. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "leat/watch.h"
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

/* The loader of that number as it was before; NULL: it was not there, or another one has its place. */
static const json_t *before_of(const json_t *list, const json_t *now)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one) if (cli_real(one, "loader") == cli_real(now, "loader") &&
                                         cli_real(one, "samples") <= cli_real(now, "samples") &&
                                         cli_real(one, "open_s") <= cli_real(now, "open_s")) return one;
    return NULL;
}

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
    /* Time between two writings of the page, not of the readings: the rate is that of what was counted. */
    const double written = cli_real(now, "open_s") - cli_real(now, "age_s");
    const double was = before ? cli_real(before, "open_s") - cli_real(before, "age_s") : 0;
    double span = fmax(written - was, 1e-9);
    const double samples = cli_real(now, "samples") - (before ? cli_real(before, "samples") : 0);
    const double bytes = cli_real(now, "bytes") - (before ? cli_real(before, "bytes") : 0);
    double waited = cli_real(now, "consumer_wait_s") - (before ? cli_real(before, "consumer_wait_s") : 0);
    const bool moved = before && written > was;
    printf("loader %-3.0f epoch %.0f, step %.0f; open for %s\n", cli_real(now, "loader"), cli_real(now, "epoch"),
           cli_real(now, "step"), cli_duration(cli_real(now, "open_s"), a));
    if (moved)
        printf("  rate       %s samples/s, %s/s; %s samples in all\n", cli_count((uint64_t)(samples / span + 0.5), a),
               cli_bytes((uint64_t)(bytes / span), b), cli_count((uint64_t)cli_real(now, "samples"), c));
    else
        printf("  rate       %s%s samples in all\n", before ? "nothing was handed out meanwhile; " : "",
               cli_count((uint64_t)cli_real(now, "samples"), c));
    if (!before) {
        waited = cli_real(now, "consumer_wait_s");
        span = fmax(cli_real(now, "open_s"), 1e-9);
    }
    printf("  waits      %.1f%% of the time", moved || !before ? fmin(100 * waited / span, 100) : 0.0);
    if (cli_real(now, "waiting_s") > 0.2)
        printf("; now for %s", cli_duration(cli_real(now, "waiting_s"), a));
    else if (cli_real(now, "age_s") > 2)
        printf("; the training has taken no batch for %s", cli_duration(cli_real(now, "age_s"), a));
    printf("\n  window     %.0f batches ready of %.0f in flight\n", cli_real(json_object_get(now, "window"), "ready"),
           cli_real(json_object_get(now, "window"), "depth"));
    const double running = cli_real(json_object_get(now, "tasks"), "running"),
                 threads = cli_real(json_object_get(now, "tasks"), "threads");
    printf("  threads    %.0f task%s running on at most %.0f thread%s; %.0f waiting for reads\n", running,
           running == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
           cli_real(json_object_get(now, "tasks"), "parked"));
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

/* The process that started another one; 0: not known. */
static int parent_of(int pid)
{
    char path[32], text[512], *behind;
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    if ((behind = strrchr(text, ')')) && strlen(behind) > 4) /* "pid (name) S parent ..." */
        parent = (int)strtol(behind + 4, NULL, 10);
    return parent;
}

static bool has_loader(int pid)
{
    char *text = NULL;
    const bool has = !leat_loader_of_process(pid, &text, NULL);
    leat_free(text);
    return has;
}

/* Whether a process was started by another one, by way of none that has a loader: those share it with their own. */
static bool is_first_below(int pid, int above)
{
    enum { DEEP = 64 };
    for (int i = 0; i < DEEP && (pid = parent_of(pid)) > 1; i++)
        if (pid == above)
            return true;
        else if (has_loader(pid))
            return false;
    return false;
}

/* The processes below one that have loaders: a launcher such as torchrun has none itself. Empty: there are none. */
static void list_below(int above, char *out, size_t room)
{
    DIR *all = opendir("/proc");
    size_t used = 0;
    *out = 0;
    for (const struct dirent *one; all && (one = readdir(all)) && used + 16 < room;) {
        const int pid = (int)strtol(one->d_name, NULL, 10);
        if (pid > 1 && is_first_below(pid, above) && has_loader(pid))
            used += (size_t)snprintf(out + used, room - used, "%s%d", used ? ", " : "", pid);
    }
    if (all)
        closedir(all);
}

static int show(const struct cli_command *command, const struct top *top, int pid)
{
    json_t *before = NULL;
    struct leat_error error;
    for (bool first = true; !cli_interrupted(); first = false) {
        char *text;
        if (leat_loader_of_process(pid, &text, &error)) {
            json_decref(before);
            if (!first && error.code == LEAT_E_NOT_FOUND) {
                printf("process %s has ended\n", top->pid);
                return CLI_EXIT_OK;
            }
            char below[256], hint[320];
            list_below(pid, below, sizeof below);
            snprintf(hint, sizeof hint, "These of the processes that it started have loaders: %s", below);
            return cli_fail(command, &error, *below ? hint : NULL);
        }
        json_t *now = cli_taken(text);
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
    uint64_t pid;
    if (!cli_parse(command, argc, argv, &top, &exit_code))
        return exit_code;
    char *end;
    pid = strtoull(top.pid, &end, 10);
    if (top.pid[0] < '0' || top.pid[0] > '9' || *end || !pid || pid > INT32_MAX)
        return cli_usage_error(command, "PID is the number of a process, not \"%s\".", top.pid);
    cli_catch_interrupts();
    return show(command, &top, (int)pid);
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
