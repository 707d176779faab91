#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/driver.h"
#include "device/kernels/convert_pixels.cu.h"
#include "device/kernels/gather_rows.cu.h"
#include "device/kernels/photo_across.cu.h"
#include "device/kernels/photo_codes.cu.h"
#include "device/kernels/photo_colours.cu.h"
#include "device/kernels/photo_columns.cu.h"
#include "device/kernels/photo_down.cu.h"
#include "device/kernels/photo_rows.cu.h"
#include "device/kernels/photo_samples.cu.h"
#include "device/kernels/photo_scan.cu.h"
#include "device/kernels/photo_weights.cu.h"

static struct standin state = {.cards = 4, .driver_version = 12040, .architecture = 90};

struct standin *standin_state(void);
struct standin *standin_state(void)
{
    return &state;
}

static _Thread_local int current; /* contexts that this thread has pushed */

#define TOLD(MEMBER) __atomic_load_n(&state.MEMBER, __ATOMIC_SEQ_CST)
#define MAY_FAIL()                                                                                                     \
    if (TOLD(fails) && !strcmp(TOLD(fails), __func__))                                                                 \
    return TOLD(code)
#define NEEDS_CONTEXT()                                                                                                \
    MAY_FAIL();                                                                                                        \
    if (!current)                                                                                                      \
    return 201

/* ---- the driver -------------------------------------------------------------------------------- */

#define DECLARE(NAME, PARAMETERS) leat_cu_result NAME PARAMETERS;
LEAT_CUDA_FUNCTIONS(DECLARE)

leat_cu_result cuInit(unsigned flags)
{
    MAY_FAIL();
    return 0;
}

leat_cu_result cuDriverGetVersion(int *version)
{
    *version = state.driver_version;
    return 0;
}

leat_cu_result cuGetErrorString(leat_cu_result code, const char **text)
{
    *text = code == 2 ? "out of memory" : "an error of the stand-in";
    return 0;
}

leat_cu_result cuDeviceGetCount(int *count)
{
    MAY_FAIL();
    *count = state.cards;
    return 0;
}

leat_cu_result cuDeviceGet(leat_cu_device *device, int ordinal)
{
    *device = ordinal;
    return ordinal < state.cards ? 0 : LEAT_CU_INVALID_DEVICE;
}

leat_cu_result cuDeviceGetUuid_v2(uint8_t uuid[16], leat_cu_device device)
{
    memset(uuid, 1 + device, 16);
    return 0;
}

leat_cu_result cuDeviceGetName(char *name, int room, leat_cu_device device)
{
    snprintf(name, (size_t)room, "stand-in %d", device);
    return 0;
}

leat_cu_result cuDeviceGetAttribute(int *value, int attribute, leat_cu_device device)
{
    *value = attribute == LEAT_CU_ATTRIBUTE_MAJOR ? state.architecture / 10 : state.architecture % 10;
    return 0;
}

leat_cu_result cuDevicePrimaryCtxRetain(leat_cu_handle *context, leat_cu_device device)
{
    MAY_FAIL();
    *context = &state;
    return 0;
}

leat_cu_result cuCtxPushCurrent_v2(leat_cu_handle context)
{
    MAY_FAIL();
    current++;
    __atomic_fetch_add(&state.current, 1, __ATOMIC_RELAXED);
    return 0;
}

leat_cu_result cuCtxPopCurrent_v2(leat_cu_handle *context)
{
    current--;
    __atomic_fetch_sub(&state.current, 1, __ATOMIC_RELAXED);
    return 0;
}

leat_cu_result cuMemGetInfo_v2(size_t *free, size_t *total)
{
    *total = TOLD(card_bytes) ? TOLD(card_bytes) : 1 << 30;
    *free = *total - TOLD(allocated);
    return 0;
}

/* Pinned memory: ranges of the host's. */
enum { RANGES = 256 };
static struct range {
    uint8_t *begin;
    size_t bytes;
    bool allocated;
} ranges[RANGES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct range *range_of(const uint8_t *p, size_t bytes)
{
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].begin && p < ranges[i].begin + ranges[i].bytes && p + bytes > ranges[i].begin)
            return &ranges[i];
    return NULL;
}

