/* Array files of NumPy: npy.h. */
#include "format/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "format/arrays.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
static const char no_literal[] = "its header is no literal of Python that an array has";

bool leat_npy_recognise(const void *data, size_t n)
{
    return n >= sizeof magic && !memcmp(data, magic, sizeof magic);
}

/* ---- the literal ----------------------------------------------------------------------------- */

enum { DEEPEST = 16, DESCR = 16 };

struct literal {
    const char *p, *end;
    bool objects; /* some type in it is 'O' */
};

static char peek(struct literal *l)
{
    while (l->p < l->end && (*l->p == ' ' || *l->p == '\n' || *l->p == '\t' || *l->p == '\r'))
        l->p++;
    return l->p < l->end ? *l->p : 0;
}

static bool take(struct literal *l, char c)
{
    if (peek(l) != c)
        return false;
    l->p++;
    return true;
}

static bool take_two(struct literal *l, char c)
{
    for (int k = 0; k < 2; k++)
        if (!take(l, c))
            return false;
    return true;
}

/* A string without escapes; longer ones are cut in `out`, which may be NULL. */
static bool take_string(struct literal *l, char *out, size_t room)
{
    if (peek(l) == 'u') /* of Python 2 */
        l->p++;
    const char quote = peek(l);
    if (quote != '\'' && quote != '"')
        return false;
    const char *from = ++l->p;
    while (l->p < l->end && *l->p != quote && *l->p != '\\')
        l->p++;
    if (l->p >= l->end || *l->p != quote)
        return false;
    const size_t n = (size_t)(l->p++ - from), kept = out && n >= room ? room - 1 : n;
    const size_t sign = n && strchr("<>|=", *from) ? 1 : 0;
    l->objects =
        l->objects || (n > sign && from[sign] == 'O' && (n == sign + 1 || (n == sign + 2 && from[sign + 1] <= '9')));
    if (out) {
        memcpy(out, from, kept);
        out[kept] = 0;
    }
    return true;
}

static bool take_word(struct literal *l, const char *word)
{
    const size_t n = strlen(word);
    peek(l);
    if ((size_t)(l->end - l->p) < n || memcmp(l->p, word, n) != 0)
        return false;
    l->p += n;
    return true;
}

static bool take_int(struct literal *l, uint64_t *out)
{
    char c = peek(l);
    uint64_t value = 0;
    if (c < '0' || c > '9')
        return false;
    for (; l->p < l->end && *l->p >= '0' && *l->p <= '9'; l->p++)
        if (!leat_mul_u64(value, 10, &value) || !leat_add_u64(value, (uint64_t)(*l->p - '0'), &value))
            return false;
    take(l, 'L');
    *out = value;
    return true;
}

/* Passes any value: lists and tuples of them, strings, integers. */
static bool pass(struct literal *l, unsigned depth)
{
    uint64_t number;
    const char c = peek(l), close = c == '[' ? ']' : c == '(' ? ')' : 0;
    if (!close)
        return take_string(l, NULL, 0) || take_int(l, &number) || take_word(l, "None");
    if (depth >= DEEPEST)
        return false;
    l->p++;
    while (peek(l) != close)
        if (!pass(l, depth + 1) || (!take(l, ',') && peek(l) != close))
            return false;
    return take(l, close);
}

static bool take_shape(struct literal *l, struct leat_npy *out)
{
    if (!take(l, '('))
        return false;
    while (peek(l) != ')') {
        uint64_t n;
        if (out->ndim > LEAT_MAX_DIMS || !take_int(l, &n) || n > INT64_MAX)
            return false;
        out->shape[out->ndim++] = n;
        if (!take(l, ',') && peek(l) != ')')
            return false;
    }
    return take(l, ')');
}

