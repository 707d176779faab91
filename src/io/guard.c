/*
 * One SIGBUS handler for the process, a table of the ranges that leat mapped, and per thread a stack of places to jump
 * back to.
 *
 *     leat_guarded --sigsetjmp--> fn ... touches a page behind the end of its file
 *          ^                                   | SIGBUS
 *          +-------siglongjmp------- handler: is the address in a range? and is this thread inside a guard?
 *                                              | no: the handler that was there before, or death as by default
 *
 * The table is read in the handler, where no lock may be taken, and written by any thread, also right after a fork; so
 * it has no lock at all. Slots are claimed by compare-and-swap and carry a version that is odd while they change.
 * Blocks of slots are added when needed and never freed.
 */
#include "io/guard.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

struct slot {
    _Atomic uint64_t version; /* odd: changing */
    _Atomic uintptr_t base;   /* 0: free */
    _Atomic size_t bytes;
    _Atomic(const char *) path;
};

/* ThreadSanitizer runs every handler with all signals blocked, whatever its flags say. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HANDLER_BLOCKS 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HANDLER_BLOCKS 1
#endif
#ifndef HANDLER_BLOCKS
#define HANDLER_BLOCKS 0
#endif

enum { SLOTS = 64 };
struct block {
    struct slot slots[SLOTS];
    _Atomic(struct block *) next;
};
static struct block first_block;

struct frame {
    sigjmp_buf place;
    struct frame *outer;
    const char *path; /* set by the handler */
    uint64_t offset;
};

/* initial-exec: reading it in a handler must not allocate, as dynamic thread-local storage may. */
static _Thread_local struct frame *top __attribute__((tls_model("initial-exec")));

/* Handlers that were there before ours. The last one is called for faults that are not ours; the first one if that one
 * calls us in turn, as a handler does that was installed after ours and remembers it. */
enum { KEPT = 16 };
static struct sigaction kept[KEPT];
static atomic_uint n_kept;
/* The first one stays for good, the others take turns. */
static unsigned place_of(unsigned n)
{
    return n ? 1 + (n - 1) % (KEPT - 1) : 0;
}
static _Thread_local bool chaining __attribute__((tls_model("initial-exec")));

static bool find(uintptr_t address, const char **path, uint64_t *offset)
{
    for (struct block *b = &first_block; b; b = atomic_load(&b->next)) {
        for (int i = 0; i < SLOTS; i++) {
            struct slot *s = &b->slots[i];
            uint64_t version = atomic_load(&s->version);
            size_t bytes = atomic_load(&s->bytes);
            uintptr_t base = atomic_load(&s->base);
            const char *name = atomic_load(&s->path);
            /* A slot that changes now is not the one that faulted: its mapping is in use and stays. */
            if (version & 1 || atomic_load(&s->version) != version || address < base || address - base >= bytes)
                continue;
            *path = name;
            *offset = address - base;
            return true;
        }
    }
    return false;
}

static void chain(int number, siginfo_t *info, void *context)
{
    unsigned n = atomic_load(&n_kept);
    struct sigaction previous = kept[chaining ? 0 : place_of(n - 1)];
    if (previous.sa_flags & SA_SIGINFO || (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)) {
        bool outer = chaining;
        chaining = true;
        if (previous.sa_flags & SA_SIGINFO)
            previous.sa_sigaction(number, info, context);
        else
            previous.sa_handler(number);
        chaining = outer;
    } else if (info->si_code <= 0 && previous.sa_handler == SIG_IGN) {
        return; /* sent by somebody, and ignored before */
    } else {
        /* A fault strikes again when the handler returns, then as by default; a sent signal must be sent again. */
        struct sigaction by_default = {.sa_handler = SIG_DFL};
        sigaction(number, &by_default, NULL);
        if (info->si_code <= 0)
            raise(number);
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    struct frame *frame = top;
    if (frame && info->si_code > 0 && find((uintptr_t)info->si_addr, &frame->path, &frame->offset))
        siglongjmp(frame->place, 1);
    chain(number, info, context);
}

/* Done with every mapping and not once: somebody (Python's faulthandler, a test) may have put a handler over ours. */
static int install(void)
{
    /* SA_NODEFER: the mask does not change, so that jumping out need not restore it (two system calls per guard). */
    struct sigaction old, ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGBUS, NULL, &old))
        return LEAT_E_IO;
    if (old.sa_flags & SA_SIGINFO && old.sa_sigaction == on_fault)
        return LEAT_OK;
    /* Kept before ours is installed, so that ours never runs without one; if two threads get here at once both keep the
     * same handler. */
    unsigned n = atomic_load(&n_kept);
    kept[place_of(n)] = old;
    atomic_compare_exchange_strong(&n_kept, &n, n + 1);
    return sigaction(SIGBUS, &ours, NULL) ? LEAT_E_IO : LEAT_OK;
}

