/* Writes the seeds of fuzz_port_message, fuzz_port_service and fuzz_port_reader: seed_port FOLDER. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "op/program.h"
#include "port/message.h"
#include "port/published.h"

static const char *root;

static FILE *begin(const char *target, const char *name, char path[4096])
{
    snprintf(path, 4096, "%s/%s", root, target);
    mkdir(path, 0777);
    snprintf(path, 4096, "%s/%s/%s", root, target, name);
    return fopen(path, "wb");
}

static void keep(const char *name, char what, const void *head, size_t head_bytes, const void *bytes, size_t n)
{
    char path[4096];
    FILE *out = begin("fuzz_port_message", name, path);
    if (!out || fputc(what, out) == EOF || fwrite(head, 1, head_bytes, out) != head_bytes ||
        fwrite(bytes, 1, n, out) != n || fclose(out)) {
        perror(path);
        exit(1);
    }
}

/* The steps of a consumer, as fuzz_port_service has them: HELLO is 0 with which of its extras, rows, rank, world size
 * and four ids; a question is 2 with which one, its words, and whether it waits for the answer. */
static void steps(const char *target, const char *name, const void *bytes, size_t n)
{
    char path[4096];
    FILE *out = begin(target, name, path);
    if (!out || fwrite(bytes, 1, n, out) != n || fclose(out)) {
        perror(path);
        exit(1);
    }
}

static void conversations(void)
{
    enum { ALONE = 0, KEY, PROGRAM, SAMPLES = 4, ORDERED };
    static const uint8_t reads[] = {0, ALONE, 8, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 1, 1, 2, 1, 0, 1};
    static const uint8_t makes[] = {0, KEY, 4, 1, 2, 0, 0, 0, 0, 2, 3, 0, 0, 0, 8, 4, 4, 0, 0, 1};
    static const uint8_t both[] = {0, PROGRAM, 8, 0,   1, 0, 0, 0, 0, 128, PROGRAM, 16, 0, 1, 0,
                                   0, 0,       0, 130, 2, 0, 0, 0, 8, 0,   8,       0,  8, 1};
    static const uint8_t own[] = {0, SAMPLES, 2, 0, 1, 7, 5, 9, 1, 2, 5, 0, 1, 2, 0, 0, 0, 1, 1};
    static const uint8_t ordered[] = {0, ORDERED, 2, 0, 1, 3, 4, 4, 3, 2, 5, 1, 1, 2, 5, 2, 1};
    static const uint8_t channel[] = {0, ALONE, 8, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 1, 1, 7, 0, 1, 9, 0, 0, 0};
    steps("fuzz_port_service", "reads", reads, sizeof reads);
    steps("fuzz_port_service", "makes", makes, sizeof makes);
    steps("fuzz_port_service", "both", both, sizeof both);
    steps("fuzz_port_service", "own", own, sizeof own);
    steps("fuzz_port_service", "ordered", ordered, sizeof ordered);
    steps("fuzz_port_service", "channel", channel, sizeof channel);
}

/* The steps of a reader, and the answers, as fuzz_port_reader has them: flags, rows, its questions and their steps;
 * then a byte for each answer. */
