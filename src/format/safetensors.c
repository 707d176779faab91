/*
 * Files of tensors of Hugging Face's safetensors: each tensor is a field (arrays.h).
 *
 *     u64 n | JSON of n bytes: {"NAME": {"dtype": "F32", "shape": [24, 3], "data_offsets": [0, 288]}, ...} | values
 *
 * Offsets count from the end of the JSON; together the tensors have all bytes behind it, without holes or overlap.
 * There are no checksums.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "format/arrays.h"
#include "format/json_text.h"

/* As the reference reader has it. */
#define MOST_HEADER UINT64_C(100000000)

enum { NAME = 256, DTYPE = 12 };

struct tensor {
    char *name; /* owned */
    struct leat_npy npy;
    uint64_t begin, end; /* from the end of the JSON on */
    char dtype[DTYPE];
    bool deep; /* it has more dimensions than leat takes */
};

struct tensors {
    struct leat_io_file *file;
    struct tensor *all; /* in the order of the JSON */
    size_t n, room;
    uint64_t data; /* where values begin */
};

static bool safetensors_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    static const char end[] = ".safetensors";
    const size_t length = strlen(path), k = sizeof end - 1;
    if (folder || n < 10 || leat_get_u64(head) < 2 || leat_get_u64(head) > MOST_HEADER || head[8] != '{')
        return false;
    return (length >= k && !strcasecmp(path + length - k, end)) ||
           (head[9] == '"' && n > 20 && memchr(head + 10, '"', n - 10) && !memchr(head + 8, 0, 12));
}

/* ---- the header ------------------------------------------------------------------------------ */

static int broken(const struct tensors *t, uint64_t at, const char *what, struct leat_error *error)
{
    return leat_fail_at(error, LEAT_E_CORRUPT, t->file->path, at <= INT64_MAX ? (int64_t)at : LEAT_NO_OFFSET,
                        "%s, byte %" PRIu64 ": %s: it is cut or damaged, copy it again", t->file->path, at, what);
}