/* Claims a slot that is free (wanted 0, and 0 bytes) or holds so many bytes from `wanted` on; its version is then odd.
 * NULL if there is none in `b`. */
static struct slot *claim(struct block *b, uintptr_t wanted, size_t bytes)
{
    for (int i = 0; i < SLOTS; i++) {
        struct slot *s = &b->slots[i];
        uint64_t version = atomic_load(&s->version);
        if (version & 1 || atomic_load(&s->base) != wanted || atomic_load(&s->bytes) != bytes)
            continue;
        if (!atomic_compare_exchange_strong(&s->version, &version, version + 1))
            continue;
        if (atomic_load(&s->base) == wanted && atomic_load(&s->bytes) == bytes)
            return s;
        atomic_fetch_add(&s->version, 1);
    }
    return NULL;
}

int leat_guard_add(const void *base, size_t bytes, const char *path)
{
    int rc = install();
    if (rc)
        return rc;
    for (struct block *b = &first_block;;) {
        struct slot *s = claim(b, 0, 0);
        if (s) {
            atomic_store(&s->base, (uintptr_t)base);
            atomic_store(&s->path, path);
            atomic_store(&s->bytes, bytes);
            atomic_fetch_add(&s->version, 1);
            return LEAT_OK;
        }
        struct block *next = atomic_load(&b->next);
        if (!next) {
            struct block *fresh = leat_new(struct block);
            if (!fresh)
                return LEAT_E_NOMEM;
            if (atomic_compare_exchange_strong(&b->next, &next, fresh))
                next = fresh;
            else
                leat_free(fresh);
        }
        b = next;
    }
}

void leat_guard_remove(const void *base, size_t bytes)
{
    for (struct block *b = &first_block; b; b = atomic_load(&b->next)) {
        struct slot *s = claim(b, (uintptr_t)base, bytes);
        if (!s)
            continue;
        atomic_store(&s->bytes, 0);
        atomic_store(&s->path, NULL);
        atomic_store(&s->base, 0);
        atomic_fetch_add(&s->version, 1);
        return;
    }
}

int leat_guarded(int (*fn)(void *arg), void *arg, struct leat_error *error)
{
    struct frame frame;
    frame.outer = top;
    if (sigsetjmp(frame.place, HANDLER_BLOCKS) == 0) {
        top = &frame;
        /* The handler reads `top` on this thread: the compiler must not move these stores across the call. */
        atomic_signal_fence(memory_order_seq_cst);
        int rc = fn(arg);
        atomic_signal_fence(memory_order_seq_cst);
        top = frame.outer;
        return rc;
    }
    top = frame.outer;
    return leat_fail_at(error, LEAT_E_IO, frame.path, (int64_t)frame.offset,
                        "%s: byte %" PRIu64
                        " could not be read: the file was cut, or its disk failed, while it was open; restore the "
                        "file and open the data set again",
                        frame.path, frame.offset);
}

struct touch {
    void *to;
    const void *from;
    size_t bytes;
};

static int copy(void *arg)
{
    const struct touch *t = arg;
    memcpy(t->to, t->from, t->bytes);
    return LEAT_OK;
}

int leat_guarded_copy(void *to, const void *from, size_t bytes, struct leat_error *error)
{
    return leat_guarded(copy, &(struct touch){to, from, bytes}, error);
}

static int take_hash(void *arg)
{
    const struct touch *t = arg;
    *(uint64_t *)t->to = leat_hash64(t->from, t->bytes);
    return LEAT_OK;
}

int leat_guarded_hash(const void *from, size_t bytes, uint64_t *hash, struct leat_error *error)
{
    return leat_guarded(take_hash, &(struct touch){hash, from, bytes}, error);
}
