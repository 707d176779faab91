/* Rows of references. A process is named by its number and the time when it began, so that a number that was given
 * again is not taken for the one that died. */
#include "base/holders.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

size_t leat_holders_bytes(uint32_t n)
{
    return sizeof(struct leat_holders) + n * sizeof(struct leat_holder);
}

/* The low bits of when a process began, in ticks since the system did; 0 if /proc does not say. */
static uint32_t begin_of(pid_t pid)
{
    char path[32], text[1024], *at;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    at = strrchr(text, ')'); /* a name may have anything in it */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? (uint32_t)strtoull(at + 1, NULL, 10) : 0;
}

static bool is_alive(uint64_t who)
{
    const pid_t pid = (pid_t)(who >> 32);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return errno != ESRCH && (kill(pid, 0) == 0 || errno != ESRCH);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    const uint32_t begun = begin_of(pid); /* while the descriptor keeps the number from being given again unnoticed */
    bool ended = poll(&p, 1, 0) > 0;
    close(fd);
    return !ended && (!begun || !(uint32_t)who || begun == (uint32_t)who);
}

static void clear(struct leat_holder *row)
{
    for (size_t i = 0; i < LEAT_HOLDER_ROOM; i++)
        atomic_store(&row->held[i], 0);
    atomic_store(&row->top, 0);
    atomic_store(&row->more, 0);
}

static uint64_t this_process(void)
{
    return (uint64_t)getpid() << 32 | begin_of(getpid());
}

/* The row of a dead process becomes this one's, empty, as `me`. */
static bool take_over(struct leat_holder *row, uint64_t dead, uint64_t me)
{
    if (!atomic_compare_exchange_strong(&row->who, &dead, me))
        return false;
    clear(row);
    return true;
}

struct leat_holder *leat_holders_join(struct leat_holders *t)
{
    const uint64_t me = this_process();
    for (int look = 0; look < 2; look++) /* first those that nobody has: that needs no look at other processes */
        for (uint32_t i = 0; i < t->n; i++) {
            struct leat_holder *row = &t->rows[i];
            uint64_t who = atomic_load(&row->who);
            if ((who && (!look || is_alive(who))) || !take_over(row, who, me))
                continue;
            uint32_t used = atomic_load(&t->used);
            while (used <= i && !atomic_compare_exchange_weak(&t->used, &used, i + 1)) {
            }
            atomic_store(&row->number, i);
            return row;
        }
    return NULL;
}

/* The row in which its process goes on; NULL: there is none. */
static struct leat_holder *further(struct leat_holder *row)
{
    const uint32_t number = atomic_load(&row->more);
    return number ? row - atomic_load(&row->number) + (number - 1) : NULL;
}

void leat_holder_leave(struct leat_holder *row)
{
    if (!row || (pid_t)(atomic_load(&row->who) >> 32) != getpid())
        return;
    leat_holder_leave(further(row));
    clear(row);
    atomic_store(&row->who, 0);
}

/* The same, with a row that is joined if there is none. */
static struct leat_holder *go_on(struct leat_holder *row)
{
    struct leat_holder *more = further(row), *rows = row - atomic_load(&row->number);
    uint32_t none = 0;
    if (more)
        return more;
    more = leat_holders_join((struct leat_holders *)(void *)((char *)rows - offsetof(struct leat_holders, rows)));
    if (!more || atomic_compare_exchange_strong(&row->more, &none, atomic_load(&more->number) + 1))
        return more;
    leat_holder_leave(more); /* another thread was faster */
    return further(row);
}

bool leat_holder_hold(struct leat_holder *row, uint64_t offset)
{
    for (size_t i = 0; i < LEAT_HOLDER_ROOM; i++) {
        uint64_t none = 0, top = atomic_load(&row->top);
        while (top <= i && !atomic_compare_exchange_weak(&row->top, &top, i + 1)) {
        }
        if (!atomic_load_explicit(&row->held[i], memory_order_relaxed) &&
            atomic_compare_exchange_strong(&row->held[i], &none, offset + 1))
            return true;
    }
    row = go_on(row);
    return row && leat_holder_hold(row, offset);
}

void leat_holder_drop(struct leat_holder *row, uint64_t offset)
{
    for (size_t i = 0; i < LEAT_HOLDER_ROOM; i++) {
        uint64_t held = offset + 1;
        if (atomic_load_explicit(&row->held[i], memory_order_relaxed) == held &&
            atomic_compare_exchange_strong(&row->held[i], &held, 0))
            return;
    }
    row = further(row);
    if (row)
        leat_holder_drop(row, offset);
}

static bool has(const struct leat_holder *row, uint64_t begin, uint64_t end)
{
    for (size_t i = 0, n = atomic_load(&row->top); i < n && i < LEAT_HOLDER_ROOM; i++) {
        const uint64_t held = atomic_load(&row->held[i]);
        if (held > begin && held <= end)
            return true;
    }
    return false;
}

bool leat_holders_have(struct leat_holders *t, uint64_t begin, uint64_t end)
{
    for (uint32_t i = 0; i < atomic_load(&t->used) && i < t->n; i++) {
        struct leat_holder *row = &t->rows[i];
        const uint64_t who = atomic_load(&row->who);
        if (!who || !has(row, begin, end))
            continue;
        if (is_alive(who))
            return true;
        if (take_over(row, who, this_process()))
            atomic_store(&row->who, 0);
    }
    return false;
}
