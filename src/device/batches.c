/*
 * Batches on a card (leat/device.h). The engine tells of rows as they are made (engine/follow.h); a thread, the copier,
 * puts their copies into a stream, so that no thread of the engine waits for the driver.
 *
 *     engine    rows made | rows made | batch whole      handed out
 *     copier      copy       copy       copy, END
 *     stream 1        [copy] [copy]     [copy] copied |                 the host's memory is given back
 *     stream 2                                        [convert] ready |
 *     the user's stream                                    take: waits for that   [step]   let go: `read`
 *
 * A batch on its way is a `there`: it is the mark that the engine keeps. One that is given up goes through the copier's
 * queue as well, behind its copies; those may read memory that other rows have by then, which nobody sees.
 */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "device/copies.h"
#include "device/decode.h"
#include "device/kernels/convert_pixels.h"
#include "device/memory.h"
#include "device/outputs.h"
#include "engine/follow.h"
#include "engine/loader.h"
#include "leat/device.h"

enum { TIMED = 16, WELL = 64 };

/* One output. */
struct output {
    bool travels, describes;               /* describes: photos of another one; it is not delivered */
    const struct leat_device_table *table; /* NULL: as it is */
    leat_cu_memory values;                 /* of the table, on the card */
    bool late;                             /* photos that the card decodes, */
    size_t described;                      /* by this output; they have a table */
};

/* An output of a batch on its way. */
struct part {
    struct leat_device_buffer *raw, *made; /* copied; made of that by a table */
    uint64_t pixels;                       /* of an image, for a table */
    struct leat_device_photos photos;      /* of an output that is late */
    struct leat_device_tensor tensor;      /* once it is taken */
    struct leat_buffer *host;              /* from then on until it is copied */
};

enum state { FILLING, ISSUED, FAILED };

struct leat_device_batch {
    struct leat_device_batches *of;
    unsigned references; /* the mark or its taker; the copier until the host's memory is given back. Under the mutex */
    enum state state;    /* under the mutex, */
    bool ended, stopped; /* ... too: the copier has done its END; another batch wanted its memory */
    struct leat_error error;
    leat_cu_handle copied, ready; /* events */
    uint64_t n_rows, room;
    uint8_t *rows; /* as leat_device_batch_rows has them */
    struct leat_device_buffer *rows_there;
    struct leat_device_batch *next;
    struct part parts[];
};

struct item {
    enum { COPY, END, DROP, STOP } kind;
    struct leat_device_batch *there;
    size_t output; /* n_outputs: the rows' arrays */
    const uint8_t *from;
    uint64_t at, bytes, room;         /* in the output's buffer, of `room` bytes */
    const struct leat_mirror *mirror; /* where `from` lies on a card already, or NULL */
};

struct leat_device_batches {
    struct leat_follower follower;
    struct leat_batch_pool *pool; /* of the host's batches */
    struct leat_loader *loader;   /* whose they are, if it is followed, until this is closed */
    struct leat_card *card;
    struct leat_device_memory *memory;
    char *nvrtc;
    struct leat_device_table *tables;
    struct leat_device_buffer *values;
    size_t n_outputs;
    struct output *outputs;
    leat_cu_handle copies, converts; /* streams */
    leat_cu_handle begun[TIMED], ended[TIMED];
    uint64_t n_timed;                 /* of the copier, as is */
    struct leat_device_opened opened; /* ... what it has opened of other processes' */

    unsigned prefetch, n_well; /* as was asked; batches taken since there was too little memory */

    pthread_mutex_t mutex;
    pthread_cond_t wanted, done; /* items, or the end; a batch was issued or has failed */
    pthread_t thread;
    bool started, stops, exited; /* the last: of the copier */
    unsigned references;         /* its owner, and batches on their way */
    struct item *items;
    size_t n_items, items_room;
    struct leat_device_batch *releasing, **releasing_end; /* their host memory */
    struct leat_device_batch *free;
    struct {
        uint64_t batches, bytes, shared_bytes, photos, ahead, late;
        int64_t wait_ns;
        double copy_ms;
        int64_t opened_ns;
    } count;
};

/* ---- batches on their way ---------------------------------------------------------------------- */

static void destroy(struct leat_device_batches *d);

/* Gives up a reference to `d`, under its mutex, which ends. */
static void unref_unlock(struct leat_device_batches *d)
{
    const bool last = !--d->references;
    pthread_mutex_unlock(&d->mutex);
    if (last)
        destroy(d);
}

/* Under the mutex. NULL: no memory. */
static struct leat_device_batch *new_there(struct leat_device_batches *d)
{
    struct leat_device_batch *t = d->free;
    if (t)
        d->free = t->next;
    else if (!(t = leat_new_array(1, sizeof *t + d->n_outputs * sizeof *t->parts)))
        return NULL;
    t->of = d;
    t->references = 1;
    t->state = FILLING;
    t->ended = t->stopped = false;
    t->n_rows = 0;
    t->next = NULL;
    d->references++;
    return t;
}

/* Its memory on the card. The card was entered, here and below. */
static void give_up(struct leat_device_batch *t)
{
    for (size_t o = 0; o < t->of->n_outputs; o++) {
        struct part *p = &t->parts[o];
        leat_device_buffer_release(p->raw);
        leat_device_buffer_release(p->made);
        p->raw = p->made = p->tensor.owner = NULL;
    }
    leat_device_buffer_release(t->rows_there);
    t->rows_there = NULL;
}

