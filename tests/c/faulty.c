/*
 * Wraps files of the local backend. A mapping that is cut is a real one: of a memfd that holds only the first bytes, so
 * that touching the rest raises SIGBUS as a cut file does.
 */
#include "faulty.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "doubles.h"
#include "io/file.h"
#include "io/guard.h"

struct faulty_file {
    struct leat_io_file file;
    struct leat_io_file *inner;
    bool disturbed;
    _Atomic(uint8_t *) map; /* only if cut */
};

struct delayed {
    struct leat_io_request *request;
    struct delayed *next;
    bool released, cancelled;
    int64_t due_ns;
};

static struct leat_faulty plan;
static atomic_uint_fast64_t opens, reads, maps, cancelled;
static atomic_bool now;
static atomic_uint_fast64_t fail_at;
static atomic_uint errors_left;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct delayed *queue, **queue_end = &queue, *held, **held_end = &held;
static unsigned held_per_thousand;
static bool stopping;
static pthread_t helper;

static ssize_t disturbed_pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    unsigned left = atomic_load(&errors_left);
    while (left && !atomic_compare_exchange_weak(&errors_left, &left, left - 1))
        ;
    if (left) {
        errno = plan.error_number;
        return -1;
    }
    if (plan.short_reads && bytes > plan.short_reads)
        bytes = plan.short_reads;
    return pread(fd, buffer, bytes, offset);
}

static int faulty_open(const struct leat_io_backend *backend, const char *path, struct leat_io_file **out,
                       struct leat_error *error)
{
    bool disturbed = !plan.only || strstr(path, plan.only);
    if (disturbed && atomic_fetch_add(&opens, 1) + 1 == plan.fail_open) {
        leat_fail(error, LEAT_E_IO, "cannot open %s: the test wants it so", path);
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
        return LEAT_E_IO;
    }
    struct leat_io_file *inner;
    int rc = leat_io_local.open(&leat_io_local, path, &inner, error);
    if (rc)
        return rc;
    struct faulty_file *f = leat_new(struct faulty_file);
    if (!f) {
        leat_io_release(inner);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", path);
    }
    f->inner = inner;
    f->disturbed = disturbed;
    f->file.backend = backend;
    f->file.path = inner->path;
    f->file.size = inner->size;
    f->file.device = inner->device;
    f->file.inode = inner->inode;
    f->file.mtime_ns = inner->mtime_ns;
    atomic_init(&f->file.references, 1);
    if (disturbed && plan.cut && plan.cut_before_open && plan.cut_at < inner->size)
        f->file.size = plan.cut_at;
    *out = &f->file;
    return LEAT_OK;
}

/* Does the read with everything but the delay. */
static void finish(struct leat_io_request *r)
{
    struct faulty_file *f = (struct faulty_file *)r->file;
    uint64_t number = f->disturbed ? atomic_fetch_add(&reads, 1) + 1 : 0, fails = atomic_load(&fail_at);
    if (number && (number == fails || fails == UINT64_MAX)) {
        r->status = leat_fail(&r->error, LEAT_E_IO, "cannot read %s: the test wants it so", f->file.path);
        r->retry_after_ms = plan.retry_after_ms;
        leat_error_at_file(&r->error, f->file.path, (int64_t)r->offset);
        return;
    }
    if (f->disturbed && plan.cut && (r->offset > plan.cut_at || r->length > plan.cut_at - r->offset)) {
        r->status = leat_fail(&r->error, LEAT_E_CORRUPT, "%s was cut by the test", f->file.path);
        leat_error_at_file(&r->error, f->file.path, (int64_t)plan.cut_at);
        return;
    }
    struct leat_io_request inner = *r; /* the request itself may be cancelled meanwhile */
    inner.file = f->inner;
    leat_io_local.submit(f->inner, &inner);
    r->status = inner.status;
    r->retry_after_ms = inner.retry_after_ms;
    r->error = inner.error;
}

