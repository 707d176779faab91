/* Batches of a port on a card, in memory that the processes of its readers open (leat/device.h, engine/mirror.h). */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "device/copies.h"
#include "device/memory.h"
#include "device/outputs.h"
#include "engine/batch.h"
#include "engine/mirror.h"
#include "leat/device.h"

#define MOST_BUDGET (UINT64_MAX >> 16) /* more than any card has, and 65,536 of them can be added */

struct leat_device_mirrors {
    struct leat_mirrors as;
    struct leat_card *card;
    struct leat_device_memory *memory;
    uint64_t budget; /* its part of the memory's */
    leat_cu_handle stream;
    pthread_mutex_t mutex; /* of the stream, and what follows */
    uint64_t batches, bytes, failed;
    struct leat_error why; /* the last one failed */
};

/* What is shared stays with the process, for its next port on that card. */
static struct {
    struct leat_device_memory *memory;
    leat_cu_handle stream;
} shared[LEAT_CARDS];
static pthread_mutex_t shared_mutex = PTHREAD_MUTEX_INITIALIZER;

/* The card was entered. */
static int take_shared(struct leat_device_mirrors *m, int device, uint64_t budget, struct leat_error *error)
{
    size_t free = 0, total = 0;
    leat_cu_result code = 0;
    pthread_mutex_lock(&shared_mutex);
    if (!shared[device].memory && (shared[device].memory = leat_device_memory_new(m->card, 0)))
        shared[device].memory->shared = true;
    if (!shared[device].stream)
        code = m->card->cuda->cuStreamCreate(&shared[device].stream, LEAT_CU_STREAM_NON_BLOCKING);
    m->memory = shared[device].memory;
    m->stream = shared[device].stream;
    pthread_mutex_unlock(&shared_mutex);
    if (code)
        return leat_cuda_fail(m->card->cuda, code, "a stream for copies cannot be made", error);
    if (!m->memory)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for batches on a card");
    if (!budget && m->card->cuda->cuMemGetInfo_v2(&free, &total))
        free = 0;
    pthread_mutex_lock(&m->memory->mutex);
    const uint64_t allocated = m->memory->allocated, others = m->memory->budget;
    budget = budget ? budget : free / 2 + (allocated > others ? allocated - others : 0); /* of ports that are closed */
    m->budget = budget < MOST_BUDGET ? budget : MOST_BUDGET;
    m->memory->budget += m->budget; /* the ports of a process on a card share what all of them may have */
    pthread_mutex_unlock(&m->memory->mutex);
    return LEAT_OK;
}

static void release(void *buffer)
{
    leat_device_buffer_release(buffer);
}

/* The bytes of an output from the start of its buffer to the end of its values. */
static uint64_t output_bytes(const struct leat_batch *b, size_t o)
{
    const struct leat_output *output = leat_program_output(b->program, o);
    const struct leat_view v = leat_batch_values(b, o);
    const uint64_t steps = output->ragged ? (uint64_t)v.offsets[b->rows] : b->rows;
    return (uint64_t)(v.data - b->buffers[o]->data) + steps * output->row_bytes;
}

static bool travels(const struct leat_batch *b, size_t o)
{
    return b->buffers[o] && leat_output_travels(leat_program_output(b->program, o));
}

