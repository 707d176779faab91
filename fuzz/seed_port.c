/* Writes the seeds of fuzz_port_message: seed_port FOLDER. */
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

static void keep(const char *name, char what, const void *head, size_t head_bytes, const void *bytes, size_t n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/fuzz_port_message", root);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/fuzz_port_message/%s", root, name);
    FILE *out = fopen(path, "wb");
    if (!out || fputc(what, out) == EOF || fwrite(head, 1, head_bytes, out) != head_bytes ||
        fwrite(bytes, 1, n, out) != n || fclose(out)) {
        perror(path);
        exit(1);
    }
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

/* Three rows, of which one was left out and one replaced. */
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
    return 0;
}
