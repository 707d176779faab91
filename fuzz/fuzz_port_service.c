/*
 * Any conversation with a port: messages, texts, descriptors and words in the shared channel, from one or two consumers
 * that then leave. Whatever they do, a reader beside them gets its batch with the right bytes, and nothing of theirs
 * stays.
 *
 * The input is a list of steps: a byte that selects the step and its actor, and then the step's data.
 */
#include <poll.h>
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

/* within a text of JSON */
#define PROGRAM "{\\\"operators\\\": {}, \\\"outputs\\\": {\\\"z\\\": {\\\"field\\\": \\\"x\\\", \\\"chain\\\": []}}}"

enum { SAMPLES = 50, BATCH = 8, CONSUMERS = 2, ANSWER_MS = 20, GONE_TRIES = 20000 };

struct consumer {
    int socket, wake;
    struct leat_channel *channel; /* NULL: it is not attached */
};

struct input {
    const uint8_t *at, *end;
};

static char folder[64];
static int64_t numbers[SAMPLES];
static struct leat_attached *reader;
static struct leat_port *port;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the port, and a reader of it ------------------------------------------------------------ */

static void open_port(void)
{
    static const struct leat_field field = {.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64};
    const struct leat_array array = {.data = numbers, .stride_bytes = sizeof *numbers};
    struct leat_loader_options options = LEAT_LOADER_OPTIONS_INIT;
    struct leat_port_options where = LEAT_PORT_OPTIONS_INIT;
    struct leat_attach_options attaching = LEAT_ATTACH_OPTIONS_INIT;
    struct leat_dataset *dataset;
    struct leat_loader *loader;
    struct leat_error error;
    snprintf(folder, sizeof folder, "/tmp/leat-fuzz-XXXXXX");
    FUZZ_ASSERT(mkdtemp(folder));
    for (int64_t i = 0; i < SAMPLES; i++)
        numbers[i] = 1000 + i;
    FUZZ_ASSERT(!leat_dataset_from_arrays(&field, &array, 1, SAMPLES, NULL, NULL, NULL, &dataset, &error));
    options.batch_size = BATCH;
    options.order = LEAT_ORDER_SHUFFLED;
    options.num_threads = 1;
    options.region = 1;
    options.budget_bytes = 1 << 20;
    options.max_held_bytes = 4 << 20;
    FUZZ_ASSERT(!leat_loader_open(dataset, &options, &loader, &error));
    where.name = attaching.name = "p";
    where.folder = attaching.folder = folder;
    FUZZ_ASSERT(!leat_port_open(loader, &where, &port, &error) && !leat_attach(&attaching, &reader, &error));
}

static void close_port(void)
{
    leat_attached_close(reader);
    leat_port_close(port);
    rmdir(folder);
}

static void read_batch(uint64_t step)
{
    struct leat_batch *batch;
    struct leat_tensor x;
    struct leat_error error;
    FUZZ_ASSERT(!leat_attached_batch_at(reader, 1, step, &batch, &error) && !leat_batch_tensor(batch, 0, &x));
    for (uint64_t row = 0; row < leat_batch_rows(batch); row++)
        FUZZ_ASSERT(((const int64_t *)x.data)[row] == numbers[leat_batch_ids(batch)[row]]);
    leat_batch_free(batch);
}

/* Consumers that have left are taken out, except the reader. */
static void wait_until_gone(void)
{
    for (int tries = 0; tries < GONE_TRIES; tries++) {
        char *text;
        struct leat_error error;
        size_t n = 0;
        FUZZ_ASSERT(!leat_port_stat(port, &text, &error));
        for (const char *c = text; (c = strstr(c, "\"batch_size\"")); c++)
            n++;
        leat_free(text);
        if (n <= 2) /* of the port, and of the reader */
            return;
        usleep(100);
    }
    abort();
}

/* ---- the steps of a consumer ----------------------------------------------------------------- */

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

static size_t take(struct input *in, uint8_t *to, size_t most)
{
    size_t n = (size_t)byte(in) * 4, left = (size_t)(in->end - in->at);
    n = n < left ? n : left;
    n = n < most ? n : most;
    memcpy(to, in->at, n);
    in->at += n;
    return n;
}

static void connect_to(struct consumer *c)
{
    struct leat_error error;
    c->wake = -1;
    FUZZ_ASSERT(!leat_place_connect(folder, "p", &c->socket, &error));
}

/* Takes the messages that have come, after a short wait: with a WELCOME the channel. */
static void listen_to(struct consumer *c)
{
    static struct leat_message m;
    struct leat_error error;
    if (leat_message_wait(c->socket, ANSWER_MS, &m, &error))
        return;
    if (m.head.type == LEAT_MESSAGE_WELCOME && !c->channel && m.fds[LEAT_FD_WAKE] >= 0) {
        FUZZ_ASSERT(!leat_channel_map(m.fds[LEAT_FD_CHANNEL], &c->channel, &error));
        c->wake = dup(m.fds[LEAT_FD_WAKE]);
    }
    leat_message_close(&m);
}