static leat_cu_result range_add(uint8_t *p, size_t bytes, bool allocated)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    const bool there = range_of(p, bytes);
    while (!there && i < RANGES && ranges[i].begin)
        i++;
    if (!there && i < RANGES) {
        ranges[i] = (struct range){p, bytes, allocated};
        state.pinned++;
    }
    pthread_mutex_unlock(&lock);
    return there ? LEAT_CU_ALREADY_REGISTERED : i < RANGES ? 0 : LEAT_CU_OUT_OF_MEMORY;
}

static leat_cu_result range_remove(const uint8_t *p, bool allocated)
{
    pthread_mutex_lock(&lock);
    struct range *range = range_of(p, 1);
    const bool good = range && range->begin == p && range->allocated == allocated;
    if (good) {
        range->begin = NULL;
        state.pinned--;
    }
    pthread_mutex_unlock(&lock);
    return good ? 0 : LEAT_CU_INVALID_VALUE;
}

leat_cu_result cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    NEEDS_CONTEXT();
    if (state.pinning)
        state.pinning(p);
    if (state.refuses_writable && !(flags & LEAT_CU_HOST_READ_ONLY))
        return LEAT_CU_INVALID_VALUE;
    return range_add(p, bytes, false);
}

leat_cu_result cuMemHostUnregister(void *p)
{
    return range_remove(p, false);
}

leat_cu_result cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    NEEDS_CONTEXT();
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *p ? range_add(*p, bytes, true) : LEAT_CU_OUT_OF_MEMORY;
}

leat_cu_result cuMemFreeHost(void *p)
{
    const leat_cu_result code = range_remove(p, true);
    if (!code)
        free(p);
    return code;
}

leat_cu_result cuMemHostGetDevicePointer_v2(leat_cu_memory *at, void *p, unsigned flags)
{
    NEEDS_CONTEXT();
    pthread_mutex_lock(&lock);
    const bool good = range_of(p, 1);
    pthread_mutex_unlock(&lock);
    *at = (leat_cu_memory)(uintptr_t)p;
    return good ? 0 : LEAT_CU_INVALID_VALUE;
}

leat_cu_result cuPointerGetAttribute(void *value, int attribute, leat_cu_memory at)
{
    NEEDS_CONTEXT();
    pthread_mutex_lock(&lock);
    const struct range *range = range_of((const uint8_t *)(uintptr_t)at, 1);
    const uint64_t found = !range                                    ? 0
                           : attribute == LEAT_CU_POINTER_RANGE_SIZE ? range->bytes
                                                                     : (uint64_t)(uintptr_t)range->begin;
    pthread_mutex_unlock(&lock);
    memcpy(value, &found, sizeof found);
    return range ? 0 : LEAT_CU_INVALID_VALUE;
}

/* ---- kernels ----------------------------------------------------------------------------------- */

/* A program, its binary and its module: the variant. */
struct variant {
    char magic[8];
    u32 kernel; /* of the table below */
    u32 values[4];
};

struct launch {
    struct variant variant;
    union {
        struct leat_gather_args args;
        struct leat_convert_args convert;
        struct leat_photo_args photos;
    };
    u32 blocks, threads;
};

static void gather_thread(const void *args)
{
    const struct launch *l = args;
    gather_rows(l->args, l->variant.values[0], l->variant.values[1]);
}
static void convert_thread(const void *args)
{
    const struct launch *l = args;
    const u32 *v = l->variant.values;
    convert_pixels(l->convert, v[0], v[1], v[2], v[3]);
}
#define PHOTO_KERNELS(X) X(rows) X(codes) X(scan) X(columns) X(samples) X(colours) X(weights) X(across) X(down)
#define PHOTO_THREAD(NAME)                                                                                             \
    static void NAME##_thread(const void *args)                                                                        \
    {                                                                                                                  \
        photo_##NAME(((const struct launch *)args)->photos);                                                           \
    }
PHOTO_KERNELS(PHOTO_THREAD)

static const struct kernel {
    const char *function;
    size_t args; /* bytes */
    void (*thread)(const void *args);
    const char *defines[4];
} kernels[] = {{"leat_gather_rows", sizeof(struct leat_gather_args), gather_thread, {"WORD", "FROM"}},
               {"leat_convert_pixels",
                sizeof(struct leat_convert_args),
                convert_thread,
                {"CHANNELS", "BYTES", "PLANES", "TOGETHER"}},
#define PHOTO_LINE(NAME) {"leat_photo_" #NAME, sizeof(struct leat_photo_args), NAME##_thread, {NULL}},
               PHOTO_KERNELS(PHOTO_LINE)};