/* Gives the host's memory back: it is copied. */
static void give_host_back(struct leat_device_batch *t)
{
    for (size_t o = 0; o < t->of->n_outputs; o++) {
        if (t->parts[o].host)
            leat_buffer_release(t->parts[o].host);
        t->parts[o].host = NULL;
    }
}

/* Gives up a reference to it, and with the last one all that it has. */
static void unref_there(struct leat_device_batch *t)
{
    struct leat_device_batches *d = t->of;
    pthread_mutex_lock(&d->mutex);
    const bool last = !--t->references;
    pthread_mutex_unlock(&d->mutex);
    if (!last)
        return;
    give_up(t);
    pthread_mutex_lock(&d->mutex);
    t->next = d->free;
    d->free = t;
    unref_unlock(d);
}

/* ---- the engine's side -------------------------------------------------------------------------- */

/* Under the mutex. An item that goes on where the last one ends becomes a part of that. */
static void push(struct leat_device_batches *d, struct item item)
{
    struct item *last = d->n_items ? &d->items[d->n_items - 1] : NULL;
    if (last && item.kind == COPY && last->kind == COPY && last->there == item.there && last->output == item.output &&
        last->from + last->bytes == item.from && last->at + last->bytes == item.at && !item.mirror) {
        last->bytes += item.bytes;
        return;
    }
    if (!leat_grow(&d->items, &d->items_room, d->n_items + 1, sizeof item)) {
        item.there->state = FAILED; /* its END finds that */
        item.there->ended |= item.kind == END;
        leat_fail(&item.there->error, LEAT_E_NOMEM, "no memory for copies to a card");
        return;
    }
    if (item.bytes || item.kind != COPY)
        d->items[d->n_items++] = item;
    pthread_cond_signal(&d->wanted);
}

static void *begin(void *user, const struct leat_batch *b)
{
    struct leat_device_batches *d = user;
    pthread_mutex_lock(&d->mutex);
    struct leat_device_batch *t = d->stops ? NULL : new_there(d);
    pthread_mutex_unlock(&d->mutex);
    return t;
}

/* Rows of an output of one size. */
static void push_rows(struct leat_device_batch *t, const struct leat_batch *b, size_t o, uint64_t first, uint64_t n)
{
    const uint64_t each = leat_program_output(b->program, o)->row_bytes;
    const struct leat_mirror *mirror = &b->buffers[o]->mirror;
    push(t->of, (struct item){COPY, t, o, leat_batch_values(b, o).data + first * each, first * each, n * each,
                              b->plan.rows * each, mirror->there ? mirror : NULL});
}

static void made(void *mark, const struct leat_batch *b, uint64_t first, uint64_t n)
{
    struct leat_device_batch *t = mark;
    struct leat_device_batches *d = t->of;
    pthread_mutex_lock(&d->mutex);
    for (size_t o = 0; o < d->n_outputs; o++)
        if (d->outputs[o].travels && !leat_program_output(b->program, o)->ragged && b->buffers[o])
            push_rows(t, b, o, first, n);
    pthread_mutex_unlock(&d->mutex);
}

/* The arrays of its rows, which are not pinned, in one piece: they may be gone before they are copied. */
static bool keep_rows(struct leat_device_batch *t, const struct leat_batch *b)
{
    const uint64_t n = b->rows, keys = leat_device_aligned(8 * n), domains = keys + leat_device_aligned(8 * n),
                   valid = domains + leat_device_aligned(4 * n), bytes = valid + n;
    if (t->room < bytes) {
        leat_free(t->rows);
        t->room = 0;
        if (!(t->rows = leat_alloc(bytes)))
            return false;
        t->room = bytes;
    }
    t->n_rows = n;
    memcpy(t->rows, b->ids, 8 * n);
    memcpy(t->rows + keys, b->keys, 8 * n);
    memcpy(t->rows + domains, b->domains, 4 * n);
    memcpy(t->rows + valid, b->valid, n);
    push(t->of, (struct item){COPY, t, t->of->n_outputs, t->rows, 0, bytes, bytes, NULL});
    return true;
}

/* Photos that the card decodes: their bytes travel, and what it is to do is kept. */
static void push_late(struct leat_device_batch *t, const struct leat_batch *b, size_t o)
{
    const struct leat_view v = leat_batch_values(b, o), what = leat_batch_values(b, t->of->outputs[o].described);
    const struct leat_mirror *mirror = &b->buffers[o]->mirror;
    const uint64_t bytes = (uint64_t)v.offsets[b->rows];
    if (!leat_device_photos_keep(&t->parts[o].photos, what.data, v.offsets, b->rows)) {
        t->state = FAILED;
        leat_fail(&t->error, LEAT_E_NOMEM, "no memory for photos on their way to a card");
    }
    push(t->of, (struct item){COPY, t, o, v.data, 0, bytes, bytes, mirror->there ? mirror : NULL});
}

