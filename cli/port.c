/* leat port: the ports of this host, the state of each of their consumers, and the end of one. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "leat/leat.h"
#include "print.h"
#include "progress.h"

struct port {
    const struct cli_command *command;
    struct cli_several words; /* the action, and the name of a port */
    const char *folder;
    double seconds;
    bool json, watch;
};
static const struct cli_option options[] = {
    {"json", NULL, "of ls and stat: JSON; the keys are in docs/ports.md", CLI_SET, .at = offsetof(struct port, json)},
    {"watch", NULL, "of stat: drawn again and again, until Ctrl-C or the end of the port", CLI_SET,
     .at = offsetof(struct port, watch)},
    {"seconds", "S", "of --watch: how often it is drawn; default: 1", CLI_SECONDS,
     .at = offsetof(struct port, seconds)},
    {"dir", "FOLDER",
     "where the sockets are; default: $LEAT_RUNTIME_DIR, else $XDG_RUNTIME_DIR/leat, else\n"
     "leat-<user id> in $TMPDIR or /tmp",
     CLI_TEXT, .at = offsetof(struct port, folder)},
};

static const char *text_of(const json_t *object, const char *key, char *out, size_t room)
{
    const char *text = json_string_value(json_object_get(object, key));
    return leat_escape(text ? text : "?", out, room);
}

/* ---- ls -------------------------------------------------------------------------------------- */

static int list(const struct port *port)
{
    struct leat_error error;
    char *text, name[256], path[1200];
    if (leat_ports(port->folder, &text, &error))
        return cli_fail(port->command, &error, NULL);
    json_t *found = cli_taken(text), *one;
    if (port->json) {
        cli_print_json(found);
        return CLI_EXIT_OK;
    }
    size_t i;
    json_array_foreach(found, i, one)
    {
        const bool alive = json_is_true(json_object_get(one, "alive"));
        const char *shown = text_of(one, "name", name, sizeof name);
        printf("%-*s  process %-8" PRIu64 " %s%s\n", cli_padded(shown, 24), shown, cli_whole(one, "pid"),
               text_of(one, "path", path, sizeof path), alive ? "" : "  (dead)");
    }
    if (!json_array_size(found))
        printf("no ports\n");
    json_decref(found);
    return CLI_EXIT_OK;
}

/* ---- stat ------------------------------------------------------------------------------------ */

/* Samples per second since an earlier look at the same consumer, or since it began; below 0: there is no knowing. */
static double rate_of(const json_t *now, const json_t *before, double seconds)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(before, "consumers"), i, one)
    {
        if (cli_real(one, "id") == cli_real(now, "id") && cli_real(one, "pid") == cli_real(now, "pid") && seconds > 0)
            return fmax(cli_real(now, "samples") - cli_real(one, "samples"), 0) / seconds;
    }
    return -1;
}

static void print_consumer(const json_t *now, const json_t *before, double seconds)
{
    char label[256], row[32], lag[32], again[32], held[32], rate[32] = "", of[48] = "", line[32] = "";
    const char *shown = text_of(now, "label", label, sizeof label);
    const double speed = rate_of(now, before, seconds);
    if (speed >= 0)
        cli_count((uint64_t)(speed + 0.5), rate);
    if (cli_real(now, "world_size") > 1)
        snprintf(of, sizeof of, "  rank %.0f of %.0f", cli_real(now, "rank"), cli_real(now, "world_size"));
    if (cli_real(now, "line") > 0)
        snprintf(line, sizeof line, "  line %.0f", cli_real(now, "line"));
    printf("%-*s %8" PRIu64 " %6" PRIu64 " %6.0f %12s %12s %6" PRIu64 " %10s %11s %10s%s%s%s\n", cli_padded(shown, 20),
           shown, cli_whole(now, "pid"), cli_whole(now, "batch_size"), cli_real(now, "epoch"),
           cli_count(cli_whole(now, "row"), row), cli_count(cli_whole(now, "lag_rows"), lag), cli_whole(now, "held"),
           cli_bytes(cli_whole(now, "held_bytes"), held), cli_count(cli_whole(now, "recomputed"), again), rate, of,
           line, json_is_true(json_object_get(now, "waiting")) ? "  waiting" : "");
}