enum { KERNELS = sizeof kernels / sizeof *kernels };

leat_cu_result cuModuleLoadData(leat_cu_handle *module, const void *image)
{
    NEEDS_CONTEXT();
    static struct variant modules[512];
    static unsigned n;
    const struct variant *v = image;
    if (strcmp(v->magic, "variant") || n == 512)
        return LEAT_CU_INVALID_IMAGE;
    modules[n] = *v;
    *module = &modules[n++];
    return 0;
}

leat_cu_result cuModuleGetFunction(leat_cu_handle *function, leat_cu_handle module, const char *name)
{
    const struct variant *v = module;
    *function = module;
    return strcmp(name, kernels[v->kernel].function) ? 500 : 0;
}

leat_cu_result cuModuleUnload(leat_cu_handle module)
{
    return 0;
}

/* Requests. The lanes that read 128 bytes together (a warp at most) make one for each line that they touch. */
struct request {
    u64 warp, turn, group, line;
};
static struct request *requests;
static size_t n_requests;

static void touched(void *user, u64 thread, const void *p, u32 bytes)
{
    const struct launch *l = user;
    const struct leat_gather_args *a = &l->args;
    const u64 row_bytes = (u64)a->words * l->variant.values[0], lanes = UINT64_C(1) << a->lanes_log2;
    const u64 offset = (u64)((const u8 *)p - a->table);
    if ((const u8 *)p < a->table || offset >= a->count * row_bytes)
        return; /* an id */
    const u8 *row = a->table + offset / row_bytes * row_bytes;
    u64 turn = offset % row_bytes / bytes + (a->shifted ? ((uintptr_t)row & 127) / bytes : 0);
    turn = turn >= a->period ? turn - a->period : turn;
    if (turn % lanes != thread % lanes)
        abort(); /* another lane's word */
    const u64 together = bytes < 4 ? 32 : 128 / bytes;
    requests[n_requests++] = (struct request){thread / 32, turn / lanes, thread % 32 / together, (uintptr_t)p / 128};
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct request));
}

static void count(const struct launch *l)
{
    const struct leat_gather_args *a = &l->args;
    const u64 row_bytes = (u64)a->words * l->variant.values[0];
    qsort(requests, n_requests, sizeof *requests, compare);
    for (size_t i = 0; i < n_requests; i++)
        state.requests += !i || compare(&requests[i - 1], &requests[i]);
    for (u64 i = 0; i < a->n; i++) {
        const int64_t id =
            a->wide ? ((const int64_t *)(const void *)a->ids)[i] : ((const int32_t *)(const void *)a->ids)[i];
        const uintptr_t begin = (uintptr_t)a->table + (u64)id * row_bytes;
        state.lines += (begin + row_bytes - 1) / 128 - begin / 128 + 1;
    }
}

static void run(struct launch *l)
{
    struct grid grid = {
        .kernel = kernels[l->variant.kernel].thread, .args = l, .blocks = l->blocks, .threads = l->threads};
    if (state.counts && !l->variant.kernel) {
        requests = malloc((l->args.n * l->args.words + 1) * sizeof *requests);
        n_requests = 0;
        grid.touched = touched;
        grid.user = l;
    }
    grid_run(&grid);
    if (grid.touched) {
        count(l);
        free(requests);
    }
}

/* ---- streams ----------------------------------------------------------------------------------- */

/* Work waits in its stream until somebody waits for it, if state.later is set: as late as a card may do it. */
struct event {
    u64 recorded, done; /* how often */
    struct stream *stream;
};
struct op {
    enum { LAUNCH, COPY, RECORD, WAIT } kind;
    struct launch launch;
    void *to, *from, *snapshot; /* the last: of what is copied, as it was */
    size_t bytes;
    struct event *event;
    u64 number; /* of the record, */
    struct stream *recorder;
};
struct stream {
    struct op *ops;
    size_t n, done, room;
    struct stream *next;
};
static struct stream legacy, *streams = &legacy;
static pthread_mutex_t work = PTHREAD_MUTEX_INITIALIZER;

static struct stream *stream_of(leat_cu_handle handle)
{
    return handle ? handle : &legacy;
}

static void run_one(struct stream *s);