static void ready(void *mark, const struct leat_batch *b, bool anew)
{
    struct leat_device_batch *t = mark;
    struct leat_device_batches *d = t->of;
    pthread_mutex_lock(&d->mutex);
    for (size_t o = 0; o < d->n_outputs; o++) {
        const struct leat_output *output = leat_program_output(b->program, o);
        if (!d->outputs[o].travels || !b->buffers[o])
            continue;
        if (d->outputs[o].late) {
            push_late(t, b, o);
            continue;
        }
        if (d->outputs[o].table)
            t->parts[o].pixels = (uint64_t)(output->shape[0] * output->shape[1]);
        if (output->ragged) { /* offsets, then values */
            const struct leat_view v = leat_batch_values(b, o);
            const struct leat_mirror *mirror = b->buffers[o]->mirror.there ? &b->buffers[o]->mirror : NULL;
            const uint64_t offsets = 8 * (b->rows + 1), values = leat_device_aligned(offsets),
                           bytes = (uint64_t)v.offsets[b->rows] * output->row_bytes;
            push(d, (struct item){COPY, t, o, (const uint8_t *)v.offsets, 0, offsets, values + bytes, NULL});
            push(d, (struct item){COPY, t, o, v.data, values, bytes, values + bytes, mirror});
        } else if (anew) {
            push_rows(t, b, o, 0, b->rows);
        }
    }
    if (!keep_rows(t, b)) {
        t->state = FAILED;
        leat_fail(&t->error, LEAT_E_NOMEM, "no memory for copies to a card");
    }
    push(d, (struct item){.kind = END, .there = t});
    pthread_mutex_unlock(&d->mutex);
}

static void drop(void *mark)
{
    struct leat_device_batch *t = mark;
    struct leat_device_batches *d = t->of;
    pthread_mutex_lock(&d->mutex);
    const bool later = !d->exited;
    if (later)
        push(d, (struct item){.kind = DROP, .there = t});
    pthread_mutex_unlock(&d->mutex);
    if (!later && !leat_card_enter(d->card, NULL)) {
        struct leat_card *card = d->card;
        unref_there(t);
        leat_card_leave(card);
    }
}

static void stop(void *mark)
{
    struct leat_device_batch *t = mark;
    struct leat_device_batches *d = t->of;
    pthread_mutex_lock(&d->mutex);
    if (t->state != FAILED)
        leat_fail(&t->error, LEAT_E_NOMEM, "its memory was wanted for the batch before");
    t->state = FAILED;
    t->stopped = true;
    if (!d->exited) {
        t->references++;
        push(d, (struct item){.kind = STOP, .there = t});
    }
    pthread_mutex_unlock(&d->mutex);
}

/* ---- the copier --------------------------------------------------------------------------------- */

/* From the memory of a port on this card. False: it is to be copied from the host's. */
static bool copy_shared(struct leat_device_batches *d, const struct item *i, leat_cu_memory to)
{
    const leat_cu_memory from = i->mirror ? leat_device_open_shared(&d->opened, d->card, i->mirror, i->bytes) : 0;
    return from && d->card->cuda->cuMemcpyDtoDAsync_v2(to, from, i->bytes, d->copies) == 0;
}

static int copy(struct leat_device_batches *d, const struct item *i, struct leat_error *error)
{
    struct leat_device_buffer **to = i->output < d->n_outputs ? &i->there->parts[i->output].raw : &i->there->rows_there;
    int rc = *to ? LEAT_OK : leat_device_buffer_take(d->memory, i->room, d->copies, to, error);
    const bool shared = !rc && copy_shared(d, i, (*to)->at + i->at);
    if (!rc && !shared)
        rc = leat_copy_there(d->card, &d->pool->region, (*to)->at + i->at, i->from, i->bytes, d->copies, error);
    pthread_mutex_lock(&d->mutex);
    *(shared ? &d->count.shared_bytes : &d->count.bytes) += rc ? 0 : i->bytes;
    pthread_mutex_unlock(&d->mutex);
    return rc;
}

/* Makes pixels of the photos of an output, in the second stream. */
static int decode(struct leat_device_batches *d, struct part *p, leat_cu_handle before, struct leat_error *error)
{
    struct leat_device_buffer *pixels;
    uint64_t height, width;
    leat_device_photos_size(&p->photos, &height, &width);
    p->pixels = height * width;
    int rc = leat_device_buffer_take(d->memory, p->photos.n * p->pixels * 3, d->converts, &pixels, error);
    if (rc)
        return rc;
    rc = leat_device_photos_decode(&p->photos, d->memory, d->nvrtc, p->raw->at, pixels->at, d->converts, before, error);
    p->raw->stream = d->converts;
    leat_device_buffer_release(p->raw);
    p->raw = pixels;
    pthread_mutex_lock(&d->mutex);
    d->count.photos += leat_device_photos_count(&p->photos);
    pthread_mutex_unlock(&d->mutex);
    return rc;
}

/* Makes values of the bytes of an output, in the second stream. */
static int convert(struct leat_device_batches *d, struct leat_device_batch *t, size_t o, struct leat_error *error)
{
    const struct leat_device_table *table = d->outputs[o].table;
    struct part *p = &t->parts[o];
    const unsigned size = (unsigned)leat_dtype_size(table->dtype), together = p->pixels % 4 ? 1 : 4;
    const unsigned values[LEAT_KERNEL_DEFINES] = {table->channels, size, table->planes, together};
    leat_cu_handle function;
    int rc = leat_device_buffer_take(d->memory, t->n_rows * p->pixels * table->channels * size, d->converts, &p->made,
                                     error);
    if (!rc)
        rc = leat_card_kernel(d->card, d->nvrtc, &leat_kernel_convert_pixels, values, &function, error);
    if (rc)
        return rc;
    struct leat_convert_args a = {
        .in = (const unsigned char *)(uintptr_t)p->raw->at,
        .table = (const unsigned char *)(uintptr_t)d->outputs[o].values,
        .out = (unsigned char *)(uintptr_t)p->made->at,
        .n = t->n_rows,
        .pixels = p->pixels,
    };
    const uint64_t threads = a.n * a.pixels / together;
    const leat_cu_result code =
        threads ? leat_card_launch(d->card, function, leat_card_blocks(threads), LEAT_CARD_BLOCK, &a, d->converts) : 0;
    if (code)
        return leat_cuda_fail(d->card->cuda, code, "the card does not convert pixels", error);
    p->raw->stream = d->converts; /* which reads it */
    leat_device_buffer_release(p->raw);
    p->raw = NULL;
    return LEAT_OK;
}