/* "<f4" and the like. */
static enum leat_dtype dtype_of(const char *descr, bool *swapped)
{
    static const struct {
        char name[3];
        enum leat_dtype dtype;
    } types[] = {{"b1", LEAT_BOOL}, {"i1", LEAT_I8},  {"u1", LEAT_U8},  {"i2", LEAT_I16},
                 {"u2", LEAT_U16},  {"i4", LEAT_I32}, {"u4", LEAT_U32}, {"i8", LEAT_I64},
                 {"u8", LEAT_U64},  {"f2", LEAT_F16}, {"f4", LEAT_F32}, {"f8", LEAT_F64}};
    if (!*descr || !strchr("<>|=", *descr))
        return 0;
    *swapped = *descr == '>';
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(descr + 1, types[i].name))
            return types[i].dtype;
    return 0;
}

/* Why a dtype is none. */
static const char *no_dtype(const char *descr)
{
    switch (*descr ? descr[1] : 0) {
    case 'c':
        return "its dtype is none of leat's: complex numbers";
    case 'S':
    case 'U':
        return "its dtype is none of leat's: texts";
    case 'M':
    case 'm':
        return "its dtype is none of leat's: times";
    case 0:
        return "its dtype is none of leat's: records";
    default:
        return "its dtype is none of leat's";
    }
}

static const char *read_dict(struct literal *l, struct leat_npy *out)
{
    char key[DESCR], descr[DESCR] = "";
    unsigned seen = 0;
    if (!take(l, '{'))
        return no_literal;
    while (peek(l) != '}') {
        if (!take_string(l, key, sizeof key) || !take(l, ':'))
            return no_literal;
        const unsigned bit = !strcmp(key, "descr")           ? 1
                             : !strcmp(key, "fortran_order") ? 2
                             : !strcmp(key, "shape")         ? 4
                                                             : 0;
        const bool text = bit == 1 && (peek(l) == '\'' || peek(l) == '"' || peek(l) == 'u');
        if (!bit || seen & bit ||
            (bit == 1   ? !(text ? take_string(l, descr, sizeof descr) : pass(l, 0))
             : bit == 2 ? !(out->fortran = take_word(l, "True")) && !take_word(l, "False")
                        : !take_shape(l, out)))
            return no_literal;
        seen |= bit;
        if (!take(l, ',') && peek(l) != '}')
            return no_literal;
    }
    l->p++;
    if (seen != 7 || peek(l))
        return no_literal;
    out->pickled = l->objects;
    out->dtype = dtype_of(descr, &out->swapped);
    return out->pickled ? "it holds objects, which are pickles" : out->dtype ? NULL : no_dtype(descr);
}

const char *leat_npy_descr(const char *text, size_t n, struct leat_npy *out)
{
    struct literal l = {text, text + n, false}, all = l;
    char name[2] = "", descr[DESCR] = "";
    *out = (struct leat_npy){0};
    if (!pass(&all, 0) || peek(&all))
        return "its dtype is no list of JSON that NumPy writes";
    out->pickled = all.objects;
    if (out->pickled)
        return "it holds objects, which are pickles";
    if (!take_two(&l, '[') || !take_string(&l, name, sizeof name) || *name || !take(&l, ',') ||
        !take_string(&l, descr, sizeof descr) || !take_two(&l, ']'))
        return "its dtype has fields of its own";
    out->dtype = dtype_of(descr, &out->swapped);
    return out->dtype ? NULL : no_dtype(descr);
}

