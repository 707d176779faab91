/*
 * The line of progress, and the flag behind Ctrl-C.
 */
#include "progress.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "print.h"

static volatile sig_atomic_t interrupted;

struct cli_progress {
    struct cli_progress_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop, terminal, drawn;
    double begin;
};

void cli_sleep(double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    if (seconds > 0)
        nanosleep(&time, NULL);
}

double cli_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double cli_cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void on_signal(int number)
{
    interrupted = 1;
}

void cli_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND}, before;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN) /* nohup wants it ignored */
        sigaction(SIGHUP, &action, NULL);
}

bool cli_interrupted(void)
{
    return interrupted;
}

static unsigned terminal_columns(void)
{
    struct winsize size;
    if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 20)
        return size.ws_col;
    return 80;
}

static void draw(struct cli_progress *progress)
{
    const struct cli_progress_options *o = &progress->options;
    struct cli_progress_state state = {0};
    o->read(o->user, &state);
    double seconds = cli_now() - progress->begin;
    double new_samples = state.samples > o->first_samples ? (double)(state.samples - o->first_samples) : 0;
    double new_bytes = state.bytes > o->first_bytes ? (double)(state.bytes - o->first_bytes) : 0;
    double per_second = seconds > 0 ? 1 / seconds : 0;

    char line[400], a[32], b[32], c[32];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", o->verb);
    double done = 0, rate = 0;
    const uint64_t total_bytes = state.total_bytes ? state.total_bytes : o->total_bytes;
    if (total_bytes) {
        done = (double)state.bytes / (double)total_bytes;
        rate = new_bytes * per_second / (double)total_bytes;
    } else if (o->total_samples) {
        done = (double)state.samples / (double)o->total_samples;
        rate = new_samples * per_second / (double)o->total_samples;
    }
    used += (size_t)snprintf(line + used, sizeof line - used, " %3.0f%%", done > 1 ? 100 : done * 100);
    if (o->total_samples && !o->only_time)
        used +=
            (size_t)snprintf(line + used, sizeof line - used, "  %s of %s samples  %s/s", cli_count(state.samples, a),
                             cli_count(o->total_samples, b), cli_count((uint64_t)(new_samples * per_second), c));
    if (!o->only_time && (total_bytes || state.bytes))
        used += (size_t)snprintf(line + used, sizeof line - used, "  %s/s",
                                 cli_bytes((uint64_t)(new_bytes * per_second), a));
    if (rate > 0 && done < 1)
        used += (size_t)snprintf(line + used, sizeof line - used, "  %s left", cli_duration((1 - done) / rate, a));
    if (state.note[0])
        used += (size_t)snprintf(line + used, sizeof line - used, "  %s", state.note);
    if (progress->terminal) {
        unsigned columns = terminal_columns();
        fprintf(stderr, "\r%.*s\033[K", (int)columns - 1, line);
    } else {
        fprintf(stderr, "%s\n", line);
    }
    fflush(stderr);
    progress->drawn = true;
}

static void *drawing(void *argument)
{
    struct cli_progress *progress = argument;
    /* The first line on a terminal comes soon; short work draws nothing. */
    double wait = progress->terminal ? 0.3 : 10, step = progress->terminal ? 0.25 : 10;
    pthread_mutex_lock(&progress->lock);
    while (!progress->stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)wait;
        until.tv_nsec += (long)((wait - (double)(time_t)wait) * 1e9);
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        int rc = 0;
        while (!progress->stop && !rc)
            rc = pthread_cond_timedwait(&progress->wake, &progress->lock, &until);
        if (progress->stop)
            break;
        pthread_mutex_unlock(&progress->lock);
        draw(progress);
        pthread_mutex_lock(&progress->lock);
        wait = step;
    }
    pthread_mutex_unlock(&progress->lock);
    return NULL;
}

struct cli_progress *cli_progress_start(const struct cli_progress_options *options)
{
    if (options->quiet)
        return NULL;
    struct cli_progress *progress = calloc(1, sizeof *progress);
    if (!progress)
        return NULL;
    pthread_condattr_t attributes;
    progress->options = *options;
    progress->terminal = isatty(STDERR_FILENO);
    progress->begin = cli_now();
    pthread_mutex_init(&progress->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&progress->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&progress->thread, NULL, drawing, progress)) {
        pthread_cond_destroy(&progress->wake);
        pthread_mutex_destroy(&progress->lock);
        free(progress);
        return NULL;
    }
    return progress;
}

void cli_progress_stop(struct cli_progress *progress)
{
    if (!progress)
        return;
    pthread_mutex_lock(&progress->lock);
    progress->stop = true;
    pthread_cond_signal(&progress->wake);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    if (progress->drawn && progress->terminal)
        fputs("\r\033[K", stderr);
    pthread_cond_destroy(&progress->wake);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
}
