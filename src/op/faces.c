/*
 * The description of a program's outputs, as JSON, and from that a program that has them but computes nothing: for
 * another process, which gets batches that were made elsewhere.
 *
 *     [{"name": "image", "kind": 5, "dtype": 9, "shape": [3, 224, 224], "strides": [...], "row_bytes": 602112, ...}]
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "codec/jpeg/card_photo.h"
#include "op/program_internal.h"

#define MOST_OUTPUTS 65536

static const struct flag {
    const char *name;
    size_t offset;
} flags[] = {
    {"ragged", offsetof(struct leat_output, ragged)},   {"bounded", offsetof(struct leat_output, bounded)},
    {"open", offsetof(struct leat_output, open)},       {"instances", offsetof(struct leat_output, instances)},
    {"on_card", offsetof(struct leat_output, on_card)}, {"sizes", offsetof(struct leat_output, sizes)},
    {"hidden", offsetof(struct leat_output, hidden)},
};

static json_t *numbers(const int64_t *values, unsigned n)
{
    json_t *list = json_array();
    int failed = !list;
    for (unsigned d = 0; !failed && d < n; d++)
        failed = json_array_append_new(list, json_integer(values[d]));
    return leat_json_whole(list, failed);
}

static json_t *face(const struct leat_program *program, const struct leat_output *o)
{
    json_t *to = json_object();
    const size_t sizes = o->open ? leat_program_chain(program, o->chain)->sizes : 0;
    int failed = !to || json_object_set_new(to, "name", json_string(o->name)) ||
                 json_object_set_new(to, "kind", json_integer(o->kind)) ||
                 json_object_set_new(to, "dtype", json_integer(o->dtype)) ||
                 json_object_set_new(to, "shape", numbers(o->shape, o->ndim)) ||
                 json_object_set_new(to, "strides", numbers(o->strides, o->ndim)) ||
                 json_object_set_new(to, "channels", json_integer(o->channels)) ||
                 json_object_set_new(to, "axes", json_integer(o->axes)) ||
                 json_object_set_new(to, "row_bytes", json_integer((json_int_t)o->row_bytes)) ||
                 json_object_set_new(to, "sizes_of", json_integer((json_int_t)sizes));
    for (size_t i = 0; !failed && i < sizeof flags / sizeof *flags; i++)
        failed =
            json_object_set_new(to, flags[i].name, json_boolean(*(const bool *)((const char *)o + flags[i].offset)));
    return leat_json_whole(to, failed);
}

char *leat_program_faces(const struct leat_program *program)
{
    json_t *list = json_array();
    int failed = !list;
    for (size_t i = 0; !failed && i < program->n_outputs; i++)
        failed = json_array_append_new(list, face(program, &program->outputs[i].face));
    char *text = failed ? NULL : json_dumps(list, JSON_COMPACT), *copy = text ? leat_strdup(text) : NULL;
    json_decref(list);
    free(text);
    return copy;
}

static bool read_numbers(const json_t *list, unsigned n, int64_t *values)
{
    for (unsigned d = 0; d < n; d++) {
        const json_t *value = json_array_get(list, d);
        if (!json_is_integer(value))
            return false;
        values[d] = json_integer_value(value);
    }
    return json_array_size(list) == n;
}

/* Whether the values of a row, or of a step of a ragged one, lie within row_bytes and fill them. */
static bool fits(const struct leat_output *o)
{
    const size_t element = leat_dtype_size(o->dtype);
    uint64_t bytes = element, last = 0;
    if (o->ragged && o->ndim && o->shape[0] != -1)
        return false;
    for (unsigned d = o->ragged; d < o->ndim; d++)
        if (o->shape[d] < 0 || !leat_mul_u64(bytes, (uint64_t)o->shape[d], &bytes))
            return false;
    for (unsigned d = o->ragged; bytes && d < o->ndim; d++) {
        uint64_t reach;
        if (o->strides[d] < 0 || !leat_mul_u64((uint64_t)o->shape[d] - 1, (uint64_t)o->strides[d], &reach) ||
            !leat_add_u64(last, reach, &last))
            return false;
    }
    return bytes == o->row_bytes && (!bytes || last < bytes / element);
}

