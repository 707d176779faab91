/* Writing the page, and reading that of another process. */
#include "engine/page.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/calls.h"
#include "engine/loader.h"
#include "engine/task.h"

#define NAME "leat-loaders"
#define EVERY_NS INT64_C(100000000)
enum { VERSION = 3, TRIES = 100 };

static const char magic[8] = "LEATPAGE";
static struct {
    struct leat_page *page;
    int fd;
    bool tried;
} own = {.fd = -1};

/* ---- writing: under the engine's lock -------------------------------------------------------- */

/* The page is a help for people: if it cannot be made, no error is reported. */
static void make_page(void)
{
    struct rlimit limit;
    own.tried = true;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < sizeof(struct leat_page))
        return; /* making it would raise SIGXFSZ */
    const int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return;
    /* Sealed, it cannot become shorter under a reader, which would be ended by SIGBUS. */
    struct leat_page *page = ftruncate(fd, sizeof *page) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
                                 ? MAP_FAILED
                                 : mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        close(fd);
        return;
    }
    page->version = VERSION;
    page->slot_bytes = sizeof(struct leat_page_slot);
    page->slots = LEAT_PAGE_SLOTS;
    memcpy(page->magic, magic, sizeof magic);
    own.page = page;
    own.fd = fd;
}

/* A slot is written between begin and end, word by word: each is released, so that a reader that has read it (acquired)
 * and then reads `serial` finds that it has changed. Only the holder of the engine's lock writes. */
static void begin(struct leat_page_slot *slot)
{
    const uint64_t serial = atomic_load_explicit(&slot->serial, memory_order_relaxed);
    atomic_store_explicit(&slot->serial, serial | 1, memory_order_relaxed);
}

#define PUT(member, value) __atomic_store_n(&(member), (value), __ATOMIC_RELEASE)

static void end(struct leat_page_slot *slot)
{
    const uint64_t serial = atomic_load_explicit(&slot->serial, memory_order_relaxed);
    atomic_store_explicit(&slot->serial, serial + 1, memory_order_release);
}

struct leat_page_slot *leat_page_join(void)
{
    if (!own.page && !own.tried)
        make_page();
    for (size_t i = 0; own.page && i < LEAT_PAGE_SLOTS; i++) {
        struct leat_page_slot *slot = &own.page->slot[i];
        if (atomic_load_explicit(&slot->serial, memory_order_relaxed))
            continue;
        begin(slot); /* shown from its first update on */
        PUT(slot->updated_ns, 0);
        PUT(slot->waiting_since_ns, 0);
        PUT(slot->told[0], 0); /* an empty text */
        return slot;
    }
    return NULL;
}

void leat_page_leave(struct leat_page_slot *slot)
{
    if (slot && own.page)
        atomic_store_explicit(&slot->serial, 0, memory_order_release);
}

/* The parked tasks whose rows are in functions of the user. */
static uint64_t count_calling(const struct leat_tasks *tasks)
{
    uint64_t n = 0;
    for (const struct leat_task *t = tasks->away; t; t = t->behind)
        n += leat_calls_in_flight(t);
    return n;
}

static void fill(struct leat_loader *l, struct leat_page_slot *slot, int64_t now_ns)
{
    const struct leat_counters *c = &l->count;
    PUT(slot->opened_ns, l->pace.opened_ns);
    PUT(slot->updated_ns, now_ns);
    PUT(slot->samples, c->samples);
    PUT(slot->batches, c->batches);
    PUT(slot->bytes, c->bytes);
    PUT(slot->waits, c->waits);
    PUT(slot->wait_ns, (uint64_t)c->wait_ns);
    PUT(slot->help_ns, (uint64_t)c->help_ns);
    PUT(slot->depth, l->window.n);
    uint64_t ready = 0;
    for (size_t i = 0; i < l->window.n; i++)
        ready += leat_window_at(&l->window, i)->state == LEAT_BATCH_READY;
    PUT(slot->ready, ready);
    PUT(slot->running, l->tasks.running);
    PUT(slot->parked, l->tasks.parked);
    PUT(slot->calling, count_calling(&l->tasks));
    PUT(slot->threads, l->client.max_threads);
    PUT(slot->epoch, l->consumer.reader.epoch);
    PUT(slot->step, l->consumer.reader.step);
    PUT(slot->in_use_bytes, l->budget.used[LEAT_IN_FLIGHT] + l->budget.fixed + leat_budget_tasks(&l->budget));
    PUT(slot->budget_bytes, l->budget.limit);
    PUT(slot->skipped, c->skipped);
    PUT(slot->substituted, c->substituted);
    PUT(slot->raised, c->raised);
}

void leat_page_update(struct leat_loader *l, int64_t now_ns)
{
    struct leat_page_slot *slot = l->slot;
    if (!slot || !own.page || now_ns - slot->updated_ns < EVERY_NS)
        return;
    begin(slot);
    fill(l, slot, now_ns);
    end(slot);
}

void leat_page_wait(struct leat_loader *l, int64_t since_ns)
{
    struct leat_page_slot *slot = l->slot;
    if (!slot || !own.page)
        return;
    begin(slot);
    PUT(slot->waiting_since_ns, since_ns);
    end(slot);
}

int leat_loader_tell(struct leat_loader *l, const char *json, struct leat_error *error)
{
    uint64_t words[LEAT_MOST_TOLD / sizeof(uint64_t)] = {0};
    const size_t n = strlen(json) + 1;
    if (n > sizeof words)
        return leat_fail(error, LEAT_E_INVALID, "a text of %zu bytes is longer than %d", n, LEAT_MOST_TOLD);
    memcpy(words, json, n);
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    if (l->slot && own.page) {
        begin(l->slot);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            PUT(l->slot->told[i], words[i]);
        end(l->slot);
    }
    leat_engine_unlock();
    return LEAT_OK;
}

