#include "port/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

_Static_assert(sizeof(struct leat_given) == 24 && offsetof(struct leat_channel, n_returned) == 64 &&
                   offsetof(struct leat_channel, given) == 128,
               "another process of this version has the same layout");

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, (uint32_t *)(void *)word, operation, value, timeout, NULL, 0);
}

int leat_channel_new(struct leat_channel **out, int *fd, struct leat_error *error)
{
    *out = NULL;
    *fd = memfd_create("leat-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return leat_fail_errno(error, LEAT_E_IO, "cannot make memory to share with a consumer");
    struct leat_channel *c = MAP_FAILED;
    if (!ftruncate(*fd, sizeof *c) && !fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (c == MAP_FAILED) {
        int rc = leat_fail_errno(error, LEAT_E_NOMEM, "cannot make memory to share with a consumer");
        close(*fd);
        *fd = -1;
        return rc;
    }
    *out = c;
    return LEAT_OK;
}

int leat_channel_map(int fd, struct leat_channel **out, struct leat_error *error)
{
    struct stat st;
    *out = NULL;
    if (fstat(fd, &st) || (uint64_t)st.st_size < sizeof **out)
        return leat_fail(error, LEAT_E_FORMAT, "the port sent no channel");
    struct leat_channel *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (c == MAP_FAILED)
        return leat_fail_errno(error, LEAT_E_NOMEM, "cannot map the channel of a port");
    *out = c;
    return LEAT_OK;
}

void leat_channel_unmap(struct leat_channel *c)
{
    if (c)
        munmap(c, sizeof *c);
}

static void wake(struct leat_channel *c)
{
    atomic_thread_fence(memory_order_seq_cst); /* either it sees what was given, or it is seen to sleep */
    if (atomic_load_explicit(&c->sleeping, memory_order_relaxed))
        futex(&c->n_given, FUTEX_WAKE, INT_MAX, NULL);
}

void leat_channel_give(struct leat_channel *c, const struct leat_given *given)
{
    const uint32_t n = atomic_load_explicit(&c->n_given, memory_order_relaxed);
    c->given[n % LEAT_CHANNEL_RING] = *given;
    atomic_store_explicit(&c->n_given, n + 1, memory_order_release);
    wake(c);
}

void leat_channel_end(struct leat_channel *c)
{
    atomic_store_explicit(&c->ended, 1, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    futex(&c->n_given, FUTEX_WAKE, INT_MAX, NULL);
}

void leat_channel_wait(struct leat_channel *c, uint32_t seen, int64_t timeout_ns)
{
    const struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    atomic_store_explicit(&c->sleeping, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&c->n_given, memory_order_acquire) == seen &&
        !atomic_load_explicit(&c->ended, memory_order_acquire))
        futex(&c->n_given, FUTEX_WAIT, seen, &timeout);
    atomic_store_explicit(&c->sleeping, 0, memory_order_relaxed);
}

void leat_channel_return(struct leat_channel *c, uint32_t slot)
{
    const uint32_t n = atomic_load_explicit(&c->n_returned, memory_order_relaxed);
    atomic_store_explicit(&c->returned[n % LEAT_CHANNEL_RING], slot, memory_order_relaxed);
    atomic_store_explicit(&c->n_returned, n + 1, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* either the port sees it, or it is seen to be starved */
}

bool leat_channel_should_wake(struct leat_channel *c, uint32_t out, bool all)
{
    return atomic_load_explicit(&c->starved, memory_order_relaxed) &&
           (all || 2 * out <= atomic_load_explicit(&c->credit, memory_order_relaxed)) &&
           atomic_exchange_explicit(&c->starved, 0, memory_order_relaxed);
}