/* Under the lock. */
static void enqueue(struct delayed *d)
{
    d->next = NULL;
    *queue_end = d;
    queue_end = &d->next;
    pthread_cond_signal(&changed);
}

/* Puts a read aside that is to wait. Under the lock. */
static bool hold(struct delayed *d)
{
    const struct faulty_file *f = (const struct faulty_file *)d->request->file;
    if (stopping || d->released || !f->disturbed ||
        leat_key_mix(UINT64_C(0x686f6c64), d->request->offset) % 1000 >= held_per_thousand)
        return false;
    d->next = NULL;
    *held_end = d;
    held_end = &d->next;
    return true;
}

void leat_faulty_hold(unsigned per_thousand)
{
    pthread_mutex_lock(&lock);
    held_per_thousand = per_thousand;
    pthread_mutex_unlock(&lock);
}

uint64_t leat_faulty_held(uint64_t *bytes)
{
    uint64_t n = 0;
    *bytes = 0;
    pthread_mutex_lock(&lock);
    for (const struct delayed *d = held; d; d = d->next, n++)
        *bytes += d->request->length;
    pthread_mutex_unlock(&lock);
    return n;
}

void leat_faulty_fail(uint64_t n)
{
    atomic_store(&fail_at, n && n < UINT64_MAX ? atomic_load(&reads) + n : n);
}

void leat_faulty_later(bool later)
{
    atomic_store(&now, !later);
}

/* Under the lock. */
static unsigned release(unsigned n)
{
    unsigned released = 0;
    for (; held && released < n; released++) {
        struct delayed *d = held;
        if (!(held = d->next))
            held_end = &held;
        d->released = true;
        enqueue(d);
    }
    return released;
}

unsigned leat_faulty_release(unsigned n)
{
    pthread_mutex_lock(&lock);
    unsigned released = release(n);
    pthread_mutex_unlock(&lock);
    return released;
}

static void *help(void *arg)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!queue && !stopping)
            pthread_cond_wait(&changed, &lock);
        struct delayed *d = queue;
        if (!d)
            break;
        if (!(queue = d->next))
            queue_end = &queue;
        if (hold(d))
            continue;
        pthread_mutex_unlock(&lock);
        struct leat_io_request *r = d->request;
        int64_t wait_ns = plan.latency_us ? d->due_ns - leat_clock_ns() : (int64_t)plan.delay_us * 1000;
        bool gone = d->cancelled;
        r->backend_state = NULL;
        leat_free(d);
        if (wait_ns > 0 && !gone)
            usleep((unsigned)(wait_ns / 1000));
        if (gone)
            r->status = leat_fail(&r->error, LEAT_E_CANCELLED, "the read was cancelled");
        else
            finish(r);
        r->done(r, r->user);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int faulty_submit(struct leat_io_file *file, struct leat_io_request *r)
{
    struct delayed *d = plan.later && !now ? leat_new(struct delayed) : NULL;
    if (!d) {
        finish(r);
        return LEAT_OK;
    }
    d->request = r;
    d->due_ns = leat_clock_ns() + (int64_t)plan.latency_us * 1000;
    pthread_mutex_lock(&lock);
    r->backend_state = d;
    enqueue(d);
    pthread_mutex_unlock(&lock);
    return LEAT_IO_PENDING;
}

/* Held ones end at once, and those that would have been held. */
static void faulty_cancel(struct leat_io_request *r)
{
    pthread_mutex_lock(&lock);
    for (struct delayed *d = queue; d && held_per_thousand; d = d->next)
        if (d->request == r && !d->released) {
            d->cancelled = d->released = true;
            atomic_fetch_add(&cancelled, 1);
        }
    for (struct delayed **p = &held, *d; (d = *p); p = &d->next) {
        if (d->request != r)
            continue;
        if (!(*p = d->next))
            held_end = p;
        d->cancelled = d->released = true;
        atomic_fetch_add(&cancelled, 1);
        enqueue(d);
        break;
    }
    pthread_mutex_unlock(&lock);
}