/* All copies of a batch are in their stream: what follows them, and the events that others wait for. */
static int issue(struct leat_device_batches *d, struct leat_device_batch *t, struct leat_error *error)
{
    const struct leat_cuda *cuda = d->card->cuda;
    leat_cu_result code = 0;
    bool converts = false;
    int rc = LEAT_OK;
    if (!t->copied)
        code = cuda->cuEventCreate(&t->copied, LEAT_CU_EVENT_NO_TIMING | LEAT_CU_EVENT_BLOCKING_SYNC);
    if (!code && !t->ready)
        code = cuda->cuEventCreate(&t->ready, LEAT_CU_EVENT_NO_TIMING | LEAT_CU_EVENT_BLOCKING_SYNC);
    if (!code)
        code = cuda->cuEventRecord(t->copied, d->copies);
    for (size_t o = 0; !rc && !code && o < d->n_outputs; o++) {
        if (!d->outputs[o].table || !t->parts[o].raw)
            continue;
        if (!converts)
            code = cuda->cuStreamWaitEvent(d->converts, t->copied, 0);
        converts = true;
        if (!code && d->outputs[o].late)
            rc = decode(d, &t->parts[o], t->ready, error);
        rc = code || rc ? rc : convert(d, t, o, error);
    }
    if (!code) /* after an error too: what decodes has begun, and reads what the next use of `t` would change */
        code = cuda->cuEventRecord(t->ready, converts ? d->converts : d->copies);
    return rc ? rc : code ? leat_cuda_fail(cuda, code, "a batch is not copied to the card", error) : LEAT_OK;
}

static void carry_out(struct leat_device_batches *d, const struct item *i)
{
    struct leat_device_batch *t = i->there;
    struct leat_error error;
    int rc = LEAT_OK;
    if (i->kind == DROP) {
        unref_there(t);
        return;
    }
    if (i->kind == STOP) {
        give_up(t);
        unref_there(t);
        return;
    }
    pthread_mutex_lock(&d->mutex);
    const bool failed = t->state == FAILED;
    pthread_mutex_unlock(&d->mutex);
    if (!failed)
        rc = i->kind == COPY ? copy(d, i, &error) : issue(d, t, &error);
    if (i->kind == END && (failed || rc))
        give_up(t); /* so that those before it have its memory */
    pthread_mutex_lock(&d->mutex);
    if (rc && t->state == FILLING)
        t->error = error;
    t->state = rc ? FAILED : t->state;
    if (i->kind == COPY) {
        pthread_mutex_unlock(&d->mutex);
        return;
    }
    t->ended = true;
    if (t->state == FILLING)
        t->state = ISSUED;
    d->count.batches += t->state == ISSUED;
    pthread_cond_broadcast(&d->done);
    pthread_mutex_unlock(&d->mutex);
}

/* Copies that go through the link one behind the other, timed by the card. */
static void time_copies(struct leat_device_batches *d, bool begins)
{
    const struct leat_cuda *cuda = d->card->cuda;
    const size_t k = d->n_timed % TIMED;
    float ms = 0;
    if (begins) { /* the oldest ones are done long since */
        if (d->n_timed >= TIMED && !cuda->cuEventQuery(d->ended[k]) &&
            !cuda->cuEventElapsedTime(&ms, d->begun[k], d->ended[k])) {
            pthread_mutex_lock(&d->mutex);
            d->count.copy_ms += ms;
            pthread_mutex_unlock(&d->mutex);
        }
        cuda->cuEventRecord(d->begun[k], d->copies);
    } else {
        cuda->cuEventRecord(d->ended[k], d->copies);
        d->n_timed++;
    }
}

static void *run_copier(void *user)
{
    struct leat_device_batches *d = user;
    struct item *items = NULL;
    size_t room = 0;
    const bool entered = !leat_card_enter(d->card, NULL);
    pthread_mutex_lock(&d->mutex);
    while (entered && (!d->stops || d->n_items || d->releasing)) {
        if (d->n_items) {
            struct item *const taken = d->items;
            const size_t n = d->n_items, taken_room = d->items_room;
            d->items = items;
            d->items_room = room;
            d->n_items = 0;
            pthread_mutex_unlock(&d->mutex);
            time_copies(d, true);
            for (size_t i = 0; i < n; i++)
                carry_out(d, &taken[i]);
            time_copies(d, false);
            items = taken;
            room = taken_room;
            pthread_mutex_lock(&d->mutex);
        } else if (d->releasing) { /* what comes meanwhile would stand behind these copies */
            struct leat_device_batch *t = d->releasing;
            if (!(d->releasing = t->next))
                d->releasing_end = &d->releasing;
            pthread_mutex_unlock(&d->mutex);
            d->card->cuda->cuEventSynchronize(t->copied);
            give_host_back(t);
            unref_there(t);
            pthread_mutex_lock(&d->mutex);
        } else {
            pthread_cond_wait(&d->wanted, &d->mutex);
        }
    }
    d->exited = true;
    pthread_cond_broadcast(&d->done);
    pthread_mutex_unlock(&d->mutex);
    leat_free(items);
    if (entered)
        leat_card_leave(d->card);
    return NULL;
}

