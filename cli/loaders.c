/* Reading the pages of other processes, and naming the process that was meant. */
#include "loaders.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leat/watch.h"
#include "print.h"

int cli_pid(const char *text)
{
    char *end;
    const unsigned long long pid = strtoull(text, &end, 10);
    return text[0] < '0' || text[0] > '9' || *end || pid > INT32_MAX ? 0 : (int)pid;
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

json_t *cli_loaders(const struct cli_command *command, int pid, bool was_there, int *exit_code)
{
    struct leat_error error;
    char *text, below[256], hint[320];
    if (!leat_loader_of_process(pid, &text, &error))
        return cli_taken(text);
    if (was_there && error.code == LEAT_E_NOT_FOUND) {
        *exit_code = CLI_EXIT_OK;
        return NULL;
    }
    list_below(pid, below, sizeof below);
    snprintf(hint, sizeof hint, "These of the processes that it started have loaders: %s", below);
    *exit_code = cli_fail(command, &error, *below ? hint : NULL);
    return NULL;
}

bool cli_loader_is(const json_t *before, const json_t *now)
{
    return cli_real(before, "loader") == cli_real(now, "loader") &&
           cli_real(before, "samples") <= cli_real(now, "samples") &&
           cli_real(before, "open_s") <= cli_real(now, "open_s");
}

double cli_loader_written(const json_t *loader)
{
    return cli_real(loader, "open_s") - cli_real(loader, "age_s");
}

const json_t *cli_loader_ray(const json_t *loader)
{
    return json_object_get(json_object_get(loader, "elsewhere"), "ray");
}

static double waited(const json_t *loader)
{
    const json_t *ray = cli_loader_ray(loader);
    return ray ? cli_real(ray, "wait_s")
               : cli_real(loader, "consumer_wait_s") + cli_real(loader, "consumer_help_s") +
                     cli_real(loader, "waiting_s");
}

double cli_loader_waits(const json_t *now, const json_t *before)
{
    const double span = cli_real(now, "open_s") - cli_real(before, "open_s");
    return fmin(fmax((waited(now) - waited(before)) / fmax(span, 1e-9), 0), 1);
}