static uint8_t *map_cut(struct faulty_file *f, struct leat_error *error)
{
    uint8_t *map = MAP_FAILED;
    size_t keep = plan.cut_at < f->inner->size ? (size_t)plan.cut_at : (size_t)f->inner->size;
    int fd = memfd_create("leat-faulty", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)keep))
        goto out;
    if (keep) {
        uint8_t *copy = mmap(NULL, keep, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (copy == MAP_FAILED)
            goto out;
        int rc = leat_io_read(f->inner, 0, keep, copy, error);
        munmap(copy, keep);
        if (rc)
            goto out;
    }
    map = mmap(NULL, f->file.size ? (size_t)f->file.size : 1, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED && leat_guard_add(map, (size_t)f->file.size, f->file.path)) {
        munmap(map, (size_t)f->file.size);
        map = MAP_FAILED;
    }
out:
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED) {
        leat_fail_errno(error, LEAT_E_IO, "cannot map a cut copy of %s", f->file.path);
        return NULL;
    }
    return map;
}

static const uint8_t *faulty_map(struct leat_io_file *file, struct leat_error *error)
{
    struct faulty_file *f = (struct faulty_file *)file;
    if (f->disturbed && atomic_fetch_add(&maps, 1) + 1 == plan.fail_map) {
        leat_fail(error, LEAT_E_IO, "cannot map %s: the test wants it so", file->path);
        leat_error_at_file(error, file->path, LEAT_NO_OFFSET);
        return NULL;
    }
    if (!f->disturbed || !plan.cut)
        return leat_io_local.map(f->inner, error);
    uint8_t *map = atomic_load(&f->map), *fresh;
    if (map)
        return map;
    if (!(fresh = map_cut(f, error)))
        return NULL;
    if (!atomic_compare_exchange_strong(&f->map, &map, fresh)) {
        leat_guard_remove(fresh, (size_t)f->file.size);
        munmap(fresh, (size_t)f->file.size);
        return map;
    }
    return fresh;
}

static void faulty_close(struct leat_io_file *file)
{
    struct faulty_file *f = (struct faulty_file *)file;
    uint8_t *map = atomic_load(&f->map);
    if (map) {
        leat_guard_remove(map, (size_t)f->file.size);
        munmap(map, (size_t)f->file.size);
    }
    leat_io_release(f->inner);
    leat_free(f);
}

static const struct leat_io_backend faulty_backend = {.name = "faulty",
                                                      .open = faulty_open,
                                                      .submit = faulty_submit,
                                                      .cancel = faulty_cancel,
                                                      .map = faulty_map,
                                                      .close = faulty_close};

static const struct leat_io_backend unmapped_backend = {
    .name = "faulty", .open = faulty_open, .submit = faulty_submit, .cancel = faulty_cancel, .close = faulty_close};

void leat_faulty_start(const struct leat_faulty *faulty)
{
    plan = *faulty;
    atomic_store(&opens, 0);
    atomic_store(&reads, 0);
    atomic_store(&maps, 0);
    atomic_store(&cancelled, 0);
    atomic_store(&now, false);
    atomic_store(&fail_at, plan.fail_read);
    atomic_store(&errors_left, plan.errors);
    pthread_mutex_lock(&lock);
    stopping = false;
    held_per_thousand = 0;
    pthread_mutex_unlock(&lock);
    if (plan.later && pthread_create(&helper, NULL, help, NULL))
        plan.later = false;
    test_pread = disturbed_pread;
    test_backend = plan.unmapped ? &unmapped_backend : &faulty_backend;
}

struct leat_faulty_counts leat_faulty_stop(void)
{
    if (plan.later) {
        pthread_mutex_lock(&lock);
        stopping = true;
        release(UINT32_MAX);
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
        pthread_join(helper, NULL);
    }
    memset(&plan, 0, sizeof plan);
    test_pread = pread;
    test_backend = &leat_io_local;
    return (struct leat_faulty_counts){atomic_load(&opens), atomic_load(&reads), atomic_load(&maps),
                                       atomic_load(&cancelled)};
}