void leat_page_forget(void)
{
    if (own.page)
        munmap(own.page, sizeof *own.page);
    if (own.fd >= 0)
        close(own.fd);
    own.page = NULL;
    own.fd = -1;
    own.tried = false;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The page of a process, open; -1: errno says why, ENOENT: it has none. */
static int open_page(int pid)
{
    char folder[64], path[400], target[64];
    snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
    DIR *list = opendir(folder);
    if (!list)
        return -1;
    int fd = -1;
    errno = 0;
    for (struct dirent *entry; fd < 0 && (entry = readdir(list));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        const ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        if (!strncmp(target, "/memfd:" NAME, strlen("/memfd:" NAME)))
            fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    const int why = errno;
    closedir(list);
    errno = why ? why : ENOENT;
    return fd;
}

/* A slot as it was at one moment. False: it is free, or never at rest. */
static bool read_slot(const struct leat_page_slot *from, struct leat_page_slot *to)
{
    for (int i = 0; i < TRIES; i++) {
        const uint64_t before = atomic_load_explicit(&from->serial, memory_order_acquire);
        if (!before)
            return false;
        const uint64_t *words = (const uint64_t *)(const void *)from;
        for (size_t k = 1; k < sizeof *to / sizeof *words; k++) { /* acquired, so that `serial` is read after them */
            const uint64_t word = __atomic_load_n(&words[k], __ATOMIC_ACQUIRE);
            memcpy((char *)to + k * sizeof word, &word, sizeof word);
        }
        if (!(before & 1) && atomic_load_explicit(&from->serial, memory_order_relaxed) == before)
            return true;
        usleep(100);
    }
    return false;
}

static json_t *describe(const struct leat_page_slot *s, size_t i, int64_t now_ns)
{
#define N(member) ((json_int_t)s->member)
    json_t *loader = json_pack(
        "{sI sf sf sf sI sI sI sI sf sf s:{sI sI} s:{sI sI sI sI} sI sI s:{sI sI} s:{sI sI sI}}", "loader",
        (json_int_t)i, "open_s", (double)(now_ns - s->opened_ns) * 1e-9, "age_s",
        (double)(now_ns - s->updated_ns) * 1e-9, "waiting_s",
        s->waiting_since_ns ? (double)(now_ns - s->waiting_since_ns) * 1e-9 : 0.0, "samples", N(samples), "batches",
        N(batches), "bytes", N(bytes), "consumer_waits", N(waits), "consumer_wait_s", (double)s->wait_ns * 1e-9,
        "consumer_help_s", (double)s->help_ns * 1e-9, "window", "ready", N(ready), "depth", N(depth), "tasks",
        "running", N(running), "parked", N(parked), "calling", N(calling), "threads", N(threads), "epoch", N(epoch),
        "step", N(step), "memory", "in_use_bytes", N(in_use_bytes), "budget_bytes", N(budget_bytes), "broken",
        "skipped", N(skipped), "substituted", N(substituted), "raised", N(raised));
#undef N
    const char *told = (const char *)s->told;
    json_t *elsewhere = json_loadb(told, strnlen(told, sizeof s->told), JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(elsewhere))
        json_object_set(loader, "elsewhere", elsewhere);
    json_decref(elsewhere);
    return loader;
}

static bool is_page(const struct leat_page *page)
{
    return !memcmp(page->magic, magic, sizeof magic) && page->version == VERSION &&
           page->slot_bytes == sizeof(struct leat_page_slot) && page->slots == LEAT_PAGE_SLOTS;
}

int leat_loader_of_process(int pid, char **json, struct leat_error *error)
{
    *json = NULL;
    const int fd = open_page(pid);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return leat_fail(error, LEAT_E_IO,
                         "process %d may not be looked at by this user: it is another one's, or not to be traced", pid);
    if (fd < 0 && kill(pid, 0) && errno == ESRCH)
        return leat_fail(error, LEAT_E_NOT_FOUND, "there is no process %d", pid);
    if (fd < 0)
        return leat_fail(error, LEAT_E_NOT_FOUND, "process %d has no loader of leat, and had none", pid);
    const int seals = fcntl(fd, F_GET_SEALS);
    const bool whole = seals >= 0 && seals & F_SEAL_SHRINK && lseek(fd, 0, SEEK_END) == (off_t)sizeof(struct leat_page);
    const struct leat_page *page = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED)
        return leat_fail_errno(error, LEAT_E_IO, "the page of that process cannot be read");
    int rc = LEAT_OK;
    if (!whole || !is_page(page))
        rc = leat_fail(error, LEAT_E_UNSUPPORTED, "process %d has another version of leat: look at it with its own",
                       pid);
    json_t *list = json_array();
    const int64_t now = leat_clock_ns();
    for (size_t i = 0; !rc && i < LEAT_PAGE_SLOTS; i++) {
        struct leat_page_slot slot;
        if (read_slot(&page->slot[i], &slot))
            json_array_append_new(list, describe(&slot, i, now));
    }
    munmap((void *)(uintptr_t)page, sizeof *page);
    char *text = rc ? NULL : json_dumps(list, JSON_COMPACT);
    json_decref(list);
    *json = text ? leat_strdup(text) : NULL;
    free(text);
    return rc || *json ? rc : leat_fail(error, LEAT_E_NOMEM, "no memory for statistics");
}
