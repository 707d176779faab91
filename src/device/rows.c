/*
 * A table whose rows are gathered (leat/device.h): by threads of the processor (gather.h), or by a card, which reads
 * the host's memory over the bus. For that the memory is pinned and mapped:
 *
 *     ordinary memory    where it lies, once, when the table is opened
 *     a mapped file, and what the driver refuses to pin: a copy in pinned memory, within a budget
 *     where the copy does not fit: by rows. Threads collect those of a call in one half of a buffer in pinned memory,
 *     while the card reads the other one as a table of its own
 *
 * A file is copied although some drivers would pin its pages: it would be read as a whole then too, and stay in memory
 * without anybody having counted it.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/ledger.h"
#include "device/card.h"
#include "device/gather.h"
#include "device/kernels/gather_rows.h"
#include "device/pin.h"
#include "io/guard.h"
#include "leat/device.h"

enum {
    CARD_LINE = 128,     /* bytes of a request over the bus */
    MOST_LANES_LOG2 = 5, /* threads for one row: a warp */
    MOST_WORD = 16,      /* bytes that a thread reads at once */
    /* Bytes of each half of a stage: the bus takes a millisecond for them, a launch and a wake-up some 20 us. */
    HALF_STAGE = 16 << 20
};

struct leat_device_rows {
    struct leat_gather table; /* without ids and out */
    const char *path;         /* of all_paths */
    char *nvrtc;
    bool guarded;
    struct leat_card *card; /* NULL: none */
    struct leat_pin *pin;   /* of the table, where it is read in place */
    void *copy;             /* of the table, or its stage */
    uint64_t bytes, copied;
    uint64_t half;          /* of the stage, bytes; 0: there is none */
    leat_cu_handle read[2]; /* events: the card has read that half */
    unsigned turn;
    pthread_mutex_t lock;            /* of the stage */
    leat_cu_memory at;               /* of the table or stage, for the card */
    struct leat_gather_fault *fault; /* pinned */
    leat_cu_memory fault_at;
};

/* The largest power of two, up to 16, that divides all that was or-ed into it. */
static unsigned word_of(uint64_t bits)
{
    return (unsigned)((bits | MOST_WORD) & -(bits | MOST_WORD));
}

/* Files that tables were mappings of. They stay: the handler that the guard runs may read the name of one at any time,
 * and tables over one array share a range. */
struct path {
    struct path *next;
    char name[];
};
static _Atomic(struct path *) all_paths;

static const char *keep_path(const char *name)
{
    struct path *p = atomic_load(&all_paths);
    while (p && strcmp(p->name, name))
        p = p->next;
    if (p || !(p = leat_alloc(sizeof *p + strlen(name) + 1)))
        return p ? p->name : NULL;
    strcpy(p->name, name);
    p->next = atomic_load(&all_paths);
    while (!atomic_compare_exchange_weak(&all_paths, &p->next, p))
        ;
    return p->name;
}

static int check_options(const struct leat_device_rows_options *o, uint64_t *bytes, struct leat_error *error)
{
    const uint64_t size = leat_dtype_size(o->dtype);
    uint64_t row;
    if (!size)
        return leat_fail(error, LEAT_E_INVALID, "%d is no dtype", (int)o->dtype);
    if (!leat_mul_u64(o->width, size, &row) || row > LEAT_DEVICE_MAX_ROW_BYTES)
        return leat_fail(error, LEAT_E_INVALID,
                         "rows have at most %" PRIu64 " bytes, not %" PRIu64 " values of %" PRIu64,
                         LEAT_DEVICE_MAX_ROW_BYTES, o->width, size);
    if (o->count > INT64_MAX || !leat_mul_u64(row, o->count, bytes) || *bytes > SIZE_MAX / 2)
        return leat_fail(error, LEAT_E_INVALID, "%" PRIu64 " rows of %" PRIu64 " bytes are no table", o->count, row);
    if (*bytes && !o->data)
        return leat_fail(error, LEAT_E_INVALID, "a table needs data");
    return LEAT_OK;
}