/* ---- taking ------------------------------------------------------------------------------------- */

/* Waits until a batch is issued or has failed. */
static int wait_for(struct leat_device_batches *d, struct leat_device_batch *t, struct leat_error *error)
{
    pthread_mutex_lock(&d->mutex);
    const int64_t begun = t->ended ? 0 : leat_clock_ns();
    while (!t->ended && !d->exited)
        pthread_cond_wait(&d->done, &d->mutex);
    if (begun)
        d->count.wait_ns += leat_clock_ns() - begun;
    int rc = t->state == ISSUED ? LEAT_OK : LEAT_E_CLOSED;
    if (t->state == FAILED) {
        rc = t->error.code;
        *error = t->error;
    } else if (rc) {
        leat_fail(error, rc, "the batches on the card are closed");
    }
    pthread_mutex_unlock(&d->mutex);
    return rc;
}

/* The tensor of an output as it lies on the card; its host memory is the batch's no more. */
static void take_output(struct leat_device_batch *t, struct leat_batch *b, size_t o, leat_cu_handle stream)
{
    const struct leat_device_table *table = t->of->outputs[o].table;
    struct part *p = &t->parts[o];
    struct leat_tensor *made = &p->tensor.tensor;
    leat_batch_tensor(b, o, made); /* it is there: it has travelled */
    if (t->of->outputs[o].late) {
        uint64_t h, w;
        leat_device_photos_size(&p->photos, &h, &w);
        made->ndim = 4;
        memcpy(made->shape, ((const int64_t[]){(int64_t)b->rows, (int64_t)h, (int64_t)w, 3}), 4 * sizeof h);
        memcpy(made->strides, ((const int64_t[]){(int64_t)(3 * h * w), (int64_t)(3 * w), 3, 1}), 4 * sizeof h);
        made->offsets = NULL;
    }
    struct leat_device_buffer *owner = p->made ? p->made : p->raw;
    const uint64_t values = made->offsets ? leat_device_aligned(8 * (b->rows + 1)) : 0;
    made->data = (void *)(uintptr_t)(owner->at + values);
    made->offsets = made->offsets ? (const int64_t *)(uintptr_t)owner->at : NULL;
    made->buffer = NULL;
    owner->stream = stream;
    p->tensor.owner = owner;
    if (table) {
        made->dtype = table->dtype;
        const int64_t h = made->shape[1], w = made->shape[2], c = made->shape[3];
        if (table->planes || table->last)
            memcpy(made->shape + 1, ((const int64_t[]){c, h, w}), 3 * sizeof h);
        if (table->planes)
            memcpy(made->strides + 1, ((const int64_t[]){h * w, w, 1}), 3 * sizeof h);
        else if (table->last)
            memcpy(made->strides + 1, ((const int64_t[]){1, w * c, c}), 3 * sizeof h);
    }
    const struct leat_output *output = leat_program_output(b->program, o);
    p->host = b->buffers[o];
    if (output->open && !output->on_card) /* its images are found by the offsets here */
        leat_buffer_retain(p->host);
    else
        b->buffers[o] = NULL;
}

/* Waits for the card to decode its photos, if there are any among the pixels. An error: it found a fault in one, whose
 * bytes have changed since leat_card_check. */
static int check_photos(const struct leat_device_batches *d, const struct leat_device_batch *t,
                        const struct leat_batch *b, struct leat_error *error)
{
    for (size_t o = 0; o < d->n_outputs; o++) {
        uint64_t row;
        if (!d->outputs[o].late || !t->parts[o].made || !leat_device_photos_count(&t->parts[o].photos))
            continue;
        const leat_cu_result code = d->card->cuda->cuEventSynchronize(t->ready);
        if (code)
            return leat_cuda_fail(d->card->cuda, code, "a batch has not come to the card", error);
        const int rc = leat_device_photos_check(&t->parts[o].photos, &row, error);
        if (rc) {
            leat_error_at_sample(error, b->ids[row], leat_program_output(b->program, o)->name);
            return rc;
        }
    }
    return LEAT_OK;
}

/* A batch that was not copied ahead. *out: NULL after an error. */
static int take_alone(struct leat_device_batches *d, const struct leat_batch *b, struct leat_device_batch **out,
                      struct leat_error *error)
{
    pthread_mutex_lock(&d->mutex);
    struct leat_device_batch *t = d->stops ? NULL : new_there(d);
    int rc = t          ? LEAT_OK
             : d->stops ? leat_fail(error, LEAT_E_CLOSED, "the batches on the card are closed")
                        : leat_fail(error, LEAT_E_NOMEM, "no memory for a batch on the card");
    pthread_mutex_unlock(&d->mutex);
    *out = NULL;
    if (rc)
        return rc;
    ready(t, b, true);
    if ((rc = wait_for(d, t, error)))
        unref_there(t);
    else
        *out = t;
    return rc;
}