static void answers(void)
{
    enum { WORLD = 1, BEGINNING = 2, WRITABLE = 4, WAITS = 8, KEY = 16, SAMPLES = 32 };
    enum { PATCHED = 3, TYPE = 5, PACKET, MEMORY = 8, CHANNEL = 16, FDS = 32, NUMBER = 64 };
    static const uint8_t alike[] = {BEGINNING, 8, 31, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t copies[] = {WRITABLE | WAITS, 5, 31, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t ranks[] = {WORLD, 4, 31, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t own[] = {SAMPLES, 3, 31, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t patched[] = {KEY, 8, 3, 1, 1, 0, 0, PATCHED, 1, 2, 0, 3, 4, 0, 9, MEMORY, 1, 10, 0, 7, 1, 2};
    static const uint8_t offsets[] = {0, 8, 2, 0, 0, 0, 0, MEMORY, 0, 40, 1, 0, 1, 2, 0, 9, 0, MEMORY, 0, 2, 0, 250, 1};
    static const uint8_t others[] = {0, 8, 15, 1, 1, FDS, 7, 220, 0, TYPE, 9, NUMBER, 3, PACKET, 0, 0, 0, 0, 0};
    static const uint8_t shared[] = {0, 8, 0, 0, 0, 0, 0, CHANNEL, 0, 0, 99, CHANNEL, 3, 0, 1, CHANNEL, 32, 0, 240, 0};
    steps("fuzz_port_reader", "alike", alike, sizeof alike);
    steps("fuzz_port_reader", "copies", copies, sizeof copies);
    steps("fuzz_port_reader", "ranks", ranks, sizeof ranks);
    steps("fuzz_port_reader", "own", own, sizeof own);
    steps("fuzz_port_reader", "patched", patched, sizeof patched);
    steps("fuzz_port_reader", "offsets", offsets, sizeof offsets);
    steps("fuzz_port_reader", "others", others, sizeof others);
    steps("fuzz_port_reader", "shared", shared, sizeof shared);
}

static void message(const char *name, enum leat_message_type type, const void *body, size_t bytes)
{
    const struct leat_message_head head = {
        .magic = "leat", .version = LEAT_PORT_VERSION, .type = (uint16_t)type, .number = 1, .bytes = (uint32_t)bytes};
    keep(name, 0, &head, sizeof head, body, bytes);
}

static void outputs(const char *name, const char *json)
{
    static const struct leat_field fields[] = {
        {.name = "image", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8},
        {.name = "row", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 1, .shape = {13}},
        {.name = "boxes", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 2, .shape = {-1, 4}},
        {.name = "text", .kind = LEAT_KIND_STR, .dtype = LEAT_U8}};
    struct leat_program *program;
    struct leat_error error;
    if (leat_program_compile(fields, sizeof fields / sizeof *fields, json, NULL, 0, LEAT_OPEN_STACKS, &program,
                             &error)) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    char *text = leat_program_faces(program);
    keep(name, 1, "", 0, text, strlen(text));
    message(name[0] == 'o' ? "reply" : "reply-open", LEAT_MESSAGE_REPLY, text, strlen(text));
    leat_free(text);
    leat_program_free(program);
}

/* Three rows: one was left out and one replaced. */
static void published(void)
{
    struct {
        struct leat_published_head head;
        uint64_t outputs[2];
        int64_t ids[2];
        uint64_t keys[2];
        struct leat_published_error errors[2];
        int32_t domains[2];
        uint8_t valid[2];
        char texts[6];
    } p = {.head = {.magic = "LEATPUB1", .rows = 3, .delivered = 2, .n_outputs = 2, .n_errors = 2, .n_texts = 6},
           .ids = {5, 6},
           .errors = {{.row = 0, .planned = 4, .delivered = -1, .code = LEAT_E_DECODE},
                      {.row = 2, .planned = 7, .delivered = 6, .code = LEAT_E_DECODE, .text = 4}},
           .texts = "bad\0b"};
    const size_t bytes = offsetof(__typeof__(p), texts) + sizeof p.texts;
    p.head.bytes = bytes;
    keep("published", 2, "\2", 1, &p, bytes); /* of two outputs */
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: seed_port FOLDER\n");
        return 2;
    }
    root = argv[1];
    static const char hello[] = "{\"want\": \"attach\", \"batch_size\": 64, \"rank\": 0, \"world_size\": 1, "
                                "\"waits\": false, \"label\": \"one\"}";
    message("hello", LEAT_MESSAGE_HELLO, hello, sizeof hello - 1);
    message("seek", LEAT_MESSAGE_SEEK, &(struct leat_ask_seek){1, 640, 3, 0}, sizeof(struct leat_ask_seek));
    message("make", LEAT_MESSAGE_MAKE, &(struct leat_ask_batch){1, 2, 128, 64, 128, 64, 0, 64},
            sizeof(struct leat_ask_batch));
    struct leat_error error;
    leat_fail(&error, LEAT_E_RANGE, "epoch 3 has no row 4");
    message("failed", LEAT_MESSAGE_FAILED, &error, sizeof error);
    outputs("outputs", NULL);
    outputs("pictures",
            "{\"operators\": {\"d\": {\"type\": \"Decode\", \"mode\": \"RGB\"}}, \"outputs\": {\"image\": {\"field\": "
            "\"image\", \"chain\": [\"d\"], \"stack\": \"list\"}}}");
    published();
    conversations();
    answers();
    return 0;
}