/* Until record `number` of an event, which stands in a stream, is done. */
static void run_to(struct event *e, u64 number, struct stream *s)
{
    while (e->done < number) {
        if (s->done == s->n)
            abort();
        run_one(s);
    }
}

/* A card copies beside the threads: what a batch that was given up had may be written to meanwhile. */
__attribute__((no_sanitize("thread"))) static void copy_beside(volatile uint8_t *to, const volatile uint8_t *from,
                                                               size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = from[i];
}

static void run_one(struct stream *s)
{
    struct op op = s->ops[s->done++];
    switch (op.kind) {
    case LAUNCH:
        run(&op.launch);
        break;
    case COPY:
        if (op.snapshot && op.from != op.snapshot && memcmp(op.from, op.snapshot, op.bytes))
            abort(); /* it was used again before it was copied */
        copy_beside(op.to, op.from, op.bytes);
        free(op.snapshot);
        break;
    case RECORD:
        op.event->done = op.number > op.event->done ? op.number : op.event->done;
        break;
    case WAIT:
        run_to(op.event, op.number, op.recorder);
        break;
    }
}

static void run_all(struct stream *s)
{
    while (s->done < s->n)
        run_one(s);
    s->done = s->n = 0;
}

static leat_cu_result add(leat_cu_handle stream, struct op op)
{
    struct stream *s = stream_of(stream);
    pthread_mutex_lock(&work);
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->ops = realloc(s->ops, s->room * sizeof *s->ops);
    }
    if (op.kind == RECORD) {
        op.number = ++op.event->recorded;
        op.event->stream = s;
    } else if (op.kind == WAIT) {
        op.number = op.event->recorded;
        op.recorder = op.event->stream;
    }
    s->ops[s->n++] = op;
    if (!TOLD(later))
        run_all(s);
    pthread_mutex_unlock(&work);
    return 0;
}

leat_cu_result cuLaunchKernel(leat_cu_handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                              leat_cu_handle stream, void **arguments, void **extra)
{
    NEEDS_CONTEXT();
    struct launch l = {.variant = *(struct variant *)function, .blocks = grid_x, .threads = block_x};
    if (grid_y * grid_z * block_y * block_z != 1 || !grid_x || shared_bytes || extra)
        return LEAT_CU_INVALID_VALUE;
    memcpy(&l.args, arguments[0], kernels[l.variant.kernel].args);
    if (state.unshifted && !l.variant.kernel)
        l.args.shifted = 0;
    __atomic_fetch_add(&state.launched, 1, __ATOMIC_RELAXED);
    return add(stream, (struct op){.kind = LAUNCH, .launch = l});
}

leat_cu_result cuStreamCreate(leat_cu_handle *stream, unsigned flags)
{
    NEEDS_CONTEXT();
    struct stream *s = calloc(1, sizeof *s);
    pthread_mutex_lock(&work);
    s->next = streams;
    streams = s;
    __atomic_fetch_add(&state.objects, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&work);
    *stream = s;
    return 0;
}

leat_cu_result cuStreamDestroy_v2(leat_cu_handle stream)
{
    NEEDS_CONTEXT();
    struct stream *s = stream, **at = &streams;
    pthread_mutex_lock(&work);
    run_all(s);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    __atomic_fetch_sub(&state.objects, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&work);
    free(s->ops);
    free(s);
    return 0;
}

static _Thread_local int capture_mode;

leat_cu_result cuThreadExchangeStreamCaptureMode(int *mode)
{
    const int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return 0;
}

leat_cu_result cuStreamIsCapturing(leat_cu_handle stream, int *status)
{
    NEEDS_CONTEXT();
    *status = TOLD(captures);
    return 0;
}

leat_cu_result cuStreamSynchronize(leat_cu_handle stream)
{
    NEEDS_CONTEXT();
    pthread_mutex_lock(&work);
    run_all(stream_of(stream));
    pthread_mutex_unlock(&work);
    return 0;
}

leat_cu_result cuCtxSynchronize(void)
{
    NEEDS_CONTEXT();
    pthread_mutex_lock(&work);
    for (struct stream *s = streams; s; s = s->next)
        run_all(s);
    pthread_mutex_unlock(&work);
    return 0;
}

