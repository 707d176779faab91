/*
 * leat doctor PID: what limits the loaders of a process that runs.
 *
 * The process is looked at twice a second. Each look says what a loader waits for at that moment, and the limit is what
 * it has waited for in most of them: a single look may be luck.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"
#include "loaders.h"
#include "print.h"
#include "progress.h"

#define USUAL_S 10.0
#define EVERY_S 0.5
#define IN_TIME 0.03 /* a training that waits for less of its time is its own limit, as of a file */
#define FULL 0.9     /* of the budget: no further batch fits */
#define IDLE 0.5     /* actors that compute for less of their time wait for their rows */

/* One loader: as it was seen, and the conclusion. */
struct watched {
    json_t *first, *last; /* as in docs/cli.md */
    json_t *looks;        /* how many, by limit */
    double n, span;       /* looks; seconds from the first to the last one */
    const char *limit;
    double share;       /* of looks that say so */
    double rate, waits; /* samples per second; part of the time that the training waited */
    char verdict[800], advice[800];
};

struct watch {
    struct watched loaders[32];
    size_t n;
};

static double in_tasks(const json_t *loader, const char *key)
{
    return cli_real(json_object_get(loader, "tasks"), key);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* In the words of stats()["ray"]["limit"], which a loader on a cluster says itself. */
static const char *limit_now(const json_t *now, const json_t *before)
{
    const char *told = json_string_value(json_object_get(cli_loader_ray(now), "limit"));
    const json_t *memory = json_object_get(now, "memory");
    const double running = in_tasks(now, "running"), calling = in_tasks(now, "calling"),
                 reading = in_tasks(now, "parked") - calling;
    if (told)
        return told;
    if (cli_loader_waits(now, before) < IN_TIME)
        return "the reader";
    if (calling > 0 && calling >= reading && calling >= running)
        return "functions";
    if (reading > running)
        return "storage";
    if (running < in_tasks(now, "threads") &&
        cli_real(memory, "in_use_bytes") > FULL * cli_real(memory, "budget_bytes"))
        return "budget_bytes";
    return "making rows";
}

static void forget(struct watched *w)
{
    json_decref(w->first);
    json_decref(w->last);
    json_decref(w->looks);
    *w = (struct watched){0};
}

/* The entry of a loader that was seen before; NULL: it is new, or another one has its number. */
static struct watched *entry_of(struct watch *watch, const json_t *now)
{
    for (size_t i = 0; i < watch->n; i++) {
        struct watched *w = &watch->loaders[i];
        if (cli_real(w->last, "loader") != cli_real(now, "loader"))
            continue;
        if (cli_loader_is(w->last, now))
            return w;
        forget(w);
        *w = watch->loaders[--watch->n];
        break;
    }
    return NULL;
}

static void look(struct watch *watch, const json_t *list)
{
    size_t i;
    json_t *now;
    json_array_foreach(list, i, now)
    {
        struct watched *w = entry_of(watch, now);
        if (!w && watch->n < sizeof watch->loaders / sizeof *watch->loaders) {
            watch->loaders[watch->n++] = (struct watched){json_incref(now), json_incref(now), json_object(), .n = 0};
        } else if (w) {
            const char *limit = limit_now(now, w->last);
            json_object_set_new(w->looks, limit, json_real(cli_real(w->looks, limit) + 1));
            json_decref(w->last);
            w->last = json_incref(now);
            w->n++;
        }
    }
}

/* ---- concluding ------------------------------------------------------------------------------ */

/* The stage that such a limit names, as it was seen first and last. */
static bool find_stage(const struct watched *w, const json_t **was, const json_t **is)
{
    const json_t *list = json_object_get(json_object_get(w->last, "elsewhere"), "stages");
    const json_t *before = json_object_get(json_object_get(w->first, "elsewhere"), "stages");
    size_t i;
    json_t *stage;
    json_array_foreach(list, i, stage)
    {
        const char *name = json_string_value(json_object_get(stage, "name"));
        if (!name || strncmp(w->limit, "stage ", 6) != 0 || strcmp(w->limit + 6, name) != 0)
            continue;
        *is = stage;
        *was = json_array_get(before, i);
        return true;
    }
    return false;
}

struct of_stage {
    double rows_per_second, seconds_per_row, rows_per_call, actors;
    double busy;   /* part of the actors' time that they compute */
    double unsure; /* that it may be more by: a call counts at its end */
};

/* Stages are told of twice a second: seconds from one telling to the other, between which their figures lie. */
static double seconds_told(const struct watched *w)
{
    const json_t *first = json_object_get(w->first, "elsewhere"), *last = json_object_get(w->last, "elsewhere");
    return fmax(cli_real(last, "told_s") - cli_real(first, "told_s"), 1e-9);
}

static struct of_stage stage_figures(const struct watched *w, const json_t *was, const json_t *is)
{
    const double span = seconds_told(w);
    const bool moved = cli_real(is, "rows") > cli_real(was, "rows");
    const json_t *from = moved ? was : NULL; /* a call that outlasts the watch is known by those before */
    const double rows = cli_real(is, "rows") - cli_real(from, "rows");
    const double seconds = cli_real(is, "seconds") - cli_real(from, "seconds");
    const double calls = cli_real(is, "calls") - cli_real(from, "calls"), actors = cli_real(is, "actors");
    const double busy = moved ? fmin(seconds / fmax(span * actors, 1e-9), 1) : 1;
    const double unsure = fmin(seconds / fmax(calls, 1) / span, 1 - busy);
    return (struct of_stage){
        moved ? rows / span : 0, seconds / fmax(rows, 1), rows / fmax(calls, 1), actors, busy, unsure};
}

static void conclude_stage(struct watched *w, const json_t *was, const json_t *is, const char *looks)
{
    const struct of_stage s = stage_figures(w, was, is);
    const double most = cli_real(is, "most");
    char rate[32], name[128];
    leat_escape(w->limit, name, sizeof name);
    if (cli_real(is, "calls") < 1) {
        snprintf(w->verdict, sizeof w->verdict, "The %s is the limit%s: none of its calls has ended yet.", name, looks);
        snprintf(w->advice, sizeof w->advice,
                 "Its first call loads what it needs; or no node has room for its actor: see num_cpus and num_gpus of "
                 "leat.ray.Stage.");
        return;
    }
    snprintf(w->verdict, sizeof w->verdict,
             "The %s is the limit%s: its calls of %.0f row%s take %.4g ms for each, and %.0f actor%s give%s %s rows/s, "
             "computing %.0f%% of the time.",
             name, looks, s.rows_per_call, s.rows_per_call < 1.5 ? "" : "s", 1e3 * s.seconds_per_row, s.actors,
             s.actors == 1 ? "" : "s", s.actors == 1 ? "s" : "", cli_doctor_rate(s.rows_per_second, rate),
             100 * s.busy);
    if (s.busy + s.unsure < IDLE)
        snprintf(w->advice, sizeof w->advice,
                 "The rest is the way of rows to it and back, of which larger calls have less: "
                 "leat.ray.Stage(..., batch_size=%.0f).",
                 4 * s.rows_per_call);
    else
        snprintf(w->advice, sizeof w->advice, "%s%s%s%s",
                 most > 0 && s.actors >= most
                     ? "More actors make it faster: leat.ray.Stage(..., actors=(1, N)) with N "
                       "above those of now, if the cluster has room for them"
                     : "More actors make it faster, for which the cluster has no room now: add nodes",
                 cli_real(is, "num_gpus") > 0 ? "" : "; if it is a model, so does a GPU (num_gpus=1)",
                 s.rows_per_call < 64 ? "; so does a larger batch_size, if its function computes rows together" : "",
                 ".");
}

static void conclude_on_ray(struct watched *w, const json_t *ray, const char *looks)
{
    const double flying = cli_real(ray, "flying"), slots = cli_real(ray, "slots");
    const uint64_t budget = cli_whole(ray, "budget_bytes");
    char a[32], b[32];
    if (!strcmp(w->limit, "budget_bytes")) {
        snprintf(w->verdict, sizeof w->verdict,
                 "budget_bytes is the limit%s: %s of %s fly or lie in stores, while the cluster has room for tasks.",
                 looks, cli_bytes(cli_whole(ray, "in_use_bytes"), a), cli_bytes(budget, b));
        snprintf(w->advice, sizeof w->advice,
                 "Change this: leat.ray.Loader(..., budget_bytes=%llu), if the stores of the nodes have room for it.",
                 2ULL * budget);
        return;
    }
    snprintf(w->verdict, sizeof w->verdict,
             "Making rows is the limit%s: the cluster runs %.0f task%s at a time, and %.0f fly or wait at their nodes.",
             looks, slots, slots == 1 ? "" : "s", flying);
    snprintf(w->advice, sizeof w->advice, "%s",
             flying >= slots
                 ? "More nodes or CPUs make it faster; so does a smaller num_cpus, if tasks do not use theirs."
                 : "The cluster has room for more tasks: a larger budget_bytes, or larger batches, give them.");
}

static void conclude_here(struct watched *w, const char *looks)
{
    const json_t *memory = json_object_get(w->last, "memory");
    const double threads = in_tasks(w->last, "threads"), cores = leat_cpu_count();
    const uint64_t budget = cli_whole(memory, "budget_bytes");
    char a[32], b[32];
    if (!strcmp(w->limit, "functions")) {
        snprintf(w->verdict, sizeof w->verdict, "Functions in Python are the limit%s: rows wait for them.", looks);
        if (threads < cores)
            snprintf(w->advice, sizeof w->advice, "Change this: leat.Loader(..., num_threads=%.0f).", cores);
        else
            snprintf(w->advice, sizeof w->advice,
                     "More cores make it faster; so do operators of leat, or leat.ops.Native, in their place.");
    } else if (!strcmp(w->limit, "storage")) {
        snprintf(w->verdict, sizeof w->verdict, "Storage is the limit%s: %.0f tasks wait for reads, %.0f run.", looks,
                 in_tasks(w->last, "parked") - in_tasks(w->last, "calling"), in_tasks(w->last, "running"));
        snprintf(
            w->advice, sizeof w->advice,
            "No setting of the loader makes it faster: smaller photos (leat pack --max-side) have fewer bytes, and "
            "a local disk gives them faster. leat doctor FILE measures it.");
    } else if (!strcmp(w->limit, "budget_bytes")) {
        snprintf(w->verdict, sizeof w->verdict,
                 "The window is the limit%s: it has %s of %s, and not all of %.0f threads have work.", looks,
                 cli_bytes(cli_whole(memory, "in_use_bytes"), a), cli_bytes(budget, b), threads);
        snprintf(w->advice, sizeof w->advice, "Change this: leat.Loader(..., budget_bytes=%llu).", 2ULL * budget);
    } else {
        snprintf(w->verdict, sizeof w->verdict, "Making rows is the limit%s: %.0f thread%s make%s them.", looks,
                 threads, threads == 1 ? "" : "s", threads == 1 ? "s" : "");
        if (threads < cores)
            snprintf(w->advice, sizeof w->advice, "Change this: leat.Loader(..., num_threads=%.0f).", cores);
        else
            snprintf(w->advice, sizeof w->advice,
                     "More cores make it faster, or a cheaper program: leat doctor FILE --program measures each "
                     "operator.");
    }
}

static void conclude(struct watched *w)
{
    const char *limit;
    json_t *looks;
    const json_t *was, *is;
    double most = 0;
    char text[64];
    json_object_foreach(w->looks, limit, looks) if (json_number_value(looks) > most)
    {
        most = json_number_value(looks);
        w->limit = limit;
    }
    const double written = cli_loader_written(w->last) - cli_loader_written(w->first);
    w->share = most / w->n;
    w->span = cli_real(w->last, "open_s") - cli_real(w->first, "open_s");
    w->rate = written > 0 ? (cli_real(w->last, "samples") - cli_real(w->first, "samples")) / written : 0;
    w->waits = cli_loader_waits(w->last, w->first);
    snprintf(text, sizeof text, " in %.0f of %.0f looks", most, w->n);
    if (!strcmp(w->limit, "the reader")) {
        snprintf(w->verdict, sizeof w->verdict, "The training is the limit%s: %s.", text,
                 w->rate > 0 ? "batches are there before it asks" : "it takes none of the batches that are there");
        snprintf(w->advice, sizeof w->advice, "Nothing in the loader makes it faster.");
    } else if (find_stage(w, &was, &is)) {
        conclude_stage(w, was, is, text);
    } else if (cli_loader_ray(w->last)) {
        conclude_on_ray(w, cli_loader_ray(w->last), text);
    } else {
        conclude_here(w, text);
    }
}

/* ---- saying it ------------------------------------------------------------------------------- */

static json_t *as_json(const struct watched *w)
{
    const json_t *was, *is;
    json_t *shares = json_object(), *looks, *stage = json_null();
    const char *limit;
    json_object_foreach(w->looks, limit, looks)
        json_object_set_new(shares, limit, json_real(json_number_value(looks) / w->n));
    if (find_stage(w, &was, &is)) {
        const struct of_stage s = stage_figures(w, was, is);
        stage = json_pack("{sO sf sf sf sf sf}", "name", json_object_get(is, "name"), "rows_per_second",
                          s.rows_per_second, "seconds_per_row", s.seconds_per_row, "rows_per_call", s.rows_per_call,
                          "actors", s.actors, "busy", s.busy);
    }
    return json_pack("{sI ss so sI sf sf sf so ss ss}", "loader", (json_int_t)cli_real(w->last, "loader"), "limit",
                     w->limit, "shares", shares, "looks", (json_int_t)w->n, "seconds", w->span, "delivered_per_second",
                     w->rate, "waits", w->waits, "stage", stage, "verdict", w->verdict, "advice", w->advice);
}

static void say(const struct watched *w)
{
    const char *limit;
    json_t *looks;
    char a[32], name[128];
    printf("loader %-3.0f epoch %.0f, step %.0f; %s samples/s, waiting %.1f%% of the time\n",
           cli_real(w->last, "loader"), cli_real(w->last, "epoch"), cli_real(w->last, "step"),
           cli_doctor_rate(w->rate, a), 100 * w->waits);
    json_object_foreach(w->looks, limit, looks)
        printf("  %3.0f%%       %s\n", 100 * json_number_value(looks) / w->n, leat_escape(limit, name, sizeof name));
    cli_doctor_print(w->verdict);
    cli_doctor_print(w->advice);
}

/* Whether nobody has asked it for a batch: loaders that make rows for others are such. */
static bool is_unused(const json_t *loader)
{
    return cli_real(loader, "batches") <= 0 && cli_real(loader, "consumer_waits") <= 0 &&
           cli_real(loader, "waiting_s") <= 0 && !cli_loader_ray(loader);
}

static int report(const struct cli_doctor *doctor, struct watch *watch, int pid)
{
    json_t *list = json_array();
    size_t seen = 0;
    for (size_t i = 0; i < watch->n; i++) {
        struct watched *w = &watch->loaders[i];
        if (w->n < 1 || is_unused(w->last))
            continue;
        conclude(w);
        if (doctor->json)
            json_array_append_new(list, as_json(w));
        else
            printf("%s", seen ? "\n" : ""), say(w);
        seen++;
    }
    if (seen && doctor->json)
        cli_print_json(list);
    else
        json_decref(list);
    if (!seen)
        cli_say(doctor->command, "process %d has asked no loader for a batch that was open in two looks.", pid);
    return seen ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

int cli_doctor_watch(const struct cli_doctor *doctor, int pid)
{
    static struct watch watch;
    const double end = cli_now() + (doctor->seconds > 0 ? doctor->seconds : USUAL_S);
    int exit_code = CLI_EXIT_OK;
    cli_catch_interrupts();
    for (bool first = true; !cli_interrupted(); first = false) {
        json_t *list = cli_loaders(doctor->command, pid, !first, &exit_code);
        look(&watch, list);
        json_decref(list);
        const double left = end - cli_now();
        if (!list || left <= 0)
            break;
        cli_sleep(fmin(left, EVERY_S));
    }
    if (cli_interrupted()) {
        cli_say(doctor->command, "interrupted.");
        exit_code = CLI_EXIT_INTERRUPTED;
    }
    exit_code = exit_code ? exit_code : report(doctor, &watch, pid);
    while (watch.n)
        forget(&watch.loaders[--watch.n]);
    return exit_code;
}
