/*
 * Any port: its answers, the descriptors that it sends, its writes into the channel and into the memory of batches. A
 * reader attaches to it, reads, plans, saves and closes. Its batches lie in memory that it has, whatever messages it
 * gets, and it leaves nothing open when it is closed.
 *
 * The valid messages of a port were recorded from a real one. The input is the reader's steps, and then, for each
 * question of the reader, a byte that selects the answer, and the answer's data.
 */
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "leat/leat.h"
#include "port/channel.h"
#include "port/folder.h"
#include "port/message.h"

#define FUZZ_ASSERT(what)                                                                                              \
    do {                                                                                                               \
        if (!(what))                                                                                                   \
            abort();                                                                                                   \
    } while (0)

enum { SAMPLES = 50, BATCH = 8, BATCHES = 7, WAIT_MS = 3, READS = 6, MOST_ANSWERS = 64 };

/* The form of an answer: the lowest bits, and further effects. */
enum { RIGHT, PATCHED = 3, OTHER_BODY, OTHER_TYPE, ANY_PACKET, HANG_UP, HOW = 7 };
enum { CHANGE_MEMORY = 8, CHANGE_CHANNEL = 16, CHANGE_FDS = 32, CHANGE_NUMBER = 64 };

struct input {
    const uint8_t *at, *end;
};

/* The messages and loans of a port. */
static struct {
    char welcome[LEAT_MESSAGE_MOST], faces[LEAT_MESSAGE_MOST];
    size_t welcome_bytes, faces_bytes;
    uint64_t epoch, memory_bytes, used;
    uint8_t *memory;
    struct leat_given given[BATCHES];
} said;

static char folder[64];
static struct leat_place place;
static uint8_t *memory; /* the loan of a reader; */
static int memory_fd;