leat_cu_result cuStreamWaitEvent(leat_cu_handle stream, leat_cu_handle event, unsigned flags)
{
    NEEDS_CONTEXT();
    return add(stream, (struct op){.kind = WAIT, .event = event});
}

leat_cu_result cuEventCreate(leat_cu_handle *event, unsigned flags)
{
    NEEDS_CONTEXT();
    *event = calloc(1, sizeof(struct event));
    __atomic_fetch_add(&state.objects, 1, __ATOMIC_RELAXED);
    return 0;
}

leat_cu_result cuEventDestroy_v2(leat_cu_handle event)
{
    const leat_cu_result code = cuCtxSynchronize(); /* nobody waits for it any more */
    free(event);
    __atomic_fetch_sub(&state.objects, 1, __ATOMIC_RELAXED);
    return code;
}

leat_cu_result cuEventRecord(leat_cu_handle event, leat_cu_handle stream)
{
    NEEDS_CONTEXT();
    return add(stream, (struct op){.kind = RECORD, .event = event});
}

leat_cu_result cuEventQuery(leat_cu_handle event)
{
    NEEDS_CONTEXT();
    const struct event *e = event;
    pthread_mutex_lock(&work);
    const bool done = e->done == e->recorded;
    pthread_mutex_unlock(&work);
    return done ? 0 : LEAT_CU_NOT_READY;
}

leat_cu_result cuEventSynchronize(leat_cu_handle event)
{
    NEEDS_CONTEXT();
    struct event *e = event;
    usleep(1000 * (unsigned)TOLD(slow_ms));
    pthread_mutex_lock(&work);
    run_to(e, e->recorded, e->stream);
    pthread_mutex_unlock(&work);
    return 0;
}

leat_cu_result cuEventElapsedTime(float *ms, leat_cu_handle begin, leat_cu_handle end)
{
    NEEDS_CONTEXT();
    *ms = 0.5f;
    return 0;
}

/* ---- the card's memory ------------------------------------------------------------------------- */

struct block {
    uint8_t *begin;
    size_t bytes;
    int fd; /* memory that other processes can map; -1: such memory of another one */
    struct block *next;
};
static struct block *blocks;

/* Under `work`. */
static bool add_block(int fd, size_t bytes, bool own, leat_cu_memory *at)
{
    struct block *b = calloc(1, sizeof *b);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        free(b);
        return false;
    }
    *b = (struct block){p, bytes, own ? fd : -1, blocks};
    blocks = b;
    *at = (leat_cu_memory)(uintptr_t)p;
    return true;
}

static bool remove_block(leat_cu_memory at, bool own)
{
    for (struct stream *s = streams; s; s = s->next)
        run_all(s);
    struct block **p = &blocks, *b;
    while (*p && (leat_cu_memory)(uintptr_t)(*p)->begin != at)
        p = &(*p)->next;
    if (!(b = *p) || (b->fd >= 0) != own)
        return false;
    *p = b->next;
    if (own) {
        __atomic_fetch_sub(&state.allocated, b->bytes, __ATOMIC_SEQ_CST);
        close(b->fd);
    }
    munmap(b->begin, b->bytes);
    free(b);
    return true;
}

leat_cu_result cuMemAlloc_v2(leat_cu_memory *at, size_t bytes)
{
    NEEDS_CONTEXT();
    if (TOLD(captures) && capture_mode != LEAT_CU_CAPTURE_RELAXED)
        return 900; /* it would disturb the capture */
    if (TOLD(card_bytes) && TOLD(allocated) + bytes > TOLD(card_bytes))
        return LEAT_CU_OUT_OF_MEMORY;
    const int fd = memfd_create("card", MFD_CLOEXEC);
    pthread_mutex_lock(&work);
    const bool good = fd >= 0 && !ftruncate(fd, (off_t)bytes) && add_block(fd, bytes, true, at);
    __atomic_fetch_add(&state.allocated, good ? bytes : 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&work);
    if (good)
        memset((void *)(uintptr_t)*at, 0xee, bytes);
    return good ? 0 : LEAT_CU_OUT_OF_MEMORY;
}

/* ---- shared with other processes: a handle is a path of this one's descriptor ------------------- */