/* A batch that was copied ahead; NULL: there is none, or it has failed. */
static struct leat_device_batch *take_ahead(struct leat_device_batches *d, struct leat_batch *b)
{
    struct leat_error error;
    struct leat_device_batch *t = leat_batch_take_mark(b);
    const int rc = t ? wait_for(d, t, &error) : LEAT_OK;
    if (!rc)
        return t;
    pthread_mutex_lock(&d->mutex);
    const size_t ahead = atomic_load(&d->follower.ahead);
    if ((rc == LEAT_E_NOMEM || rc == LEAT_E_BUDGET) && !t->stopped && ahead > 1) /* fewer from now on */
        atomic_store(&d->follower.ahead, ahead - 1);
    d->n_well = 0;
    pthread_mutex_unlock(&d->mutex);
    unref_there(t);
    return NULL;
}

/* Puts what has come into the caller's hands. */
static int hand_over(struct leat_device_batches *d, struct leat_device_batch *t, struct leat_batch *b,
                     leat_cu_handle stream, bool ahead, struct leat_error *error)
{
    const struct leat_cuda *cuda = d->card->cuda;
    leat_cu_result code = cuda->cuEventQuery(t->ready);
    const bool late = code == LEAT_CU_NOT_READY;
    if (late)
        code = cuda->cuStreamWaitEvent(stream, t->ready, 0);
    if (code)
        return leat_cuda_fail(cuda, code, "a batch has not come to the card", error);
    for (size_t o = 0; o < d->n_outputs; o++)
        if (t->parts[o].raw || t->parts[o].made)
            take_output(t, b, o, stream);
    t->rows_there->stream = stream;
    bool copied = !late || !cuda->cuEventQuery(t->copied);
    pthread_mutex_lock(&d->mutex);
    d->count.ahead += ahead;
    d->count.late += late;
    const size_t now = atomic_load(&d->follower.ahead);
    if (now < d->prefetch && ++d->n_well >= WELL) { /* there may be memory for one more again */
        atomic_store(&d->follower.ahead, now + 1);
        d->n_well = 0;
    }
    const bool inline_ = !copied && d->exited;
    if (!copied && !inline_) {
        t->references++;
        *d->releasing_end = t;
        d->releasing_end = &t->next;
        pthread_cond_signal(&d->wanted);
    }
    pthread_mutex_unlock(&d->mutex);
    if (inline_)
        copied = !cuda->cuEventSynchronize(t->copied);
    if (copied)
        give_host_back(t);
    return LEAT_OK;
}

int leat_device_batches_take(struct leat_device_batches *d, struct leat_batch *b, void *stream,
                             struct leat_device_batch **out, struct leat_error *error)
{
    *out = NULL;
    int rc = leat_card_enter(d->card, error);
    if (rc)
        return rc;
    struct leat_card *card = d->card;
    pthread_mutex_lock(&d->mutex);
    d->references++; /* also while another thread closes it */
    pthread_mutex_unlock(&d->mutex);
    struct leat_device_batch *t = take_ahead(d, b);
    const bool ahead = t;
    if (!t)
        rc = take_alone(d, b, &t, error);
    if (!t && d->loader && (rc == LEAT_E_NOMEM || rc == LEAT_E_BUDGET)) { /* those behind it have the memory */
        leat_loader_stop_following(d->loader);
        rc = take_alone(d, b, &t, error);
    }
    rc = rc ? rc : check_photos(d, t, b, error);
    rc = rc ? rc : hand_over(d, t, b, stream, ahead, error);
    if (!rc)
        *out = t;
    else if (t)
        unref_there(t);
    pthread_mutex_lock(&d->mutex);
    unref_unlock(d);
    leat_card_leave(card);
    return rc;
}

int leat_device_batch_tensor(const struct leat_device_batch *t, size_t o, struct leat_device_tensor *out)
{
    if (o >= t->of->n_outputs)
        return LEAT_E_RANGE;
    *out = t->parts[o].tensor;
    if (t->of->outputs[o].describes)
        return LEAT_E_TYPE;
    return out->owner ? LEAT_OK : LEAT_E_NOT_FOUND;
}

void leat_device_batch_rows(const struct leat_device_batch *t, struct leat_device_batch_rows *out)
{
    const leat_cu_memory at = t->rows_there->at;
    const uint64_t keys = leat_device_aligned(8 * t->n_rows), domains = keys + leat_device_aligned(8 * t->n_rows),
                   valid = domains + leat_device_aligned(4 * t->n_rows);
    *out = (struct leat_device_batch_rows){
        .ids = (const int64_t *)(uintptr_t)at,
        .keys = (const uint64_t *)(uintptr_t)(at + keys),
        .domains = (const int32_t *)(uintptr_t)(at + domains),
        .valid = (const bool *)(uintptr_t)(at + valid),
        .owner = t->rows_there,
    };
}

void leat_device_batch_free(struct leat_device_batch *t)
{
    if (!t)
        return;
    struct leat_card *card = t->of->card;
    if (leat_card_enter(card, NULL)) /* a forked child */
        return;
    give_up(t); /* at once, in the stream of its taker: the copier may have `t` for longer */
    unref_there(t);
    leat_card_leave(card);
}

/* ---- opening and closing ------------------------------------------------------------------------ */