static enum leat_dtype dtype_of(const char *text)
{
    static const struct {
        char name[5];
        enum leat_dtype dtype;
    } types[] = {{"BOOL", LEAT_BOOL}, {"U8", LEAT_U8},     {"I8", LEAT_I8},   {"I16", LEAT_I16}, {"U16", LEAT_U16},
                 {"F16", LEAT_F16},   {"BF16", LEAT_BF16}, {"I32", LEAT_I32}, {"U32", LEAT_U32}, {"F32", LEAT_F32},
                 {"F64", LEAT_F64},   {"I64", LEAT_I64},   {"U64", LEAT_U64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(text, types[i].name))
            return types[i].dtype;
    return 0;
}

/* Bytes of an element of a type that leat does not have, of which some have less than a byte: 0. */
static size_t bytes_of(const struct tensor *t)
{
    return t->npy.dtype                   ? leat_dtype_size(t->npy.dtype)
           : !strncmp(t->dtype, "F8_", 3) ? 1
           : !strcmp(t->dtype, "C64")     ? 8
                                          : 0;
}

static bool read_whole(struct leat_json *j, uint64_t *out)
{
    double number;
    bool is_whole;
    int64_t whole;
    if (!leat_json_read_number(j, &number, &is_whole, &whole) || !is_whole || whole < 0)
        return false;
    *out = (uint64_t)whole;
    return true;
}

static bool read_shape(struct leat_json *j, struct tensor *t, uint64_t *elements)
{
    *elements = 1;
    if (!leat_json_enter(j, '['))
        return false;
    while (leat_json_item(j)) {
        uint64_t n;
        if (!read_whole(j, &n) || !leat_mul_u64(*elements, n, elements))
            return false;
        if (t->npy.ndim <= LEAT_MAX_DIMS)
            t->npy.shape[t->npy.ndim++] = n;
        else
            t->deep = true;
    }
    return !j->fault;
}

static bool read_offsets(struct leat_json *j, struct tensor *t)
{
    return leat_json_enter(j, '[') && leat_json_item(j) && read_whole(j, &t->begin) && leat_json_item(j) &&
           read_whole(j, &t->end) && !leat_json_item(j) && !j->fault && t->begin <= t->end;
}

/* NULL, or what is wrong beside the grammar of JSON. */
static const char *read_tensor(struct leat_json *j, struct tensor *t)
{
    static const char odd[] = "a tensor has no dtype, shape and data_offsets that make sense";
    char key[NAME];
    uint64_t elements = 0, bytes = 0;
    unsigned seen = 0;
    if (!leat_json_enter(j, '{'))
        return odd;
    while (leat_json_key(j, key, sizeof key)) {
        const unsigned bit = !strcmp(key, "dtype")          ? 1
                             : !strcmp(key, "shape")        ? 2
                             : !strcmp(key, "data_offsets") ? 4
                                                            : 0;
        if (!bit || seen & bit)
            return odd;
        seen |= bit;
        size_t length = 0;
        const char *text = bit == 1 ? leat_json_string(j, &length) : NULL;
        if (bit == 1 ? !text || length >= DTYPE : bit == 2 ? !read_shape(j, t, &elements) : !read_offsets(j, t))
            return odd;
        if (text)
            memcpy(t->dtype, text, length);
    }
    if (j->fault || seen != 7)
        return odd;
    t->npy.dtype = dtype_of(t->dtype);
    const size_t each = bytes_of(t);
    if (each && (!leat_mul_u64(elements, each, &bytes) || bytes != t->end - t->begin))
        return "a tensor has another size than its shape and dtype say";
    t->npy.bytes = t->end - t->begin;
    return NULL;
}

static const char *read_tensors(struct leat_json *j, struct tensors *t, bool *no_memory)
{
    char name[NAME], key[NAME];
    if (!leat_json_enter(j, '{'))
        return "it has no JSON of tensors";
    while (leat_json_key(j, name, sizeof name)) {
        if (strlen(name) == sizeof name - 1)
            return "a tensor has a name of more than 254 bytes";
        if (!strcmp(name, "__metadata__")) {
            if (!leat_json_enter(j, '{'))
                return "its __metadata__ is none";
            while (leat_json_key(j, key, sizeof key))
                if (!leat_json_string(j, NULL))
                    return "its __metadata__ is none";
            continue;
        }
        if (!leat_grow(&t->all, &t->room, t->n + 1, sizeof *t->all)) {
            *no_memory = true;
            return NULL;
        }
        struct tensor *one = &t->all[t->n];
        memset(one, 0, sizeof *one);
        if (!(one->name = leat_strdup(name))) {
            *no_memory = true;
            return NULL;
        }
        t->n++;
        const char *what = read_tensor(j, one);
        if (what)
            return what;
    }
    return NULL;
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *x = *(struct tensor *const *)a, *y = *(struct tensor *const *)b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct tensor *const *)a)->name, (*(struct tensor *const *)b)->name);
}

static int check_places(const struct tensors *t, struct leat_error *error)
{
    struct tensor **sorted = leat_new_array(t->n + 1, sizeof *sorted);
    uint64_t at = 0;
    int rc = sorted ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", t->file->path);
    for (size_t i = 0; i < t->n && !rc; i++)
        sorted[i] = &t->all[i];
    if (!rc)
        qsort(sorted, t->n, sizeof *sorted, by_name);
    for (size_t i = 1; i < t->n && !rc; i++)
        if (!by_name(&sorted[i - 1], &sorted[i]))
            rc = broken(t, 8, "two tensors have the same name", error);
    if (!rc)
        qsort(sorted, t->n, sizeof *sorted, by_place);
    for (size_t i = 0; i < t->n && !rc; at = sorted[i++]->end)
        if (sorted[i]->begin != at)
            rc = broken(t, 8, "its tensors overlap or leave holes", error);
    if (!rc && at != t->file->size - t->data)
        rc = broken(t, t->file->size, "its tensors do not end where the file does", error);
    leat_free(sorted);
    return rc;
}