leat_cu_result cuIpcGetMemHandle(struct leat_cu_ipc *handle, leat_cu_memory at)
{
    NEEDS_CONTEXT();
    pthread_mutex_lock(&work);
    const struct block *b = blocks;
    while (b && (leat_cu_memory)(uintptr_t)b->begin != at)
        b = b->next;
    memset(handle, 0, sizeof *handle);
    if (b)
        snprintf(handle->bytes, sizeof handle->bytes, "/proc/%d/fd/%d", getpid(), b->fd);
    pthread_mutex_unlock(&work);
    return b ? 0 : LEAT_CU_INVALID_VALUE;
}

leat_cu_result cuIpcOpenMemHandle_v2(leat_cu_memory *at, struct leat_cu_ipc handle, unsigned flags)
{
    NEEDS_CONTEXT();
    struct stat st;
    int pid = 0;
    char path[sizeof handle.bytes + 1] = "";
    memcpy(path, handle.bytes, sizeof handle.bytes);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || sscanf(path, "/proc/%d/", &pid) != 1 || pid == getpid() || fstat(fd, &st)) {
        if (fd >= 0)
            close(fd);
        return LEAT_CU_INVALID_VALUE; /* drivers open no memory of their own process */
    }
    pthread_mutex_lock(&work);
    const bool good = add_block(fd, (size_t)st.st_size, false, at);
    pthread_mutex_unlock(&work);
    close(fd);
    state.opened += good;
    return good ? 0 : LEAT_CU_OUT_OF_MEMORY;
}

leat_cu_result cuIpcCloseMemHandle(leat_cu_memory at)
{
    NEEDS_CONTEXT();
    pthread_mutex_lock(&work);
    const bool good = remove_block(at, false);
    pthread_mutex_unlock(&work);
    state.opened -= good;
    return good ? 0 : LEAT_CU_INVALID_VALUE;
}

leat_cu_result cuMemFree_v2(leat_cu_memory at)
{
    NEEDS_CONTEXT();
    pthread_mutex_lock(&work);
    const bool good = remove_block(at, true);
    pthread_mutex_unlock(&work);
    return good ? 0 : LEAT_CU_INVALID_VALUE;
}

leat_cu_result cuMemGetAddressRange_v2(leat_cu_memory *begin, size_t *bytes, leat_cu_memory at)
{
    NEEDS_CONTEXT();
    pthread_mutex_lock(&work);
    const struct block *b = blocks;
    while (b && !(at >= (leat_cu_memory)(uintptr_t)b->begin && at < (leat_cu_memory)(uintptr_t)b->begin + b->bytes))
        b = b->next;
    *begin = b ? (leat_cu_memory)(uintptr_t)b->begin : 0;
    *bytes = b ? b->bytes : 0;
    pthread_mutex_unlock(&work);
    return b ? 0 : LEAT_CU_INVALID_VALUE;
}

/* Whether bytes lie in one block. */
static bool on_card(const uint8_t *p, size_t bytes)
{
    pthread_mutex_lock(&work);
    const struct block *b = blocks;
    while (b && !(p >= b->begin && p + bytes <= b->begin + b->bytes))
        b = b->next;
    pthread_mutex_unlock(&work);
    return b;
}

leat_cu_result cuMemcpyHtoDAsync_v2(leat_cu_memory to, const void *from, size_t bytes, leat_cu_handle stream)
{
    NEEDS_CONTEXT();
    struct op op = {.kind = COPY, .to = (void *)(uintptr_t)to, .from = (void *)(uintptr_t)from, .bytes = bytes};
    pthread_mutex_lock(&lock);
    const struct range *range = range_of(from, bytes);
    const bool whole =
        range && (const uint8_t *)from >= range->begin && (const uint8_t *)from + bytes <= range->begin + range->bytes;
    const bool allocated = range && range->allocated;
    pthread_mutex_unlock(&lock);
    if ((range && !whole) || !on_card(op.to, bytes)) /* a driver refuses copies over the border of what is pinned */
        return LEAT_CU_INVALID_VALUE;
    if (!range || allocated) {
        op.snapshot = malloc(bytes + 1);
        memcpy(op.snapshot, from, bytes);
    }
    if (!range) { /* memory that is not pinned is read at once */
        __atomic_fetch_add(&state.unpinned_bytes, bytes, __ATOMIC_RELAXED);
        op.from = op.snapshot;
    }
    __atomic_fetch_add(&state.copied_bytes, bytes, __ATOMIC_RELAXED);
    return add(stream, op);
}