static int allocate(struct leat_device_rows *r, uint64_t bytes, void **out, leat_cu_memory *at,
                    struct leat_error *error)
{
    const struct leat_cuda *cuda = r->card->cuda;
    leat_cu_result code = cuda->cuMemHostAlloc(out, bytes, LEAT_CU_HOST_PORTABLE | LEAT_CU_HOST_MAPPED);
    if (code)
        return leat_cuda_fail_pinning(cuda, code, bytes, error);
    if ((code = cuda->cuMemHostGetDevicePointer_v2(at, *out, 0))) {
        cuda->cuMemFreeHost(*out);
        *out = NULL;
        return leat_cuda_fail(cuda, code, "the card does not reach pinned memory", error);
    }
    return LEAT_OK;
}

/* Pinned memory for a copy or a stage. */
static int allocate_copy(struct leat_device_rows *r, uint64_t bytes, struct leat_error *error)
{
    const int rc = allocate(r, bytes, &r->copy, &r->at, error);
    if (rc)
        return rc;
    r->copied = bytes;
    leat_ledger_take(LEAT_OF_LOADERS, bytes);
    return LEAT_OK;
}

static int open_stage(struct leat_device_rows *r, uint64_t budget, struct leat_error *error)
{
    uint64_t least = MOST_WORD * (r->bytes / r->table.count); /* so that each part begins where `out` may */
    least = (least + CARD_LINE - 1) / CARD_LINE * CARD_LINE;
    const uint64_t most = budget / 2 / CARD_LINE * CARD_LINE;
    r->half = least > HALF_STAGE ? least : most < HALF_STAGE ? most : HALF_STAGE;
    if (least > most)
        return leat_fail(error, LEAT_E_BUDGET,
                         "the card cannot read this table in place (%s): pinned memory for 32 of its rows at a time "
                         "takes %" PRIu64 " bytes, of which budget_bytes allows %" PRIu64,
                         r->path ? "it is a mapped file" : "the driver does not pin its memory", 2 * least, budget);
    const struct leat_cuda *cuda = r->card->cuda;
    leat_cu_result code;
    for (int i = 0; i < 2; i++)
        if ((code = cuda->cuEventCreate(&r->read[i], LEAT_CU_EVENT_BLOCKING_SYNC | LEAT_CU_EVENT_NO_TIMING)))
            return leat_cuda_fail(cuda, code, "the card does not gather rows", error);
    return allocate_copy(r, 2 * r->half, error);
}

static int copy(struct leat_device_rows *r, uint64_t budget, struct leat_error *error)
{
    const uint64_t most = budget ? budget : leat_memory_left();
    if (r->bytes > most)
        return open_stage(r, most, error);
    int rc = allocate_copy(r, r->bytes, error);
    if (rc || (rc = leat_gather_copy(r->copy, r->table.table, r->bytes, r->table.num_threads, error)))
        return rc;
    if (r->guarded)
        leat_guard_remove(r->table.table, r->bytes);
    r->guarded = false;
    return LEAT_OK;
}

static int open_on_card(struct leat_device_rows *r, const struct leat_device_rows_options *o, struct leat_error *error)
{
    void *fault;
    int rc = leat_card_open(o->device, &r->card, error);
    if (rc || (rc = leat_card_enter(r->card, error))) {
        r->card = NULL; /* nothing is there to be given back */
        return rc;
    }
    rc = allocate(r, sizeof *r->fault, &fault, &r->fault_at, error);
    if (!rc) {
        r->fault = fault;
        *r->fault = (struct leat_gather_fault){0};
        /* A value at an odd place can be read by the processor only. */
        const bool odd = (uintptr_t)r->table.table % leat_dtype_size(o->dtype);
        if (r->bytes &&
            ((r->path && !o->in_memory) || odd || !leat_pin_take(r->card->cuda, o->data, r->bytes, &r->pin, &r->at)))
            rc = copy(r, o->budget_bytes, error);
    }
    leat_card_leave(r->card);
    return rc;
}

