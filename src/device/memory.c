#include "device/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "leat/device.h"

/* Buffers that other processes may open; they stay. */
static pthread_mutex_t exported_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct leat_device_buffer *exported;

#define UNIT 4096          /* bytes: sizes are multiples of it, */
#define LARGE (2ULL << 20) /* ... large ones of this, which the driver allocates by */

struct leat_device_memory *leat_device_memory_new(struct leat_card *card, uint64_t budget)
{
    struct leat_device_memory *m = leat_new(struct leat_device_memory);
    if (!m)
        return NULL;
    m->card = card;
    m->budget = budget;
    m->references = 1;
    pthread_mutex_init(&m->mutex, NULL);
    return m;
}

/* Takes what nobody holds off the list. Under the mutex. */
static struct leat_device_buffer *unlink_free(struct leat_device_memory *m)
{
    struct leat_device_buffer *list = m->shared ? NULL : m->free;
    for (const struct leat_device_buffer *b = list; b; b = b->next)
        m->allocated -= b->bytes;
    m->free = list ? NULL : m->free;
    return list;
}

/* Frees a list without the mutex: the driver waits for all that the card does. */
static void free_list(const struct leat_cuda *cuda, struct leat_device_buffer *list)
{
    for (struct leat_device_buffer *b; (b = list);) {
        list = b->next;
        cuda->cuMemFree_v2(b->at);
        cuda->cuEventDestroy_v2(b->read);
        leat_free(b);
    }
}

static void trim(struct leat_device_memory *m)
{
    struct leat_device_buffer *list = unlink_free(m);
    pthread_mutex_unlock(&m->mutex);
    free_list(m->card->cuda, list);
    pthread_mutex_lock(&m->mutex);
}

/* Gives up a reference, under the mutex, which ends. */
static void unref_unlock(struct leat_device_memory *m)
{
    const struct leat_cuda *cuda = m->card->cuda;
    const bool last = !--m->references && !m->shared; /* what is shared stays, and so do its buffers */
    struct leat_device_buffer *list = last ? unlink_free(m) : NULL;
    pthread_mutex_unlock(&m->mutex);
    free_list(cuda, list);
    if (!last)
        return;
    pthread_mutex_destroy(&m->mutex);
    leat_free(m);
}

void leat_device_memory_close(struct leat_device_memory *m)
{
    pthread_mutex_lock(&m->mutex);
    trim(m);
    unref_unlock(m);
}

static bool captures(const struct leat_cuda *cuda, leat_cu_handle stream)
{
    int status = 0;
    return cuda->cuStreamIsCapturing(stream, &status) || status;
}

/* The smallest free buffer that does, of at most twice the bytes. */
static struct leat_device_buffer *find(struct leat_device_memory *m, uint64_t bytes)
{
    struct leat_device_buffer **best = NULL;
    for (struct leat_device_buffer **at = &m->free; *at; at = &(*at)->next) {
        struct leat_device_buffer *b = *at;
        if (b->bytes < bytes || b->bytes / 2 > bytes || (best && (*best)->bytes <= b->bytes))
            continue;
        if (b->unread && captures(m->card->cuda, b->stream))
            continue;
        best = at;
    }
    struct leat_device_buffer *found = best ? *best : NULL;
    if (found)
        *best = found->next;
    return found;
}

static int allocate(struct leat_device_memory *m, uint64_t bytes, struct leat_device_buffer **out,
                    struct leat_error *error)
{
    const struct leat_cuda *cuda = m->card->cuda;
    if (m->allocated + bytes > m->budget)
        trim(m);
    if (m->allocated + bytes > m->budget)
        return leat_fail(error, LEAT_E_BUDGET,
                         "%" PRIu64 " bytes of the card's memory are wanted, and %" PRIu64 " of the %" PRIu64
                         " that the budget allows are held: let go of batches, or raise device_budget_bytes",
                         bytes, m->allocated, m->budget);
    struct leat_device_buffer *b = leat_new(struct leat_device_buffer);
    if (!b)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a buffer");
    leat_cu_result code = cuda->cuMemAlloc_v2(&b->at, bytes);
    if (code == LEAT_CU_OUT_OF_MEMORY) {
        trim(m);
        code = cuda->cuMemAlloc_v2(&b->at, bytes);
    }
    if (!code && (code = cuda->cuEventCreate(&b->read, LEAT_CU_EVENT_NO_TIMING)))
        cuda->cuMemFree_v2(b->at);
    if (code) {
        char what[96];
        snprintf(what, sizeof what, "%" PRIu64 " bytes for a batch (%" PRIu64 " are in use for batches)", bytes,
                 m->used);
        leat_free(b);
        return leat_cuda_fail(cuda, code, what, error);
    }
    b->memory = m;
    b->bytes = bytes;
    m->allocated += bytes;
    *out = b;
    return LEAT_OK;
}