leat_cu_result cuMemcpyDtoDAsync_v2(leat_cu_memory to, leat_cu_memory from, size_t bytes, leat_cu_handle stream)
{
    NEEDS_CONTEXT();
    if (!on_card((void *)(uintptr_t)from, bytes) || !on_card((void *)(uintptr_t)to, bytes))
        return LEAT_CU_INVALID_VALUE;
    return add(stream,
               (struct op){.kind = COPY, .to = (void *)(uintptr_t)to, .from = (void *)(uintptr_t)from, .bytes = bytes});
}

leat_cu_result cuMemcpyDtoHAsync_v2(void *to, leat_cu_memory from, size_t bytes, leat_cu_handle stream)
{
    NEEDS_CONTEXT();
    if (!on_card((void *)(uintptr_t)from, bytes))
        return LEAT_CU_INVALID_VALUE;
    return add(stream, (struct op){.kind = COPY, .to = to, .from = (void *)(uintptr_t)from, .bytes = bytes});
}

/* ---- NVRTC ------------------------------------------------------------------------------------- */

int nvrtcCreateProgram(void **program, const char *text, const char *name, int n_headers, const char *const *headers,
                       const char *const *names);
int nvrtcCreateProgram(void **program, const char *text, const char *name, int n_headers, const char *const *headers,
                       const char *const *names)
{
    MAY_FAIL();
    u32 k = 0;
    char function[64];
    for (; k < KERNELS; k++) {
        snprintf(function, sizeof function, "%s(", kernels[k].function);
        if (strstr(text, function))
            break;
    }
    if (k == KERNELS || n_headers < 2 || !strstr(headers[0], "KERNEL_FUNCTION"))
        return 5;
    struct variant *made = *program = calloc(1, sizeof *made);
    made->kernel = k;
    return 0;
}

int nvrtcDestroyProgram(void **program);
int nvrtcDestroyProgram(void **program)
{
    free(*program);
    return 0;
}

int nvrtcCompileProgram(void *program, int n, const char *const *options);
int nvrtcCompileProgram(void *program, int n, const char *const *options)
{
    struct variant *v = program;
    char architecture[64];
    MAY_FAIL();
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%d", state.architecture <= 90 ? "sm" : "compute",
             state.architecture <= 90 ? state.architecture : 90);
    if (n < 1 || strcmp(options[0], architecture))
        return 5;
    strcpy(v->magic, "variant");
    state.compiled++;
    const char *const *names = kernels[v->kernel].defines;
    for (int i = 0; i < 4 && names[i]; i++) {
        char form[64];
        snprintf(form, sizeof form, "-DLEAT_%s=%%u", names[i]);
        if (i + 1 >= n || sscanf(options[i + 1], form, &v->values[i]) != 1)
            return 5;
    }
    return 0;
}

const char *nvrtcGetErrorString(int code);
const char *nvrtcGetErrorString(int code)
{
    return "an error of the stand-in";
}

int nvrtcGetNumSupportedArchs(int *n);
int nvrtcGetNumSupportedArchs(int *n)
{
    *n = 3;
    return 0;
}

int nvrtcGetSupportedArchs(int *known);
int nvrtcGetSupportedArchs(int *known)
{
    known[0] = 80;
    known[1] = 86;
    known[2] = 90;
    return 0;
}

int nvrtcGetProgramLogSize(void *program, size_t *bytes);
int nvrtcGetProgramLogSize(void *program, size_t *bytes)
{
    *bytes = 9;
    return 0;
}

int nvrtcGetProgramLog(void *program, char *log);
int nvrtcGetProgramLog(void *program, char *log)
{
    strcpy(log, "line one");
    return 0;
}

#define SIZE_AND_CODE(NAME)                                                                                            \
    int NAME##Size(void *program, size_t *bytes);                                                                      \
    int NAME##Size(void *program, size_t *bytes)                                                                       \
    {                                                                                                                  \
        *bytes = sizeof(struct variant);                                                                               \
        return 0;                                                                                                      \
    }                                                                                                                  \
    int NAME(void *program, char *code);                                                                               \
    int NAME(void *program, char *code)                                                                                \
    {                                                                                                                  \
        memcpy(code, program, sizeof(struct variant));                                                                 \
        return 0;                                                                                                      \
    }
SIZE_AND_CODE(nvrtcGetCUBIN)
SIZE_AND_CODE(nvrtcGetPTX)
