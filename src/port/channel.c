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

bool leat_channel_is_sealed(int fd)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK);
}

int leat_channel_map(int fd, struct leat_channel **out, struct leat_error *error)
{
    struct stat st;
    *out = NULL;
    if (fstat(fd, &st) || (uint64_t)st.st_size < sizeof **out || !leat_channel_is_sealed(fd))
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

/* One side writes its work and then looks whether the other one sleeps; that one says that it sleeps and then looks at
 * the work. All four are sequentially consistent, so that at least one of them sees the other. Sleeping is the third:
 * the kernel looks at `sleeping` again. So whatever is to wake a consumer changes that, and not a word of its own: one
 * that has seen that the port goes on, and sleeps on n_given, would sleep through its end. */

static void wake(struct leat_channel *c)
{
    if (atomic_load(&c->sleeping) &&
        atomic_exchange(&c->sleeping, 0)) /* once, however much it is given until it runs */
        futex(&c->sleeping, FUTEX_WAKE, INT_MAX, NULL);
}

void leat_channel_give(struct leat_channel *c, const struct leat_given *given)
{
    const uint32_t n = atomic_load_explicit(&c->n_given, memory_order_relaxed);
    c->given[n % LEAT_CHANNEL_RING] = *given;
    atomic_store(&c->n_given, n + 1);
    wake(c);
}

void leat_channel_end(struct leat_channel *c)
{
    atomic_store(&c->ended, 1);
    wake(c);
}

void leat_channel_wait(struct leat_channel *c, uint32_t seen, int64_t timeout_ns)
{
    const struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    atomic_store(&c->sleeping, 1);
    if (atomic_load(&c->n_given) == seen && !atomic_load(&c->ended))
        futex(&c->sleeping, FUTEX_WAIT, 1, &timeout);
    atomic_store(&c->sleeping, 0);
}

void leat_channel_return(struct leat_channel *c, uint32_t slot)
{
    const uint32_t n = atomic_load_explicit(&c->n_returned, memory_order_relaxed);
    atomic_store_explicit(&c->returned[n % LEAT_CHANNEL_RING], slot, memory_order_relaxed);
    atomic_store(&c->n_returned, n + 1);
}

bool leat_channel_should_wake(struct leat_channel *c, uint32_t out, bool all)
{
    return atomic_load(&c->starved) && (all || 2 * out <= atomic_load_explicit(&c->credit, memory_order_relaxed)) &&
           atomic_exchange(&c->starved, 0);
}