static int set_tables(struct leat_device_batches *d, const struct leat_device_batches_options *o,
                      struct leat_error *error)
{
    uint64_t bytes = 0;
    d->tables = leat_new_array(o->n_tables + 1, sizeof *d->tables);
    if (!d->tables)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for tables");
    for (size_t i = 0; i < o->n_tables; i++) {
        const struct leat_device_table *table = &d->tables[i];
        size_t k;
        d->tables[i] = o->tables[i];
        leat_device_output(d->pool, table->output, &k);
        const bool value = table->dtype == LEAT_F32 || table->dtype == LEAT_F16 || table->dtype == LEAT_BF16;
        if (!value || !table->channels || table->channels != leat_device_channels_of(d->pool, table->output))
            return leat_fail(error, LEAT_E_INVALID,
                             "a table of %u channels of %s does not go with output %s: it takes uint8 of shape (rows, "
                             "height, width, channels)",
                             table->channels, leat_dtype_name(table->dtype), table->output);
        d->outputs[k].table = table;
        d->outputs[k].values = bytes;
        bytes += leat_device_aligned((uint64_t)table->channels * 256 * leat_dtype_size(table->dtype));
    }
    if (!bytes)
        return LEAT_OK;
    int rc = leat_device_buffer_take(d->memory, bytes, d->converts, &d->values, error);
    for (size_t k = 0; !rc && k < d->n_outputs; k++) {
        const struct leat_device_table *table = d->outputs[k].table;
        if (!table)
            continue;
        d->outputs[k].values += d->values->at;
        const leat_cu_result code = d->card->cuda->cuMemcpyHtoDAsync_v2(
            d->outputs[k].values, table->values, (size_t)table->channels * 256 * leat_dtype_size(table->dtype),
            d->converts);
        rc = code ? leat_cuda_fail(d->card->cuda, code, "a table is not copied to the card", error) : LEAT_OK;
    }
    if (!rc) /* the caller's memory is the caller's again */
        d->card->cuda->cuStreamSynchronize(d->converts);
    return rc;
}

static int open_streams(struct leat_device_batches *d, struct leat_error *error)
{
    const struct leat_cuda *cuda = d->card->cuda;
    leat_cu_result code = cuda->cuStreamCreate(&d->copies, LEAT_CU_STREAM_NON_BLOCKING);
    if (!code)
        code = cuda->cuStreamCreate(&d->converts, LEAT_CU_STREAM_NON_BLOCKING);
    for (size_t i = 0; !code && i < TIMED; i++)
        if (!(code = cuda->cuEventCreate(&d->begun[i], 0)))
            code = cuda->cuEventCreate(&d->ended[i], 0);
    return code ? leat_cuda_fail(cuda, code, "streams for copies cannot be made", error) : LEAT_OK;
}

/* The card was entered. */
static int open_there(struct leat_device_batches *d, const struct leat_device_batches_options *o,
                      struct leat_error *error)
{
    size_t free = 0, total = 0;
    if (!o->budget_bytes && d->card->cuda->cuMemGetInfo_v2(&free, &total))
        free = total = 0;
    d->n_outputs = d->pool->n_outputs;
    d->outputs = leat_new_array(d->n_outputs + 1, sizeof *d->outputs);
    d->memory = leat_device_memory_new(d->card, o->budget_bytes ? o->budget_bytes : free / 2);
    if (!d->outputs || !d->memory || (o->nvrtc && !(d->nvrtc = leat_strdup(o->nvrtc))))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for batches on a card");
    for (size_t i = 0; i < d->n_outputs; i++) {
        const struct leat_output *output = leat_program_output(d->pool->program, i);
        d->outputs[i].travels = leat_output_travels(output);
        d->outputs[i].late = output->on_card;
        d->outputs[i].described =
            output->on_card ? leat_program_chain(d->pool->program, output->chain)->sizes : SIZE_MAX;
    }
    int rc = open_streams(d, error);
    rc = rc ? rc : set_tables(d, o, error);
    for (size_t i = 0; i < d->n_outputs; i++)
        if (d->outputs[i].late) {
            d->outputs[d->outputs[i].described].describes = true;
            d->outputs[d->outputs[i].described].travels = false;
        }
    for (size_t i = 0; !rc && i < d->n_outputs; i++)
        if (d->outputs[i].late && !d->outputs[i].table)
            rc = leat_fail(error, LEAT_E_INVALID, "output %s is left to a card, and has no table",
                           leat_program_output(d->pool->program, i)->name);
    return rc;
}

/* `loader`: whose batches are followed; NULL: they are copied as they are taken. */
static int open_batches(struct leat_batch_pool *pool, struct leat_loader *loader,
                        const struct leat_device_batches_options *o, struct leat_device_batches **out,
                        struct leat_error *error)
{
    *out = NULL;
    struct leat_device_batches *d = leat_new(struct leat_device_batches);
    if (!d)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for batches on a card");
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->wanted, NULL);
    pthread_cond_init(&d->done, NULL);
    d->follower = (struct leat_follower){
        .user = d, .ahead = o->prefetch, .begin = begin, .made = made, .ready = ready, .drop = drop, .stop = stop};
    d->references = 1;
    d->pool = pool;
    d->prefetch = o->prefetch;
    d->loader = loader;
    d->releasing_end = &d->releasing;
    d->count.opened_ns = leat_clock_ns();
    int rc = leat_card_open(o->device, &d->card, error);
    if (!rc && !(rc = leat_card_enter(d->card, error))) {
        rc = open_there(d, o, error);
        leat_card_leave(d->card);
    }
    for (size_t i = 0; !rc && !loader && i < d->n_outputs; i++)
        if (d->outputs[i].late) /* a port decodes its photos itself: what it says of such is not checked */
            rc = leat_fail(error, LEAT_E_FORMAT, "the port leaves photos to the card of its readers");
    if (!rc && loader && loader->pool.follower)
        rc = leat_fail(error, LEAT_E_INVALID, "this loader's batches go to a card already");
    if (!rc && pthread_create(&d->thread, NULL, run_copier, d))
        rc = leat_fail(error, LEAT_E_NOMEM, "no thread for copies to a card");
    d->started = !rc;
    if (d->started)
        pthread_setname_np(d->thread, "leat-copier");
    if (!rc && loader)
        rc = leat_loader_follow(loader, &d->follower, error);
    if (rc)
        leat_device_batches_close(d);
    else
        *out = d;
    return rc;
}