static void draw(const struct port *port, const json_t *now, const json_t *before)
{
    char name[256], a[32], b[32], c[32], d[32];
    const json_t *consumers = json_object_get(now, "consumers");
    const size_t n = json_array_size(consumers);
    const double seconds = before ? cli_real(now, "uptime_s") - cli_real(before, "uptime_s") : 0;
    size_t i;
    json_t *one;
    if (port->watch)
        cli_redraw();
    printf("port %s: process %" PRIu64 ", open for %s; made %s samples in %s batches, keeps %s\n",
           text_of(now, "name", name, sizeof name), cli_whole(now, "pid"), cli_duration(cli_real(now, "uptime_s"), a),
           cli_count(cli_whole(now, "samples"), b), cli_count(cli_whole(now, "batches"), c),
           cli_bytes(cli_whole(now, "published_bytes"), d));
    if (!n)
        printf("nobody is attached\n");
    else
        printf("%-20s %8s %6s %6s %12s %12s %6s %10s %11s %10s\n", "consumer", "process", "batch", "epoch", "row",
               "rows behind", "held", "", "made again", port->watch ? "samples/s" : "");
    json_array_foreach(consumers, i, one) print_consumer(one, before, seconds);
    fflush(stdout);
}

static int show(const struct port *port, const char *name)
{
    json_t *before = NULL;
    struct leat_error error;
    int exit_code = CLI_EXIT_OK;
    for (bool first = true;; first = false) {
        char *text;
        if (leat_port_ask_stat(port->folder, name, &text, &error)) {
            if (!first && error.code == LEAT_E_NOT_FOUND)
                printf("port %s has ended\n", name);
            else
                exit_code = cli_fail(port->command, &error, NULL);
            break;
        }
        json_t *now = cli_taken(text);
        if (port->json) {
            cli_print_json(now);
            break;
        }
        draw(port, now, before);
        json_decref(before);
        before = now;
        if (!port->watch)
            break;
        cli_sleep(fmax(port->seconds, 0.1));
        if (cli_interrupted()) {
            exit_code = CLI_EXIT_INTERRUPTED;
            break;
        }
    }
    json_decref(before);
    return exit_code;
}

/* ---- stop ------------------------------------------------------------------------------------ */

static int stop(const struct port *port, const char *name)
{
    struct leat_error error;
    if (leat_port_stop(port->folder, name, &error))
        return cli_fail(port->command, &error, NULL);
    return CLI_EXIT_OK;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct port port = {.command = command, .seconds = 1};
    static const char *const actions[] = {"ls", "stat", "stop"};
    int exit_code;
    if (!cli_parse(command, argc, argv, &port, &exit_code))
        return exit_code;
    const char *action = port.words.at[0], *name = port.words.n > 1 ? port.words.at[1] : NULL;
    size_t i = 0;
    while (i < 3 && strcmp(action, actions[i]) != 0)
        i++;
    if (i == 3)
        return cli_usage_error(command, "there is no \"%s\": leat port ls, leat port stat NAME or leat port stop NAME.",
                               action);
    if (!i == !!name || port.words.n > 2)
        return cli_usage_error(command, "%s. Usage: leat port %s", i && !name ? "NAME is missing" : "too many words",
                               i ? i == 1 ? "stat NAME" : "stop NAME" : "ls");
    if ((port.json && i == 2) || (port.watch && (i != 1 || port.json)))
        return cli_usage_error(command, "--%s does not go with that.", port.watch ? "watch" : "json");
    cli_catch_interrupts();
    return !i ? list(&port) : i == 1 ? show(&port, name) : stop(&port, name);
}

const struct cli_command cli_port = {
    .name = "port",
    .usage = "ls | stat NAME | stop NAME [options]",
    .summary = "the loaders that are served on this host: list them, look at one, end one",
    .about =
        "ls lists the ports that leat serve, or leat.Port in Python, have opened. stat shows who is attached to one,\n"
        "and for each of them the next row, how many rows it is behind the first, how many batches it holds and how\n"
        "many were made again for it, because they had been given up before it came. stop asks a port to end.\n",
    .arguments = {{"ls, stat or stop", offsetof(struct port, words)}},
    .several = true,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat port ls\n"
            "  leat port stat photos --watch\n"
            "  leat port stop photos\n"
            "\nExit codes: 0 done; 2 there is no such port, or it could not be asked; 130 interrupted.\n",
    .run = run,
};
