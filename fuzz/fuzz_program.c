/*
 * Programs from text: compiling never crashes, and a compiled program makes every byte of its rows. The fields are of
 * each kind, with shapes small enough for many runs.
 */
#include <stdlib.h>
#include <string.h>

#include "op/program.h"

#define MOST_BYTES (UINT64_C(1) << 20)

static const struct leat_field fields[] = {
    {.name = "image",
     .kind = LEAT_KIND_ARRAY,
     .dtype = LEAT_U8,
     .layout = LEAT_LAYOUT_HWC,
     .ndim = 3,
     .shape = {11, 9, 3}},
    {.name = "planes",
     .kind = LEAT_KIND_ARRAY,
     .dtype = LEAT_U8,
     .layout = LEAT_LAYOUT_CHW,
     .ndim = 3,
     .shape = {2, 7, 12}},
    {.name = "deep",
     .kind = LEAT_KIND_ARRAY,
     .dtype = LEAT_F32,
     .layout = LEAT_LAYOUT_HWC,
     .ndim = 3,
     .shape = {6, 5, 7}},
    {.name = "row", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U16, .ndim = 1, .shape = {13}},
    {.name = "boxes", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_F32, .ndim = 2, .shape = {-1, 4}},
    {.name = "marks",
     .kind = LEAT_KIND_ARRAY,
     .dtype = LEAT_F32,
     .ndim = 2,
     .shape = {-1, 4},
     .role = LEAT_ROLE_BOXES_XYXY},
    {.name = "photo", .kind = LEAT_KIND_IMAGE, .dtype = LEAT_U8},
    {.name = "text", .kind = LEAT_KIND_STR, .dtype = LEAT_U8},
    {.name = "dna", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_U8, .ndim = 1, .shape = {-1}},
};

/* Functions of the user's, in both forms. */
static int copy(struct leat_native_call *call)
{
    uint64_t n = call->in_type->bytes < call->out_type->bytes ? call->in_type->bytes : call->out_type->bytes;
    memcpy(call->out, call->in, n);
    return call->in_type->elements * leat_dtype_size(call->in_type->dtype) == call->in_type->bytes ? 0 : 1;
}
static int32_t fill(const void *in, void *out, int64_t n_in, int64_t n_out, uint64_t key)
{
    memset(out, (int)key & 0xff, (size_t)n_out);
    return 0;
}
static const struct leat_native functions[] = {{.call = copy}, {.flat = fill}};

static bool make(const struct leat_program *program, size_t o, struct leat_scratch *scratch, const struct leat_row *row,
                 void *dst)
{
    return leat_program_output(program, o)->ragged ? !leat_program_apply_ragged(program, o, scratch, row, dst, NULL)
                                                   : leat_program_apply(program, o, scratch, row, 1, dst, NULL) == 1;
}

/* Two runs over differently filled memory must agree: bytes that differ were not written. */
static void make_row(const struct leat_program *program, size_t o, struct leat_scratch *scratch)
{
    const struct leat_output *face = leat_program_output(program, o);
    const bool list = !face->called && face->chain < leat_program_chains(program) &&
                      !leat_program_chain(program, face->chain)->tuple && !strcmp(fields[face->field].name, "dna");
    if ((!face->in_place && !list) || face->called || face->row_bytes > MOST_BYTES)
        return;
    const uint64_t length = face->ragged ? leat_program_ragged_bytes(program, o, 4096) : face->row_bytes;
    uint8_t *data = malloc(4096), *a = malloc(length + 1), *b = malloc(length + 1);
    for (size_t i = 0; i < 4096; i++)
        data[i] = (uint8_t)(i * 31);
    memset(a, 0, length);
    memset(b, 0xff, length);
    struct leat_row row = {.data = data, .length = 4096, .key = 12345};
    if (make(program, o, scratch, &row, a) && make(program, o, scratch, &row, b) &&
        memcmp(a, b, face->bounded ? leat_scratch_steps(scratch) * face->row_bytes : length))
        abort();
    free(data);
    free(a);
    free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    struct leat_program *program;
    struct leat_error error;
    if (!leat_program_compile(fields, sizeof fields / sizeof *fields, text, functions, 2, false, &program, &error)) {
        bool small = true; /* a resize to 65535 x 65535 is legal, and of no interest here */
        for (size_t o = 0; o < leat_program_outputs(program); o++)
            small = small && leat_program_output(program, o)->row_bytes <= MOST_BYTES;
        struct leat_scratch *scratch =
            small && leat_program_scratch_bytes(program) < 64 * MOST_BYTES ? leat_scratch_new(program) : NULL;
        for (uint64_t key = 0; scratch && key < (leat_program_varies(program) ? 4 : 1); key++)
            for (size_t o = 0; o < leat_program_outputs(program); o++)
                make_row(leat_program_of_batch(program, key / 2, key), o, scratch);
        leat_scratch_free(scratch);
        leat_program_free(program);
    }
    free(text);
    return 0;
}
