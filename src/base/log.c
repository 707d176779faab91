/*
 * The log behind LEAT_LOG. A line is made in a buffer on the stack and leaves in one write(2).
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const names[] = {"", "error", "warning", "info", "debug"};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int level_wanted, fd = 2;

static void read_environment(void)
{
    const char *wish = getenv("LEAT_LOG"), *path = getenv("LEAT_LOG_FILE");
    bool known = !wish || !*wish;
    for (int i = LEAT_LOG_ERROR; !known && i <= LEAT_LOG_DEBUG; i++)
        if (!strcmp(wish, names[i])) {
            level_wanted = i;
            known = true;
        }
    if (!known)
        dprintf(2, "leat: LEAT_LOG=%.100s is not known: it is error, warning, info or debug; nothing is logged\n",
                wish);
    if (level_wanted && path) {
        int opened = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (opened >= 0)
            fd = opened;
        else
            dprintf(2, "leat: LEAT_LOG_FILE=%.1000s cannot be opened: %s; the log goes to standard error\n", path,
                    strerror(errno));
    }
}

void leat_log_check(void)
{
    pthread_once(&once, read_environment);
}

bool leat_log_number(const char *variable, uint64_t *out)
{
    const char *wish = getenv(variable);
    if (!wish || !*wish)
        return false;
    errno = 0;
    *out = strtoull(wish, NULL, 10);
    if (!errno && strspn(wish, "0123456789") == strlen(wish))
        return true;
    dprintf(2, "leat: %s=%.100s is no whole number; the default is taken\n", variable, wish);
    return false;
}

void leat_log(enum leat_log_level level, const char *format, ...)
{
    pthread_once(&once, read_environment);
    if ((int)level > level_wanted)
        return;
    char line[2048];
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    int n = snprintf(line, sizeof line, "leat %02d:%02d:%02d.%03ld %d %s: ", tm.tm_hour, tm.tm_min, tm.tm_sec,
                     now.tv_nsec / 1000000, (int)gettid(), names[level]);
    va_list args;
    va_start(args, format);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    size_t used = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (used > sizeof line - 2)
        used = sizeof line - 2;
    line[used++] = '\n';
    ssize_t written = write(fd, line, used);
    (void)written; /* a log that cannot be written is not worth an error */
}
