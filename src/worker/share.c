/*
 * The memory that a process shares with its worker processes: one region of the kind memfd, reserved at first use and
 * committed page by page. Boards and the slots of batches are cut from it, and named by their offset: workers that were
 * forked have it at the same address, others map the descriptor wherever there is room.
 *
 *     parent:   own.region --- cut into slots, counted, given back when the last reference goes
 *     worker:   inherited (by fork) or attached (by descriptor): read and written, never cut
 *
 * A worker holds its buffers in a table at the region's beginning (base/holders.h): buffers that the parent lets go of
 * meanwhile are not used again before the worker has ended its unit, or died.
 *
 * If addresses are scarce (ulimit -v) the region is mapped in steps. Its head has its size, and a worker that has taken
 * a unit maps the parts that it lacks: the memory of a unit was mapped before the unit was published.
 *
 * A process may be both: a worker whose data set runs a loader of its own. Pages have no name in any file system, so
 * that nothing is left behind however the processes end.
 */
#include "worker/share.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/ledger.h"
#include "engine/region.h"

#define KIND_MEMFD 1

struct leat_slot {
    _Atomic uint32_t references;
    unsigned generation; /* of the process that cut it: a forked child's copies give nothing back */
    uint64_t offset, bytes;
    uint8_t *data; /* kept: a forked child that makes a region of its own still reads the slots that it inherited */
};

static struct {
    pthread_mutex_t lock;
    struct leat_region region;
    bool open;
    unsigned generation;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The parent's, in a worker process. */
static struct {
    uint8_t *base;
    int fd;
    _Atomic uint64_t mapped[2];
} inherited;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&own.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&own.lock);
}

static void in_child(void)
{
    pthread_mutex_init(&own.lock, NULL);
    if (own.open) { /* its mapping and descriptor stay: slots that the child inherited are read there */
        inherited.base = own.region.base;
        inherited.fd = own.region.fd;
        for (int a = 0; a < 2; a++)
            atomic_store(&inherited.mapped[a], own.region.areas[a].committed);
    }
    own.open = false;
    own.generation++;
    leat_ledger_forget(LEAT_OF_WORKERS);
}

static void start_once(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

static const char *obstacle(void)
{
    const char *found = leat_region_obstacle(&own.region);
    return found ? found : "";
}

static int open_region(struct leat_error *error)
{
    pthread_once(&once, start_once);
    if (own.open)
        return LEAT_OK;
    int rc = leat_region_open(&own.region, KIND_MEMFD, leat_memory_allowed(), NULL, error);
    if (rc)
        return rc;
    own.open = true;
    return LEAT_OK;
}

int leat_share_descriptor(int *fd, struct leat_error *error)
{
    *fd = -1;
    pthread_mutex_lock(&own.lock);
    int rc = open_region(error);
    if (rc == LEAT_OK)
        *fd = own.region.fd;
    pthread_mutex_unlock(&own.lock);
    return rc;
}

int leat_share_attach(int fd, struct leat_error *error)
{
    struct stat st;
    if (fstat(fd, &st))
        return leat_fail_errno(error, LEAT_E_IO, "cannot look at the shared memory of the parent process");
    struct leat_region_head head = {0};
    if (pread(fd, &head, sizeof head, 0) != sizeof head)
        return leat_fail_errno(error, LEAT_E_IO, "cannot read the shared memory of the parent process");
    if (head.stepwise) {
        inherited.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        inherited.base = leat_region_addresses(head.bytes);
        for (int a = 0; a < 2; a++)
            atomic_store(&inherited.mapped[a], head.begin[a]);
        const uint64_t first = atomic_load(&head.mapped[0]);
        if (inherited.fd >= 0 && inherited.base && leat_region_map(inherited.fd, inherited.base, 0, first)) {
            atomic_store(&inherited.mapped[0], first);
            return leat_share_follow(error);
        }
        inherited.base = NULL;
    } else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        inherited.base = p == MAP_FAILED ? NULL : p;
    }
    return inherited.base ? LEAT_OK
                          : leat_fail_errno(error, LEAT_E_NOMEM, "cannot map the shared memory of the parent process");
}