/* Writes into an output of a program whose chains are one for each output. */
static bool read_face(const json_t *from, size_t index, struct leat_program *program)
{
    struct leat_output *o = &program->outputs[index].face;
    const json_t *shape = json_object_get(from, "shape");
    uint64_t kind, dtype, channels, axes, sizes;
    o->name = json_string_value(json_object_get(from, "name"));
    if (!o->name || !leat_json_number(json_object_get(from, "kind"), 255, &kind) ||
        !*leat_kind_name((enum leat_kind)kind) || !leat_json_number(json_object_get(from, "dtype"), 255, &dtype) ||
        !leat_dtype_size((enum leat_dtype)dtype) ||
        !leat_json_number(json_object_get(from, "channels"), 255, &channels) ||
        !leat_json_number(json_object_get(from, "axes"), LEAT_CHANNELS_LAST, &axes) ||
        !leat_json_number(json_object_get(from, "row_bytes"), UINT64_C(1) << 46, &o->row_bytes) ||
        !leat_json_number(json_object_get(from, "sizes_of"), program->n_outputs - 1, &sizes) ||
        json_array_size(shape) >= LEAT_MAX_DIMS)
        return false;
    o->ndim = (unsigned)json_array_size(shape);
    if (!read_numbers(shape, o->ndim, o->shape) || !read_numbers(json_object_get(from, "strides"), o->ndim, o->strides))
        return false;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        *(bool *)((char *)o + flags[i].offset) = json_is_true(json_object_get(from, flags[i].name));
    o->kind = (enum leat_kind)kind;
    o->dtype = (enum leat_dtype)dtype;
    o->channels = (uint8_t)channels;
    o->axes = (enum leat_axes)axes;
    o->chain = index;
    program->chains[index].face.sizes = sizes;
    return fits(o);
}

int leat_program_of_faces(const char *text, struct leat_program **out, struct leat_error *error)
{
    json_t *list = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const size_t n = json_array_size(list);
    *out = NULL;
    if (!n || n > MOST_OUTPUTS) { /* a program without outputs is none of ours: its batches have ids alone */
        const bool none = json_is_array(list) && !n;
        struct leat_program *bare = none ? leat_new(struct leat_program) : NULL;
        json_decref(list);
        *out = bare;
        return bare   ? LEAT_OK
               : none ? leat_fail(error, LEAT_E_NOMEM, "no memory for a program")
                      : leat_fail(error, LEAT_E_FORMAT, "not a list of outputs");
    }
    struct leat_program *program = leat_new(struct leat_program);
    int rc = program ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a program");
    if (!rc) {
        program->json = list;
        program->outputs = leat_new_array(n, sizeof *program->outputs);
        program->chains = leat_new_array(n, sizeof *program->chains);
        program->n_outputs = program->outputs && program->chains ? n : 0;
        program->n_chains = program->n_outputs;
        rc = program->n_outputs ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a program");
    } else {
        json_decref(list);
    }
    for (size_t i = 0; !rc && i < n; i++)
        if (!read_face(json_array_get(list, i), i, program))
            rc = leat_fail(error, LEAT_E_FORMAT, "output %zu is not described as one", i);
    for (size_t i = 0; !rc && i < n; i++) {
        const struct leat_output *o = &program->outputs[i].face;
        const struct leat_output *sizes = &program->outputs[program->chains[i].face.sizes].face;
        const uint64_t each = o->on_card ? sizeof(struct leat_card_photo) : 16;
        if (o->open && (!o->ragged || (!sizes->sizes && !o->on_card) || sizes->ragged || sizes->row_bytes != each))
            rc = leat_fail(error, LEAT_E_FORMAT, "output %zu is not described as one", i);
    }
    if (rc) {
        leat_program_free(program);
        return rc;
    }
    *out = program;
    return LEAT_OK;
}