int leat_device_rows_open(const struct leat_device_rows_options *o, struct leat_device_rows **out,
                          struct leat_error *error)
{
    uint64_t bytes = 0;
    *out = NULL;
    int rc = check_options(o, &bytes, error);
    struct leat_device_rows *r = rc ? NULL : leat_new(struct leat_device_rows);
    if (!r)
        return rc ? rc : leat_fail(error, LEAT_E_NOMEM, "no memory to open a table");
    r->table = (struct leat_gather){.table = o->data,
                                    .count = o->count,
                                    .width = o->width,
                                    .from = o->dtype,
                                    .num_threads = o->num_threads ? o->num_threads : leat_cpu_count()};
    r->bytes = bytes;
    pthread_mutex_init(&r->lock, NULL);
    if ((o->path && !(r->path = keep_path(o->path))) || (o->nvrtc && !(r->nvrtc = leat_strdup(o->nvrtc))))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open a table");
    if (!rc && r->path && bytes && (rc = leat_guard_add(o->data, bytes, r->path)))
        leat_fail(error, rc, "no memory to open a table");
    r->guarded = !rc && r->path && bytes;
    if (!rc && o->device >= 0)
        rc = open_on_card(r, o, error);
    if (rc)
        leat_device_rows_close(r);
    else
        *out = r;
    return rc;
}

static void leave_card(struct leat_device_rows *r)
{
    const struct leat_cuda *cuda = r->card->cuda;
    if (leat_card_enter(r->card, NULL)) /* a forked child: the memory is its parent's */
        return;
    cuda->cuCtxSynchronize();
    leat_pin_give(cuda, r->pin);
    for (int i = 0; i < 2; i++)
        if (r->read[i])
            cuda->cuEventDestroy_v2(r->read[i]);
    if (r->copy) {
        cuda->cuMemFreeHost(r->copy);
        leat_ledger_give(LEAT_OF_LOADERS, r->copied);
    }
    if (r->fault)
        cuda->cuMemFreeHost(r->fault);
    leat_card_leave(r->card);
}

void leat_device_rows_close(struct leat_device_rows *r)
{
    if (!r)
        return;
    if (r->card)
        leave_card(r);
    if (r->guarded)
        leat_guard_remove(r->table.table, r->bytes);
    pthread_mutex_destroy(&r->lock);
    leat_free(r->nvrtc);
    leat_free(r);
}

bool leat_device_rows_in_place(const struct leat_device_rows *r)
{
    return !r->copy;
}

bool leat_device_rows_staged(const struct leat_device_rows *r)
{
    return r->half;
}

/* How the kernel is to go over rows of `words` words: see gather_rows.cu.h. */
static void lay_out(struct leat_gather_args *a, uint64_t row_bytes, unsigned word)
{
    a->words = (unsigned)(row_bytes / word);
    while (a->lanes_log2 < MOST_LANES_LOG2 && 1u << a->lanes_log2 < a->words)
        a->lanes_log2++;
    const unsigned lanes = 1u << a->lanes_log2;
    a->period = (a->words + lanes - 1) / lanes * lanes;
    a->shifted = row_bytes > CARD_LINE && (row_bytes % CARD_LINE || (uintptr_t)a->table % CARD_LINE);
}

/* `at`: the table, for the card. */
static int launch(struct leat_device_rows *r, const struct leat_gather *g, leat_cu_memory at, void *stream,
                  struct leat_error *error)
{
    const uint64_t row = g->width * leat_dtype_size(g->from);
    const bool converts = g->as != g->from;
    struct leat_gather_args a = {
        .table = (const unsigned char *)(uintptr_t)(r->bytes ? at : r->fault_at),
        .ids = g->ids,
        .out = g->out,
        .fault = (struct leat_gather_fault *)(uintptr_t)r->fault_at,
        .count = g->count,
        .n = g->n,
        .wide = g->wide,
        .as = (unsigned)g->as,
    };
    const unsigned word = word_of((uint64_t)(uintptr_t)a.table | row);
    leat_cu_handle function;
    lay_out(&a, row, word);
    const unsigned values[LEAT_KERNEL_DEFINES] = {word, converts ? (unsigned)g->from : 0};
    int rc = leat_card_kernel(r->card, r->nvrtc, &leat_kernel_gather_rows, values, &function, error);
    if (rc || !g->n)
        return rc;
    const leat_cu_result code =
        leat_card_launch(r->card, function, leat_card_blocks(g->n << a.lanes_log2), LEAT_CARD_BLOCK, &a, stream);
    return code ? leat_cuda_fail(r->card->cuda, code, "the card does not gather rows", error) : LEAT_OK;
}

