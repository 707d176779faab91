/*
 * Messages between a port and a consumer, as either side reads them: any bytes are refused, or are a message whose
 * parts can be read to their ends. A reader's program that was made of such text has outputs that can be read, and
 * describes itself by the text that it was made of.
 *
 * The first byte gives the kind of the rest: a message, the text of outputs, or the published part of a batch.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "op/program.h"
#include "port/message.h"
#include "port/published.h"

#define FUZZ_ASSERT(what)                                                                                              \
    do {                                                                                                               \
        if (!(what))                                                                                                   \
            abort();                                                                                                   \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same_face(const struct leat_output *a, const struct leat_output *b)
{
    return !strcmp(a->name, b->name) && a->kind == b->kind && a->dtype == b->dtype && a->ragged == b->ragged &&
           a->bounded == b->bounded && a->open == b->open && a->instances == b->instances && a->sizes == b->sizes &&
           a->hidden == b->hidden && a->ndim == b->ndim && !memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) &&
           !memcmp(a->strides, b->strides, a->ndim * sizeof *a->strides) && a->channels == b->channels &&
           a->axes == b->axes && a->row_bytes == b->row_bytes;
}

static void read_outputs(const char *text)
{
    struct leat_program *program, *again;
    struct leat_error error;
    if (leat_program_of_faces(text, &program, &error)) {
        FUZZ_ASSERT(error.code == LEAT_E_FORMAT || error.code == LEAT_E_NOMEM);
        return;
    }
    char *said = leat_program_faces(program);
    FUZZ_ASSERT(said && !leat_program_of_faces(said, &again, &error));
    const size_t n = leat_program_outputs(program);
    FUZZ_ASSERT(leat_program_outputs(again) == n);
    for (size_t o = 0; o < n; o++) {
        const struct leat_output *output = leat_program_output(program, o);
        FUZZ_ASSERT(same_face(output, leat_program_output(again, o)) && output->ndim < LEAT_MAX_DIMS);
        if (output->open)
            FUZZ_ASSERT(leat_program_output(program, leat_program_chain(program, output->chain)->sizes)->sizes);
        (void)leat_output_bytes(output, 3, 5);
        (void)leat_output_values(output, 3);
    }
    leat_free(said);
    leat_program_free(again);
    leat_program_free(program);
}

static void read_message(const uint8_t *data, size_t size)
{
    static struct leat_message m;
    struct leat_error error;
    const size_t head = sizeof m.head, most = head + LEAT_MESSAGE_MOST;
    size = size < most ? size : most;
    memset(&m, 0xa5, sizeof m);
    memcpy(&m.head, data, size < head ? size : head);
    if (size > head)
        memcpy(m.body, data + head, size - head);
    int rc = leat_message_check(&m, size, &error);
    if (rc) {
        FUZZ_ASSERT(rc == LEAT_E_FORMAT || rc == LEAT_E_UNSUPPORTED);
        FUZZ_ASSERT(error.code == rc);
        return;
    }
    FUZZ_ASSERT(m.head.bytes == size - head && !m.body[m.head.bytes]);
    FUZZ_ASSERT(!leat_message_body(&m, m.head.bytes + 1) && leat_message_body(&m, m.head.bytes) == m.body);
    FUZZ_ASSERT(strlen(m.body) <= m.head.bytes);
    rc = leat_message_error(&m, &error);
    FUZZ_ASSERT(rc < 0 && error.code == rc && strlen(error.message) < sizeof error.message &&
                strlen(error.file) < sizeof error.file && strlen(error.field) < sizeof error.field);
    FUZZ_ASSERT(leat_message_error(&m, NULL) == rc && leat_status_name(rc));
    read_outputs(m.body);
}

/* It lies at the end of a memory of its own size, so that reads beyond it are seen. */
static void read_published(const uint8_t *data, size_t size)
{
    if (!size)
        return;
    const size_t n_outputs = *data++ % 4, whole = (--size + 63) / 64 * 64 + 64;
    uint8_t *memory = aligned_alloc(64, whole);
    struct leat_published p;
    struct leat_error error;
    memset(memory, 0, whole);
    memcpy(memory + 64, data, size);
    int rc = leat_published_read(memory, whole, 64, whole - 64, n_outputs, &p, &error);
    FUZZ_ASSERT(!rc || rc == LEAT_E_FORMAT);
    volatile uint64_t sum = 0;
    if (!rc) {
        const struct leat_published_head *h = &p.head;
        for (uint64_t i = 0; i < h->delivered; i++)
            sum = sum + (uint64_t)p.ids[i] + p.keys[i] + (uint64_t)p.domains[i] + p.valid[i];
        for (uint32_t i = 0; i < h->n_outputs; i++)
            sum = sum + p.outputs[i];
        for (uint32_t i = 0; i < h->n_errors; i++)
            sum = sum + strlen(p.texts + p.errors[i].text);
        uint64_t left_out = 0;
        for (uint32_t i = 0; i < h->n_errors; i++) {
            FUZZ_ASSERT(p.errors[i].row < h->rows && (!i || p.errors[i].row > p.errors[i - 1].row));
            left_out += p.errors[i].delivered < 0;
        }
        FUZZ_ASSERT(h->failed || h->delivered + left_out == h->rows);
    }
    FUZZ_ASSERT(leat_published_read(memory, whole, 64, whole, n_outputs, &p, &error) == LEAT_E_FORMAT);
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const uint8_t what = *data % 3;
    data++;
    size--;
    if (what == 0) {
        read_message(data, size);
    } else if (what == 1) {
        char *text = malloc(size + 1);
        memcpy(text, data, size);
        text[size] = 0;
        read_outputs(text);
        free(text);
    } else {
        read_published(data, size);
    }
    return 0;
}