/* One thread of a worker at a time maps; others find the step done. */
int leat_share_follow(struct leat_error *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct leat_region_head *head = (const void *)inherited.base;
    if (!head || !head->stepwise)
        return LEAT_OK;
    for (int a = 0; a < 2; a++) {
        if (atomic_load(&inherited.mapped[a]) >= atomic_load(&head->mapped[a]))
            continue;
        pthread_mutex_lock(&lock);
        const uint64_t from = atomic_load(&inherited.mapped[a]), to = atomic_load(&head->mapped[a]);
        bool mapped = from >= to || leat_region_map(inherited.fd, inherited.base, from, to - from);
        if (mapped)
            atomic_store(&inherited.mapped[a], to);
        pthread_mutex_unlock(&lock);
        if (!mapped)
            return leat_fail_errno(error, LEAT_E_NOMEM,
                                   "a worker cannot map %" PRIu64 " bytes more of its parent's memory%s", to - from,
                                   leat_address_space_left() < UINT64_MAX ? LEAT_REGION_ADDRESSES : "");
    }
    return LEAT_OK;
}

uint8_t *leat_share_base(bool worker)
{
    return worker ? inherited.base : own.region.base;
}

struct leat_holders *leat_share_holders(void)
{
    return &((struct leat_region_head *)(void *)inherited.base)->holders;
}

int leat_slot_new(uint64_t bytes, struct leat_slot **out, struct leat_error *error)
{
    *out = NULL;
    struct leat_slot *slot = leat_new(struct leat_slot);
    if (!slot)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a slot");
    slot->bytes = leat_region_round(bytes ? bytes : 1); /* 0 if that does not fit into 64 bits */
    pthread_mutex_lock(&own.lock);
    int rc = open_region(error);
    if (!rc)
        leat_region_sweep(&own.region);
    if (!rc && (!slot->bytes || own.region.used > own.region.limit || slot->bytes > own.region.limit - own.region.used))
        rc = leat_fail(error, LEAT_E_HELD,
                       "batches in use hold %" PRIu64 " bytes of memory shared with workers, and %" PRIu64
                       " more would pass what this process may use; let go of batches",
                       own.region.used, bytes);
    else if (!rc && !(slot->data = leat_region_alloc(&own.region, slot->bytes, &slot->offset)))
        rc = leat_fail(error, LEAT_E_HELD,
                       "batches in use hold %" PRIu64 " bytes of memory shared with workers, and there is no room for "
                       "%" PRIu64 " more in one piece; let go of batches%s",
                       own.region.used, bytes, obstacle());
    slot->generation = own.generation;
    if (!rc)
        leat_ledger_take(LEAT_OF_WORKERS, slot->bytes);
    pthread_mutex_unlock(&own.lock);
    atomic_init(&slot->references, 1);
    if (rc) {
        leat_free(slot);
        return rc;
    }
    *out = slot;
    return LEAT_OK;
}

void leat_slot_retain(struct leat_slot *slot)
{
    atomic_fetch_add_explicit(&slot->references, 1, memory_order_relaxed);
}

void leat_slot_release(struct leat_slot *slot)
{
    if (!slot || atomic_fetch_sub_explicit(&slot->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_lock(&own.lock);
    if (own.open && slot->generation == own.generation) {
        leat_region_free(&own.region, slot->offset, slot->bytes);
        leat_ledger_give(LEAT_OF_WORKERS, slot->bytes);
    }
    pthread_mutex_unlock(&own.lock);
    leat_free(slot);
}

void *leat_slot_data(const struct leat_slot *slot)
{
    return slot->data;
}

uint64_t leat_slot_offset(const struct leat_slot *slot)
{
    return slot->offset;
}

uint64_t leat_slot_bytes(const struct leat_slot *slot)
{
    return slot->bytes;
}

void leat_share_trim(uint64_t keep)
{
    pthread_mutex_lock(&own.lock);
    if (own.open && own.region.used + own.region.dirty > keep)
        leat_region_trim(&own.region);
    pthread_mutex_unlock(&own.lock);
}

uint64_t leat_share_used(void)
{
    pthread_mutex_lock(&own.lock);
    leat_region_sweep(&own.region);
    uint64_t used = own.open ? own.region.used : 0;
    pthread_mutex_unlock(&own.lock);
    return used;
}