const char *leat_npy_read(const void *data, size_t n, struct leat_npy *out)
{
    const uint8_t *p = data;
    *out = (struct leat_npy){0};
    if (!leat_npy_recognise(data, n) || n < 10)
        return "it does not begin as an array file of NumPy does";
    const size_t at = p[6] == 1 ? 10 : 12;
    if (p[6] < 1 || p[6] > 3 || p[7])
        return "it has a version that leat does not know";
    if (n < at)
        return "its header is cut";
    const uint64_t length = p[6] == 1 ? leat_get_u16(p + 8) : leat_get_u32(p + 8);
    if (length > LEAT_NPY_HEADER - at)
        return "its header is too long";
    if (n < at + length)
        return "its header is cut";
    struct literal l = {(const char *)p + at, (const char *)p + at + length, false};
    out->header = at + length;
    const char *fault = read_dict(&l, out);
    if (fault)
        return fault;
    bool empty = false; /* a shape is too large whether it has elements or not */
    out->bytes = leat_dtype_size(out->dtype);
    for (unsigned d = 0; d < out->ndim; d++) {
        empty = empty || !out->shape[d];
        if (out->shape[d] && (!leat_mul_u64(out->bytes, out->shape[d], &out->bytes) || out->bytes > INT64_MAX))
            return "its shape is too large";
    }
    out->bytes = empty ? 0 : out->bytes;
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void swap(uint8_t *to, uint64_t n, size_t each)
{
    for (uint64_t i = 0; i < n; i++, to += each)
        for (size_t k = 0; k < each / 2; k++) {
            const uint8_t byte = to[k];
            to[k] = to[each - 1 - k];
            to[each - 1 - k] = byte;
        }
}

void leat_npy_values(const struct leat_npy *npy, const uint8_t *values, uint8_t *to)
{
    const size_t each = leat_dtype_size(npy->dtype);
    const uint64_t n = npy->bytes / each;
    uint64_t at[LEAT_MAX_DIMS + 1] = {0}, steps[LEAT_MAX_DIMS + 1], from = 0;
    if (!npy->bytes)
        return;
    if (!npy->fortran || npy->ndim < 2) {
        memcpy(to, values, (size_t)npy->bytes);
    } else {
        for (unsigned d = 0; d < npy->ndim; d++)
            steps[d] = d ? steps[d - 1] * npy->shape[d - 1] : 1;
        for (uint64_t i = 0; i < n; i++) { /* the last index runs fastest */
            memcpy(to + i * each, values + from * each, each);
            for (unsigned d = npy->ndim; d--;) {
                from += steps[d];
                if (++at[d] < npy->shape[d])
                    break;
                from -= steps[d] * npy->shape[d];
                at[d] = 0;
            }
        }
    }
    if (npy->swapped)
        swap(to, n, each);
}

/* ---- the format: a file of one array, the field "data" ----------------------------------------- */

static bool npy_recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return !folder && leat_npy_recognise(head, n);
}

static const char *npy_name(void *user, size_t i, size_t *length)
{
    *length = 4;
    return "data";
}

int leat_npy_find(const char *path, struct leat_io_file *file, uint64_t at, uint64_t bytes, const char *name,
                  struct leat_found_array *out, struct leat_error *error)
{
    uint8_t head[LEAT_NPY_HEADER];
    const size_t n = bytes < sizeof head ? (size_t)bytes : sizeof head;
    int rc = leat_io_read(file, at, n, head, error);
    if (rc)
        return rc;
    const char *fault = leat_npy_read(head, n, &out->npy);
    if (fault)
        return leat_arrays_refuse(path, at, name, out->npy.pickled, fault, error);
    out->at = at + out->npy.header;
    if (bytes - out->npy.header == out->npy.bytes)
        return LEAT_OK;
    return leat_fail_at(error, LEAT_E_CORRUPT, path, at <= INT64_MAX ? (int64_t)at : LEAT_NO_OFFSET,
                        "%s: the header of \"%s\" says %" PRIu64 " bytes of values, and %" PRIu64
                        " are there: it is cut or damaged, copy it again",
                        path, name, out->npy.bytes, bytes - out->npy.header);
}

static int npy_find(void *user, size_t i, const char *name, const struct leat_field *wish,
                    struct leat_arrays_kept *kept, struct leat_found_array *out, struct leat_error *error)
{
    struct leat_io_file *file = user;
    out->file = leat_io_retain(file);
    return leat_npy_find(file->path, file, 0, file->size, name, out, error);
}

static int npy_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error)
{
    struct leat_io_file *file;
    int rc = leat_arrays_open_file(path, &file, error);
    *out = NULL;
    if (rc)
        return rc;
    const struct leat_arrays_in in = {.v = &leat_format_npy,
                                      .path = path,
                                      .file = file,
                                      .n = 1,
                                      .user = file,
                                      .name = npy_name,
                                      .find = npy_find,
                                      .notice = ""};
    rc = leat_arrays_open(&in, options, out, error);
    leat_io_release(file);
    return rc;
}

const struct leat_source_vtable leat_format_npy = {
    .name = "npy", .recognise = npy_recognise, .open = npy_open, LEAT_ARRAYS_VTABLE};