/* The port of one input. */
struct false_port {
    struct input in;
    int stop[2], connection, wake;
    struct leat_channel *channel;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- valid input ----------------------------------------------------------------------------- */

static struct leat_loader *open_loader(void)
{
    static const struct leat_field fields[] = {
        {.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64},
        {.name = "y", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I32, .ndim = 1, .shape = {-1}}};
    static int64_t numbers[SAMPLES], offsets[SAMPLES + 1];
    static int32_t values[4 * SAMPLES];
    const struct leat_array arrays[] = {{.data = numbers, .stride_bytes = sizeof *numbers},
                                        {.data = values, .offsets = offsets, .offset_bytes = sizeof *offsets}};
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    struct leat_dataset *dataset;
    struct leat_loader *loader;
    struct leat_error error;
    for (int64_t i = 0; i < SAMPLES; i++) {
        numbers[i] = 1000 + i;
        offsets[i + 1] = offsets[i] + i % 4;
    }
    FUZZ_ASSERT(!leat_dataset_from_arrays(fields, arrays, 2, SAMPLES, NULL, NULL, NULL, &dataset, &error));
    options.batch_size = BATCH;
    options.num_threads = 1;
    options.region = 1;
    options.budget_bytes = 1 << 20;
    options.max_held_bytes = 4 << 20;
    FUZZ_ASSERT(!leat_loader_open(dataset, &options, &loader, &error));
    return loader;
}

static void expect(int socket, struct leat_message *m)
{
    struct leat_error error;
    FUZZ_ASSERT(!leat_message_wait(socket, 5000, m, &error) && m->head.type != LEAT_MESSAGE_FAILED);
}

static void keep_memory(int fd)
{
    const off_t bytes = lseek(fd, 0, SEEK_END);
    FUZZ_ASSERT(bytes > 0);
    said.memory_bytes = (uint64_t)bytes;
    const uint8_t *all = mmap(NULL, said.memory_bytes, PROT_READ, MAP_SHARED, fd, 0);
    FUZZ_ASSERT(all != MAP_FAILED);
    for (uint64_t i = 0; i < said.memory_bytes; i++)
        if (all[i])
            said.used = i + 1;
    said.memory = malloc(said.used);
    FUZZ_ASSERT(said.memory);
    memcpy(said.memory, all, said.used);
    munmap((void *)(uintptr_t)all, said.memory_bytes);
}

static void record(void)
{
    static const char hello[] = "{\"want\": \"attach\", \"batch_size\": 8, \"rank\": 0, \"world_size\": 1, "
                                "\"waits\": false, \"label\": \"f\"}";
    static struct leat_message m;
    struct leat_port_options where = LEAT_PORT_OPTIONS_INIT;
    struct leat_port *port;
    struct leat_channel *channel;
    struct leat_error error;
    int socket, fd;
    where.name = "p";
    where.folder = folder;
    FUZZ_ASSERT(!leat_port_open(open_loader(), &where, &port, &error));
    FUZZ_ASSERT(!leat_place_connect(folder, "p", &socket, &error));
    FUZZ_ASSERT(!leat_message_send(socket, LEAT_MESSAGE_HELLO, 1, hello, sizeof hello - 1, NULL, 0, &error));
    expect(socket, &m);
    said.welcome_bytes = m.head.bytes;
    memcpy(said.welcome, m.body, m.head.bytes);
    json_t *welcome = json_loadb(m.body, m.head.bytes, 0, NULL);
    said.epoch = (uint64_t)json_integer_value(json_object_get(welcome, "epoch"));
    json_decref(welcome);
    FUZZ_ASSERT((fd = dup(m.fds[LEAT_FD_MEMORY])) >= 0);
    FUZZ_ASSERT(!leat_channel_map(m.fds[LEAT_FD_CHANNEL], &channel, &error));
    leat_message_close(&m);
    expect(socket, &m);
    said.faces_bytes = m.head.bytes;
    memcpy(said.faces, m.body, m.head.bytes);
    const struct leat_ask_seek seek = {.epoch = said.epoch, .stream = 1};
    FUZZ_ASSERT(!leat_message_send(socket, LEAT_MESSAGE_SEEK, 2, &seek, sizeof seek, NULL, 0, &error));
    expect(socket, &m);
    for (uint32_t n; (n = atomic_load(&channel->n_given)) < BATCHES;)
        leat_channel_wait(channel, n, 100000000);
    memcpy(said.given, channel->given, sizeof said.given);
    keep_memory(fd);
    close(fd);
    leat_channel_unmap(channel);
    close(socket);
    leat_port_close(port);
}

/* ---- the false port -------------------------------------------------------------------------- */

static uint8_t byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* Mostly small, now and then absurd. */
static uint64_t number(struct input *in)
{
    const uint8_t b = byte(in);
    return b < 200 ? b : b < 250 ? UINT64_C(1) << (b - 200) : UINT64_MAX - (b - 250);
}

/* Overwrites words there with words of the input; with bytes if less than a word is left. */
static void patch(struct input *in, uint8_t *at, size_t bytes)
{
    const size_t from = (size_t)byte(in) * 4;
    const uint8_t kind = byte(in);
    const uint64_t word = number(in);
    if (from < bytes)
        memcpy(at + from, &word, bytes - from < sizeof word || kind % 2 ? 1 : sizeof word);
}

static void change_memory(struct false_port *p)
{
    const struct leat_given *g = &said.given[byte(&p->in) % BATCHES];
    patch(&p->in, memory + g->offset, g->bytes < 1024 ? g->bytes : 1024);
    if (byte(&p->in) % 2) { /* the offsets of ragged outputs */
        uint64_t offset;
        memcpy(&offset, memory + g->offset + 128 + 8, sizeof offset);
        if (offset < said.memory_bytes - 256)
            patch(&p->in, memory + offset, 256);
    }
}

static void change_channel(struct false_port *p)
{
    if (p->channel)
        patch(&p->in, (uint8_t *)p->channel, sizeof *p->channel);
}

static void answer(struct false_port *p, uint8_t how, enum leat_message_type type, uint32_t number_of, const void *body,
                   size_t bytes, const int *fds, size_t n_fds)
{
    static uint8_t to[LEAT_MESSAGE_MOST];
    struct leat_error error;
    memcpy(to, body, bytes);
    if ((how & HOW) == PATCHED) {
        for (int n = byte(&p->in) % 4; n >= 0; n--)
            patch(&p->in, to, bytes);
    } else if ((how & HOW) == OTHER_BODY) {
        bytes = byte(&p->in);
        for (size_t i = 0; i < bytes; i++)
            to[i] = byte(&p->in);
    } else if ((how & HOW) == OTHER_TYPE)
        type = (enum leat_message_type)(byte(&p->in) % 12);
    if (how & CHANGE_NUMBER)
        number_of = (uint32_t)number(&p->in);
    if ((how & HOW) != ANY_PACKET)
        leat_message_send(p->connection, type, number_of, to, bytes, fds, n_fds, &error);
    else if (send(p->connection, to, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;
}

static void welcome(struct false_port *p, uint8_t how, uint32_t number_of)
{
    struct leat_error error;
    int channel_fd, other = -1;
    size_t n = 3;
    leat_channel_unmap(p->channel);
    FUZZ_ASSERT(!leat_channel_new(&p->channel, &channel_fd, &error));
    atomic_store(&p->channel->credit, 32);
    int fds[] = {memory_fd, channel_fd, p->wake};
    if (how & CHANGE_FDS) {
        const uint8_t what = byte(&p->in);
        const uint64_t bytes = number(&p->in);
        n = what % 4;
        other = memfd_create("f", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        FUZZ_ASSERT(other >= 0);
        if (ftruncate(other, bytes < (1 << 20) ? (off_t)bytes : 0) || (what & 8))
            fcntl(other, F_ADD_SEALS, F_SEAL_SHRINK);
        fds[(what >> 4) % 3] = what & 4 ? p->connection : other;
    }
    answer(p, how, LEAT_MESSAGE_WELCOME, number_of, said.welcome, said.welcome_bytes, fds, n);
    const uint8_t then = byte(&p->in);
    if ((then & HOW) != HANG_UP)
        answer(p, then, LEAT_MESSAGE_REPLY, number_of, said.faces, said.faces_bytes, NULL, 0);
    close(channel_fd);
    if (other >= 0)
        close(other);
}

static void seek(struct false_port *p, uint8_t how, const struct leat_message *m)
{
    struct leat_ask_seek what = {0};
    const struct leat_reply_rows rows = {SAMPLES};
    memcpy(&what, m->body, m->head.bytes < sizeof what ? m->head.bytes : sizeof what);
    answer(p, how, LEAT_MESSAGE_REPLY, m->head.number, &rows, sizeof rows, NULL, 0);
    for (uint64_t i = what.row / BATCH; p->channel && i < BATCHES; i++) {
        struct leat_given given = said.given[i];
        given.stream = what.stream;
        leat_channel_give(p->channel, &given);
    }
}

static void make(struct false_port *p, uint8_t how, const struct leat_message *m)
{
    struct leat_ask_batch what = {0};
    memcpy(&what, m->body, m->head.bytes < sizeof what ? m->head.bytes : sizeof what);
    const struct leat_given *given = &said.given[what.begin / BATCH % BATCHES];
    answer(p, how, LEAT_MESSAGE_REPLY, m->head.number, given, sizeof *given, NULL, 0);
}

/* False: it ends the connection. */
static bool serve(struct false_port *p, const struct leat_message *m)
{
    static const uint8_t ids[8 * LEAT_MOST_IDS];
    const struct leat_reply_rows rows = {SAMPLES};
    const uint8_t how = byte(&p->in);
    struct leat_ask_batch what = {0};
    if (how & CHANGE_MEMORY)
        change_memory(p);
    if ((how & HOW) == HANG_UP)
        return false;
    switch (m->head.type) {
    case LEAT_MESSAGE_HELLO:
        welcome(p, how, m->head.number);
        break;
    case LEAT_MESSAGE_SEEK:
        seek(p, how, m);
        break;
    case LEAT_MESSAGE_MAKE:
        make(p, how, m);
        break;
    case LEAT_MESSAGE_IDS:
        memcpy(&what, m->body, m->head.bytes < sizeof what ? m->head.bytes : sizeof what);
        answer(p, how, LEAT_MESSAGE_REPLY, m->head.number, ids, 8 * what.n < sizeof ids ? 8 * what.n : sizeof ids, NULL,
               0);
        break;
    case LEAT_MESSAGE_END:
        answer(p, how, LEAT_MESSAGE_REPLY, m->head.number, "", 0, NULL, 0);
        break;
    default:
        answer(p, how, LEAT_MESSAGE_REPLY, m->head.number, &rows, sizeof rows, NULL, 0);
    }
    if (how & CHANGE_CHANNEL)
        change_channel(p);
    return true;
}

/* Serves one connection after the other; one that is silent for a while it ends, as it does if the input is used up. */
static void *run_port(void *of)
{
    static struct leat_message m;
    struct false_port *p = of;
    struct leat_error error;
    int answers = 0;
    for (;;) {
        struct pollfd polled[] = {{.fd = p->stop[0], .events = POLLIN}, {.fd = place.socket, .events = POLLIN}};
        FUZZ_ASSERT(poll(polled, 2, -1) > 0);
        if (polled[0].revents)
            return NULL;
        p->connection = accept4(place.socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        FUZZ_ASSERT(p->connection >= 0);
        while (p->in.at < p->in.end && answers++ < MOST_ANSWERS &&
               !leat_message_wait(p->connection, WAIT_MS, &m, &error)) {
            const bool more = serve(p, &m);
            leat_message_close(&m);
            if (!more)
                break;
        }
        shutdown(p->connection, SHUT_RDWR); /* the reader may have been sent it, too */
        close(p->connection);
    }
}

/* ---- the reader ------------------------------------------------------------------------------ */

static volatile uint8_t sum;

static void touch(const void *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        sum ^= ((const uint8_t *)from)[i];
}

static void look_at(struct leat_batch *batch)
{
    struct leat_tensor t;
    const int64_t rows = (int64_t)leat_batch_rows(batch);
    touch(leat_batch_ids(batch), 8 * rows);
    for (size_t o = 0; o < leat_batch_outputs(batch); o++) {
        if (leat_batch_tensor(batch, o, &t))
            continue;
        if (!t.offsets)
            touch(t.data, 8 * rows);
        else
            for (int64_t row = 0; row < rows; row++)
                touch((const int32_t *)t.data + t.offsets[row], 4 * (t.offsets[row + 1] - t.offsets[row]));
    }
    leat_batch_free(batch);
}

static void use(struct leat_attached *reader, struct input *in)
{
    struct leat_batch *batch;
    struct leat_error error;
    uint64_t iteration, n;
    int64_t *ids;
    bool dropped;
    char *text;
    const uint8_t what = byte(in);
    if (what & 1 && !leat_attached_plan(reader, said.epoch, number(in), &ids, &n, &error)) {
        touch(ids, (int64_t)(8 * n));
        leat_free(ids);
    }
    if (what & 2 && !leat_attached_batch_at(reader, said.epoch, number(in), &batch, &error))
        look_at(batch);
    if (what & 4)
        leat_consumer_steps(leat_attached_consumer(reader), &n, &error);
    if (!leat_consumer_start(leat_attached_consumer(reader), &iteration, &error))
        for (int i = 0; i < READS; i++)
            if (!leat_consumer_next(leat_attached_consumer(reader), iteration, 2 * WAIT_MS, &batch, &error))
                look_at(batch);
    if (what & 8 && !leat_consumer_state(leat_attached_consumer(reader), &text, &error)) {
        leat_consumer_load_state(leat_attached_consumer(reader), text, &error);
        leat_free(text);
    }
    if (what & 16)
        leat_consumer_set_epoch(leat_attached_consumer(reader), number(in), &dropped, &error);
    if (!leat_attached_stats(reader, &text, &error))
        leat_free(text);
}

static void read_from(struct false_port *p, struct input *in)
{
    static const int64_t samples[] = {3, 1, 4, 15, 9, 2, 6};
    struct leat_attach_options options = LEAT_ATTACH_OPTIONS_INIT;
    struct leat_attached *reader;
    struct leat_error error;
    pthread_t thread;
    const uint8_t flags = byte(in);
    options.name = "p";
    options.folder = folder;
    options.batch_size = byte(in) % (2 * BATCH + 1);
    options.world_size = flags & 1 ? 2 : 1;
    options.beginning = flags & 2;
    options.writable = flags & 4;
    options.lag = flags & 8 ? LEAT_LAG_WAIT : LEAT_LAG_RECOMPUTE;
    options.key = flags & 16 ? 7 : 0;
    if (flags & 32) {
        options.world_size = 1;
        options.samples = samples;
        options.n_samples = sizeof samples / sizeof *samples;
    }
    struct input own = {in->at, in->end};
    p->in = (struct input){in->at + (in->end - in->at > 4 ? 4 : in->end - in->at), in->end};
    FUZZ_ASSERT(!pthread_create(&thread, NULL, run_port, p));
    if (!leat_attach(&options, &reader, &error)) {
        use(reader, &own);
        leat_attached_close(reader);
    }
    FUZZ_ASSERT(write(p->stop[1], "", 1) == 1);
    pthread_join(thread, NULL);
}

/* ---- one input ------------------------------------------------------------------------------- */

static void open_place(void)
{
    struct leat_error error;
    snprintf(folder, sizeof folder, "/tmp/leat-fuzz-XXXXXX");
    FUZZ_ASSERT(mkdtemp(folder));
    record();
    FUZZ_ASSERT(!leat_place_take(folder, "p", (gid_t)-1, &place, &error));
    memory_fd = memfd_create("f", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    FUZZ_ASSERT(memory_fd >= 0 && !ftruncate(memory_fd, (off_t)said.memory_bytes) &&
                !fcntl(memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
    memory = mmap(NULL, said.memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    FUZZ_ASSERT(memory != MAP_FAILED);
}

static void close_place(void)
{
    leat_place_leave(&place);
    rmdir(folder);
}

static int lowest_free(void)
{
    const int fd = dup(memory_fd);
    FUZZ_ASSERT(fd >= 0 && !close(fd));
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct false_port port = {.connection = -1};
    if (!memory) {
        open_place();
        atexit(close_place);
    }
    memcpy(memory, said.memory, said.used);
    const int lowest = lowest_free();
    int wake[2];
    FUZZ_ASSERT(!pipe2(port.stop, O_CLOEXEC) && !pipe2(wake, O_CLOEXEC | O_NONBLOCK));
    port.wake = wake[1];
    read_from(&port, &in);
    leat_channel_unmap(port.channel);
    for (int i = 0; i < 2; i++) {
        close(port.stop[i]);
        close(wake[i]);
    }
    FUZZ_ASSERT(lowest_free() == lowest); /* nothing stays open */
    return 0;
}