/* One piece of the card's memory for all of a batch, output after output. The card was entered. */
static int mirror(struct leat_device_mirrors *m, struct leat_batch *b, struct leat_error *error)
{
    const struct leat_cuda *cuda = m->card->cuda;
    struct leat_device_buffer *there;
    uint64_t all = 0, at = 0;
    for (size_t o = 0; o < b->pool->n_outputs; o++)
        all += travels(b, o) ? leat_device_aligned(output_bytes(b, o)) : 0;
    int rc = all ? leat_device_buffer_take(m->memory, all, m->stream, &there, error) : LEAT_OK;
    if (rc || !all)
        return rc;
    rc = leat_device_buffer_export(there, error);
    for (size_t o = 0; !rc && o < b->pool->n_outputs; o++)
        if (travels(b, o)) {
            rc = leat_copy_there(m->card, &b->pool->region, there->at + at, b->buffers[o]->data, output_bytes(b, o),
                                 m->stream, error);
            at += leat_device_aligned(output_bytes(b, o));
        }
    leat_cu_result code = rc ? 0 : cuda->cuStreamSynchronize(m->stream); /* readers find it whole */
    if (code)
        rc = leat_cuda_fail(cuda, code, "a batch is not copied to the card", error);
    at = 0;
    for (size_t o = 0; !rc && o < b->pool->n_outputs; o++)
        if (travels(b, o)) {
            const struct leat_view v = leat_batch_values(b, o);
            struct leat_mirror *to = &b->buffers[o]->mirror;
            *to = (struct leat_mirror){.at = at + (uint64_t)(v.data - b->buffers[o]->data), .there = 1};
            memcpy(to->handle, there->handle.bytes, sizeof to->handle);
            memcpy(to->card, m->card->uuid, sizeof to->card);
            at += leat_device_aligned(output_bytes(b, o));
            leat_device_buffer_retain(there);
            leat_buffer_on_release(b->buffers[o], release, there);
        }
    m->batches += !rc;
    m->bytes += rc ? 0 : all;
    leat_device_buffer_release(there);
    return rc;
}

static void make(void *user, struct leat_batch *b)
{
    struct leat_device_mirrors *m = user;
    struct leat_error error;
    int rc = leat_card_enter(m->card, &error);
    const bool entered = !rc;
    pthread_mutex_lock(&m->mutex);
    rc = rc ? rc : mirror(m, b, &error);
    m->failed += rc != 0;
    if (rc)
        m->why = error;
    pthread_mutex_unlock(&m->mutex);
    if (entered)
        leat_card_leave(m->card);
}

int leat_device_mirrors_open(int device, uint64_t budget, struct leat_device_mirrors **out, struct leat_error *error)
{
    struct leat_device_mirrors *m = leat_new(struct leat_device_mirrors);
    *out = NULL;
    if (!m)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for batches on a card");
    pthread_mutex_init(&m->mutex, NULL);
    m->as = (struct leat_mirrors){m, make};
    int rc = leat_card_open(device, &m->card, error);
    if (!rc && !(rc = leat_card_enter(m->card, error))) {
        rc = take_shared(m, device, budget, error);
        leat_card_leave(m->card);
    }
    if (rc)
        leat_device_mirrors_close(m);
    else
        *out = m;
    return rc;
}

void leat_device_mirrors_close(struct leat_device_mirrors *m)
{
    if (!m || leat_cuda_here(NULL))
        return;
    if (m->memory) {
        pthread_mutex_lock(&m->memory->mutex);
        m->memory->budget -= m->budget;
        pthread_mutex_unlock(&m->memory->mutex);
    }
    pthread_mutex_destroy(&m->mutex);
    leat_free(m);
}

const struct leat_mirrors *leat_device_mirrors_of(const struct leat_device_mirrors *m)
{
    return &m->as;
}

int leat_device_mirrors_stats(struct leat_device_mirrors *m, char **json, struct leat_error *error)
{
    if (leat_cuda_here(error))
        return error->code;
    pthread_mutex_lock(&m->mutex);
    pthread_mutex_lock(&m->memory->mutex);
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:I}", "name", m->card->name, "batches",
                          (json_int_t)m->batches, "bytes", (json_int_t)m->bytes, "failed", (json_int_t)m->failed, "why",
                          m->failed ? m->why.message : "", "used_bytes", (json_int_t)m->memory->used, "most_used_bytes",
                          (json_int_t)m->memory->most_used, "budget_bytes", (json_int_t)m->memory->budget);
    pthread_mutex_unlock(&m->memory->mutex);
    pthread_mutex_unlock(&m->mutex);
    *json = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return *json ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for statistics");
}