int leat_device_buffer_take(struct leat_device_memory *m, uint64_t bytes, leat_cu_handle stream,
                            struct leat_device_buffer **out, struct leat_error *error)
{
    const struct leat_cuda *cuda = m->card->cuda;
    const uint64_t unit = bytes < LARGE && !m->shared ? UNIT : LARGE; /* a driver shares whole ones of these */
    int rc = LEAT_OK;
    if (bytes > UINT64_MAX / 2)
        return leat_fail(error, LEAT_E_NOMEM, "%" PRIu64 " bytes do not fit into a card", bytes);
    bytes = bytes ? (bytes + unit - 1) / unit * unit : unit;
    pthread_mutex_lock(&m->mutex);
    struct leat_device_buffer *b = find(m, bytes);
    if (b) {
        leat_cu_result code = b->unread ? cuda->cuEventRecord(b->read, b->stream) : 0;
        code = code ? code : cuda->cuStreamWaitEvent(stream, b->read, 0);
        rc = code ? leat_cuda_fail(cuda, code, "the card's memory cannot be used again", error) : LEAT_OK;
        if (rc) {
            b->next = m->free;
            m->free = b;
        }
    } else {
        rc = allocate(m, bytes, &b, error);
    }
    if (!rc) {
        b->unread = false;
        b->stream = stream;
        atomic_store(&b->references, 1);
        m->references++;
        m->used += b->bytes;
        m->most_used = m->used > m->most_used ? m->used : m->most_used;
        *out = b;
    }
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

int leat_device_buffer_export(struct leat_device_buffer *b, struct leat_error *error)
{
    const struct leat_cuda *cuda = b->memory->card->cuda;
    if (b->exported)
        return LEAT_OK;
    const leat_cu_result code = cuda->cuIpcGetMemHandle(&b->handle, b->at);
    if (code)
        return leat_cuda_fail(cuda, code, "the card's memory is not shared with other processes", error);
    pthread_mutex_lock(&exported_mutex);
    b->exported = true;
    b->next_exported = exported;
    exported = b;
    pthread_mutex_unlock(&exported_mutex);
    return LEAT_OK;
}

leat_cu_memory leat_device_exported(const struct leat_cu_ipc *handle, uint64_t *bytes)
{
    pthread_mutex_lock(&exported_mutex);
    const struct leat_device_buffer *b = exported;
    while (b && memcmp(&b->handle, handle, sizeof *handle))
        b = b->next_exported;
    *bytes = b ? b->bytes : 0;
    pthread_mutex_unlock(&exported_mutex);
    return b ? b->at : 0;
}

leat_cu_memory leat_device_open_shared(struct leat_device_opened *opened, const struct leat_card *card,
                                       const struct leat_mirror *m, uint64_t bytes)
{
    const struct leat_cuda *cuda = card->cuda;
    size_t i = 0;
    while (i < opened->n && memcmp(&opened->of[i].handle, m->handle, sizeof m->handle))
        i++;
    if (i == LEAT_DEVICE_OPENED)
        return 0;
    __typeof__(&opened->of[0]) o = &opened->of[i];
    if (i == opened->n) {
        leat_cu_memory begin;
        size_t all = 0;
        memset(o, 0, sizeof *o);
        memcpy(&o->handle, m->handle, sizeof o->handle);
        const bool here = !memcmp(m->card, card->uuid, sizeof m->card);
        o->at = here ? leat_device_exported(&o->handle, &o->bytes) : 0;
        o->own = o->at;
        if (here && !o->own && cuda->cuIpcOpenMemHandle_v2(&o->at, o->handle, LEAT_CU_IPC_LAZY) == 0)
            o->bytes = cuda->cuMemGetAddressRange_v2(&begin, &all, o->at) ? 0 : all - (o->at - begin);
        opened->n++;
    }
    return o->at && m->at <= o->bytes && bytes <= o->bytes - m->at ? o->at + m->at : 0;
}

void leat_device_close_shared(struct leat_device_opened *opened, const struct leat_cuda *cuda)
{
    for (size_t i = 0; i < opened->n; i++)
        if (opened->of[i].at && !opened->of[i].own)
            cuda->cuIpcCloseMemHandle(opened->of[i].at);
}

void leat_device_buffer_retain(struct leat_device_buffer *b)
{
    atomic_fetch_add_explicit(&b->references, 1, memory_order_relaxed);
}

void leat_device_buffer_release(struct leat_device_buffer *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->references, 1, memory_order_acq_rel) != 1)
        return;
    struct leat_device_memory *m = b->memory;
    struct leat_card *card = m->card;
    const struct leat_cuda *cuda = card->cuda;
    if (leat_card_enter(card, NULL)) /* a forked child: the memory is its parent's */
        return;
    b->unread = captures(cuda, b->stream); /* an event would be a part of the graph */
    if (!b->unread && cuda->cuEventRecord(b->read, b->stream))
        cuda->cuCtxSynchronize();
    pthread_mutex_lock(&m->mutex);
    b->next = m->free;
    m->free = b;
    m->used -= b->bytes;
    unref_unlock(m);
    leat_card_leave(card);
}