static void hello(struct consumer *c, struct input *in)
{
    static const char *const extras[] = {
        "",
        ", \"key\": 3",
        ", \"outputs\": \"" PROGRAM "\"",
        ", \"outputs\": \"{\"",
        ", \"samples\": 4, \"seed\": \"1f\", \"epoch\": 0, \"ordered\": false",
        ", \"samples\": 2, \"seed\": \"1f\", \"epoch\": 1, \"ordered\": true",
        ", \"samples\": 1000000, \"seed\": \"1f\", \"epoch\": 0, \"ordered\": false",
    };
    char text[1024];
    struct leat_error error;
    const char *extra = extras[byte(in) % (sizeof extras / sizeof *extras)];
    const uint64_t rows = number(in), rank = number(in), world = number(in);
    int64_t ids[4];
    int fd = -1;
    for (int i = 0; i < 4; i++)
        ids[i] = (int64_t)number(in);
    const int n = snprintf(text, sizeof text,
                           "{\"want\": \"attach\", \"batch_size\": %llu, \"rank\": %llu, \"world_size\": %llu, "
                           "\"waits\": %s, \"label\": \"f\"%s}",
                           (unsigned long long)rows, (unsigned long long)rank, (unsigned long long)world,
                           rows & 1 ? "true" : "false", extra);
    if (strstr(extra, "samples"))
        FUZZ_ASSERT(!leat_message_seal(ids, sizeof ids, &fd, &error));
    leat_message_send(c->socket, LEAT_MESSAGE_HELLO, 1, text, (size_t)n, &fd, fd >= 0, &error);
    if (fd >= 0)
        close(fd);
    listen_to(c);
}

static void ask(struct consumer *c, struct input *in)
{
    static const enum leat_message_type types[] = {LEAT_MESSAGE_SEEK, LEAT_MESSAGE_ROWS, LEAT_MESSAGE_IDS,
                                                   LEAT_MESSAGE_MAKE, LEAT_MESSAGE_END,  LEAT_MESSAGE_ORDER};
    static const size_t sizes[] = {sizeof(struct leat_ask_seek),
                                   sizeof(struct leat_ask_rows),
                                   sizeof(struct leat_ask_batch),
                                   sizeof(struct leat_ask_batch),
                                   0,
                                   sizeof(struct leat_ask_rows)};
    const size_t which = byte(in) % (sizeof types / sizeof *types);
    uint64_t words[sizeof(struct leat_ask_batch) / 8];
    struct leat_error error;
    for (size_t i = 0; i < sizes[which] / 8; i++)
        words[i] = number(in);
    leat_message_send(c->socket, types[which], 2, words, sizes[which], NULL, 0, &error);
    if (byte(in) % 2)
        listen_to(c);
}

/* Any bytes: as a packet, behind a good head, or as the words that a consumer writes in its channel. */
static void any_bytes(struct consumer *c, struct input *in, uint8_t how)
{
    uint8_t bytes[1024];
    struct leat_error error;
    const uint8_t more = byte(in);
    const size_t n = take(in, bytes, sizeof bytes);
    int fds[LEAT_MESSAGE_FDS];
    if (how == 0) {
        if (send(c->socket, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return;
    } else if (how == 1) {
        for (int i = 0; i < LEAT_MESSAGE_FDS; i++)
            fds[i] = c->socket;
        leat_message_send(c->socket, (enum leat_message_type)(more % 12), more, bytes, n, fds,
                          more % (LEAT_MESSAGE_FDS + 1), &error);
    } else if (c->channel) {
        const size_t from = offsetof(struct leat_channel, n_returned) + (size_t)more * 8;
        if (from + n <= sizeof *c->channel)
            memcpy((uint8_t *)c->channel + from, bytes, n);
        if (write(c->wake, &(uint64_t){1}, sizeof(uint64_t)) < 0)
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct consumer consumers[CONSUMERS] = {{0}};
    if (!port) {
        open_port();
        atexit(close_port);
    }
    for (int i = 0; i < CONSUMERS; i++)
        connect_to(&consumers[i]);
    for (int steps = 0; in.at < in.end && steps < 64; steps++) {
        const uint8_t what = byte(&in);
        struct consumer *c = &consumers[what >> 7];
        switch (what % 8) {
        case 0:
        case 1:
            hello(c, &in);
            break;
        case 2:
        case 3:
        case 4:
            ask(c, &in);
            break;
        default:
            any_bytes(c, &in, what % 8 - 5);
        }
    }
    read_batch(size % (SAMPLES / BATCH));
    for (int i = 0; i < CONSUMERS; i++) {
        close(consumers[i].socket);
        if (consumers[i].wake >= 0)
            close(consumers[i].wake);
        leat_channel_unmap(consumers[i].channel);
    }
    wait_until_gone();
    read_batch(0);
    return 0;
}