int leat_device_batches_open(struct leat_loader *loader, const struct leat_device_batches_options *options,
                             struct leat_device_batches **out, struct leat_error *error)
{
    return open_batches(&loader->pool, loader, options, out, error);
}

int leat_device_batches_attach(struct leat_consumer *reader, const struct leat_device_batches_options *options,
                               struct leat_device_batches **out, struct leat_error *error)
{
    return open_batches(leat_reader_of(reader)->pool, NULL, options, out, error);
}

/* Nobody has it any more. */
static void destroy(struct leat_device_batches *d)
{
    if (d->card && !leat_card_enter(d->card, NULL)) {
        const struct leat_cuda *cuda = d->card->cuda;
        for (struct leat_device_batch *t; (t = d->free);) {
            d->free = t->next;
            if (t->copied)
                cuda->cuEventDestroy_v2(t->copied);
            if (t->ready)
                cuda->cuEventDestroy_v2(t->ready);
            for (size_t o = 0; o < d->n_outputs; o++)
                leat_device_photos_free(&t->parts[o].photos, cuda);
            leat_free(t->rows);
            leat_free(t);
        }
        for (size_t i = 0; i < TIMED; i++) {
            if (d->begun[i])
                cuda->cuEventDestroy_v2(d->begun[i]);
            if (d->ended[i])
                cuda->cuEventDestroy_v2(d->ended[i]);
        }
        leat_device_close_shared(&d->opened, cuda);
        if (d->values)
            leat_device_buffer_release(d->values);
        if (d->memory)
            leat_device_memory_close(d->memory);
        if (d->copies)
            cuda->cuStreamDestroy_v2(d->copies);
        if (d->converts)
            cuda->cuStreamDestroy_v2(d->converts);
        leat_card_leave(d->card);
    }
    pthread_cond_destroy(&d->done);
    pthread_cond_destroy(&d->wanted);
    pthread_mutex_destroy(&d->mutex);
    leat_free(d->items);
    leat_free(d->outputs);
    leat_free(d->tables);
    leat_free(d->nvrtc);
    leat_free(d);
}

void leat_device_batches_close(struct leat_device_batches *d)
{
    if (!d || leat_cuda_here(NULL))
        return;
    const bool follows = d->started && d->loader && d->loader->pool.follower == &d->follower;
    if (follows)
        leat_loader_unfollow(d->loader); /* the copier gives up what was on its way */
    pthread_mutex_lock(&d->mutex);
    d->stops = true;
    pthread_cond_signal(&d->wanted);
    pthread_mutex_unlock(&d->mutex);
    if (d->started) {
        pthread_join(d->thread, NULL);
        if (!leat_card_enter(d->card, NULL)) { /* the host's memory is read no more */
            d->card->cuda->cuStreamSynchronize(d->copies);
            d->card->cuda->cuStreamSynchronize(d->converts);
            leat_card_leave(d->card);
        }
    }
    if (follows)
        leat_loader_followed(d->loader);
    pthread_mutex_lock(&d->mutex);
    unref_unlock(d);
}

int leat_device_batches_stats(struct leat_device_batches *d, char **json, struct leat_error *error)
{
    if (leat_cuda_here(error))
        return error->code;
    pthread_mutex_lock(&d->mutex);
    pthread_mutex_lock(&d->memory->mutex);
    const double seconds = (double)(leat_clock_ns() - d->count.opened_ns) / 1e9;
    uint64_t pinned = 0;
    for (int a = 0; a < 2 && d->loader; a++)
        pinned += d->pool->region.areas[a].committed - d->pool->region.areas[a].begin;
    json_t *o =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:I, s:I}", "name", d->card->name,
                  "prefetch", (json_int_t)atomic_load(&d->follower.ahead), "batches", (json_int_t)d->count.batches,
                  "ahead", (json_int_t)d->count.ahead, "late", (json_int_t)d->count.late, "bytes",
                  (json_int_t)d->count.bytes, "shared_bytes", (json_int_t)d->count.shared_bytes, "photos",
                  (json_int_t)d->count.photos, "copy_s", d->count.copy_ms / 1e3, "link_share",
                  d->count.copy_ms / 1e3 / seconds, "wait_s", (double)d->count.wait_ns / 1e9, "used_bytes",
                  (json_int_t)d->memory->used, "most_used_bytes", (json_int_t)d->memory->most_used, "budget_bytes",
                  (json_int_t)d->memory->budget, "pinned_bytes", (json_int_t)pinned);
    pthread_mutex_unlock(&d->memory->mutex);
    pthread_mutex_unlock(&d->mutex);
    *json = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return *json ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for statistics");
}