static int read_header(struct tensors *t, struct leat_error *error)
{
    uint8_t length[8];
    struct leat_io_file *text = NULL;
    struct leat_json j;
    bool no_memory = false;
    if (t->file->size < 8)
        return broken(t, t->file->size, "it does not begin as a file of safetensors does", error);
    int rc = leat_io_read(t->file, 0, 8, length, error);
    const uint64_t n = rc ? 0 : leat_get_u64(length);
    if (!rc && (n > MOST_HEADER || n > t->file->size - 8))
        rc = broken(t, 0, "its header would reach beyond the file, or 100 MB", error);
    uint8_t *bytes = rc ? NULL : leat_alloc((size_t)n + 1);
    if (!rc && !bytes)
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", t->file->path);
    rc = rc ? rc : leat_io_read(t->file, 8, n, bytes, error);
    rc = rc ? rc : leat_io_from_memory(t->file->path, bytes, n, &text, error);
    if (!rc) {
        t->data = 8 + n;
        leat_json_begin(&j, text, error);
        const char *what = read_tensors(&j, t, &no_memory);
        if (no_memory || (what && !j.fault)) {
            rc = no_memory ? leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", t->file->path)
                           : broken(t, 8 + leat_json_offset(&j), what, error);
            leat_json_stop(&j);
        } else {
            rc = leat_json_end(&j);
        }
    }
    leat_io_release(text);
    leat_free(bytes);
    return rc ? rc : check_places(t, error);
}

/* ---- opening --------------------------------------------------------------------------------- */

static const char *tensor_name(void *user, size_t i, size_t *length)
{
    const struct tensors *t = user;
    *length = strlen(t->all[i].name);
    return t->all[i].name;
}

/* Types that leat has not are refused; what has a byte, such as F8_E4M3, is taken as uint8 if that is asked for. */
static int tensor_find(void *user, size_t i, const char *name, const struct leat_field *wish,
                       struct leat_arrays_kept *kept, struct leat_found_array *out, struct leat_error *error)
{
    const struct tensors *t = user;
    const struct tensor *one = &t->all[i];
    const bool as_bytes = !one->npy.dtype && bytes_of(one) == 1;
    char fault[128];
    out->npy = one->npy;
    out->at = t->data + one->begin;
    if (as_bytes && leat_wanted_says(wish) && wish->kind == LEAT_KIND_ARRAY && wish->dtype == LEAT_U8)
        out->npy.dtype = LEAT_U8;
    if (!out->npy.dtype || one->deep) {
        snprintf(fault, sizeof fault, "its dtype is %s%s", one->dtype,
                 one->deep  ? ", with more dimensions than leat takes"
                 : as_bytes ? ", which leat has not, but takes its bytes if fields says that it is uint8"
                            : ", which leat has not");
        return leat_arrays_refuse(t->file->path, out->at, name, false, fault, error);
    }
    out->file = leat_io_retain(t->file);
    return LEAT_OK;
}

static int safetensors_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                            struct leat_error *error)
{
    struct tensors t = {0};
    *out = NULL;
    int rc = leat_arrays_open_file(path, &t.file, error);
    rc = rc ? rc : read_header(&t, error);
    const struct leat_arrays_in in = {.v = &leat_format_safetensors,
                                      .path = path,
                                      .file = t.file,
                                      .n = t.n,
                                      .user = &t,
                                      .name = tensor_name,
                                      .find = tensor_find,
                                      .notice = ""};
    rc = rc ? rc : leat_arrays_open(&in, options, out, error);
    for (size_t i = 0; i < t.n; i++)
        leat_free(t.all[i].name);
    leat_free(t.all);
    leat_io_release(t.file);
    return rc;
}

const struct leat_source_vtable leat_format_safetensors = {
    .name = "safetensors", .recognise = safetensors_recognise, .open = safetensors_open, LEAT_ARRAYS_VTABLE};