static int gather_staged(struct leat_device_rows *r, const struct leat_gather *g, void *stream,
                         struct leat_error *error)
{
    const struct leat_cuda *cuda = r->card->cuda;
    const uint64_t row = g->width * leat_dtype_size(g->from), made = g->width * leat_dtype_size(g->as);
    const uint64_t most = r->half / row / MOST_WORD * MOST_WORD;
    leat_cu_result code = 0;
    struct leat_gather ids = *g;
    ids.width = 0; /* before anything is made, they are looked at */
    int rc = leat_gather(&ids, error);
    pthread_mutex_lock(&r->lock);
    for (uint64_t done = 0; !rc && !code && done < g->n; done += most) {
        const unsigned i = r->turn++ % 2;
        struct leat_gather part = *g;
        part.n = g->n - done < most ? g->n - done : most;
        part.ids = (const uint8_t *)g->ids + done * (g->wide ? 8 : 4);
        part.as = g->from;
        part.out = (uint8_t *)r->copy + i * r->half;
        if ((code = cuda->cuEventSynchronize(r->read[i])) || (rc = leat_gather(&part, error)))
            break;
        part.count = part.n;
        part.ids = NULL;
        part.as = g->as;
        part.out = g->out + done * made;
        if (!(rc = launch(r, &part, r->at + i * r->half, stream, error)))
            code = cuda->cuEventRecord(r->read[i], stream);
    }
    pthread_mutex_unlock(&r->lock);
    return code ? leat_cuda_fail(cuda, code, "the card does not gather rows", error) : rc;
}

int leat_device_rows_look(struct leat_device_rows *r, const void *ids, bool wide, uint64_t begin, uint64_t end,
                          struct leat_error *error)
{
    struct leat_gather g = r->table;
    g.ids = ids;
    g.wide = wide;
    return leat_gather_look(&g, begin, end, error);
}

int leat_device_rows_gather(struct leat_device_rows *r, const void *ids, bool wide, uint64_t n, enum leat_dtype as,
                            void *out, void *stream, struct leat_error *error)
{
    struct leat_gather g = r->table;
    uint64_t made;
    g.as = as;
    g.ids = ids;
    g.wide = wide;
    g.n = n;
    g.out = out;
    if (as != g.from && as != LEAT_F32 && as != LEAT_F16 && as != LEAT_BF16)
        return leat_fail(error, LEAT_E_INVALID,
                         "rows of %s come as they are or as float32, float16 or bfloat16, not as %s",
                         leat_dtype_name(g.from), leat_dtype_name(as));
    if (!leat_mul_u64(n, g.width * leat_dtype_size(as), &made) || made > SIZE_MAX / 2)
        return leat_fail(error, LEAT_E_INVALID, "%" PRIu64 " rows do not fit into memory", n);
    if (!r->card)
        return n ? leat_gather(&g, error) : LEAT_OK;
    if ((uintptr_t)out % MOST_WORD || (uintptr_t)ids % (wide ? 8 : 4))
        return leat_fail(error, LEAT_E_INVALID,
                         "rows for a card go to a multiple of 16, and ids lie at one of their size");
    int rc = leat_card_enter(r->card, error);
    if (rc)
        return rc;
    rc = r->half && n ? gather_staged(r, &g, stream, error) : launch(r, &g, r->at, stream, error);
    leat_card_leave(r->card);
    return rc;
}

int leat_device_rows_check(struct leat_device_rows *r, void *stream, bool wait, struct leat_error *error)
{
    if (!r->card)
        return LEAT_OK;
    int rc = leat_card_enter(r->card, error);
    if (rc)
        return rc;
    const leat_cu_result code = wait ? r->card->cuda->cuStreamSynchronize(stream) : 0;
    leat_card_leave(r->card);
    if (code)
        return leat_cuda_fail(r->card->cuda, code, "the card has not gathered rows", error);
    /* The card is another writer: `ready` comes after the rest. One thread gives it, and the next fault may be met. */
    if (!__atomic_exchange_n(&r->fault->ready, 0, __ATOMIC_ACQ_REL))
        return LEAT_OK;
    rc = leat_fail(error, LEAT_E_RANGE, "id %lld (number %llu of its call) is not among the %" PRIu64 " rows",
                   r->fault->id, r->fault->at, r->table.count);
    __atomic_store_n(&r->fault->claimed, 0, __ATOMIC_RELEASE);
    return rc;
}
