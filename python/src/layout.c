/*
 * A layout: how samples of a Python data set that all look alike (a number, an array, a tensor, a text, or tuples,
 * lists and dicts of these) lie in the buffers of a batch: one buffer per leaf, one row per sample. Workers write
 * samples there as they come from the data set; the parent makes the batch's tensors over the buffers, in the
 * containers in which PyTorch's default_collate puts them. A sample that looks different is not written; the caller
 * deals with it.
 *
 *     spec:   ("leaf", kind, code, bits, format, shape, type)        kind: INT ... TEXT below
 *             ("tuple" | "list", [spec, ...])   ("dict", [key, ...], [spec, ...])
 *
 * Texts (str and bytes) share one buffer, the last. Each takes its part of the room behind the entries:
 *
 *     | struct texts | struct text [rows][texts of a sample] | room: UTF-8 or bytes, in the order of the claims ... |
 *
 * A text that has no room left, or that UTF-8 cannot encode (a lone surrogate), lies elsewhere: in a dict from rows to
 * lists of such texts, which the worker sends by itself.
 *
 * A batch that the process makes for itself is gathered in ordinary memory; its texts stay the objects that they are.
 */
#include "leat_py.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define DLPACK_BFLOAT 4

enum kind { INT = 0, FLOAT, BOOL, SCALAR, ARRAY, TENSOR, TEXT, TUPLE, LIST, DICT };

struct node {
    enum kind kind;
    /* leaves */
    uint8_t code, bits;
    char format[8];
    unsigned ndim, buffer;            /* TEXT: its number among the texts */
    bool in_sequence;                 /* TEXT: the default collation makes a tuple of it, not a list */
    int64_t shape[LEAT_MAX_DIMS + 1]; /* [0] is the batch's rows */
    size_t bytes;                     /* of a row */
    PyObject *type; /* class of the sample's leaf; TENSOR: (class, dtype, the dtype of its view or None) */
    /* containers */
    size_t n;
    struct node *children;
    PyObject **keys;
};

struct layout {
    PyObject_HEAD struct node *root;
    unsigned n_arrays, n_texts, n_buffers; /* buffers: of arrays, and one if there are texts */
    size_t row_bytes[LEAT_BOARD_BUFFERS];  /* of arrays */
};

#define ELSEWHERE UINT64_MAX
struct texts {
    _Atomic uint64_t used; /* of the room: the bytes asked for, even if too many */
    uint64_t rows, room;
};
struct text {
    uint64_t offset, bytes; /* in the room, or ELSEWHERE */
};
_Static_assert(sizeof(struct texts) % _Alignof(struct text) == 0, "entries follow their head");

static struct text *text_entry(const struct layout *l, struct texts *texts, uint64_t row, unsigned text)
{
    return (struct text *)(texts + 1) + row * l->n_texts + text;
}

static uint8_t *text_room(const struct layout *l, struct texts *texts)
{
    return (uint8_t *)text_entry(l, texts, texts->rows, 0);
}

static _Thread_local struct {
    bool known;
    uint64_t seed, epoch, row;
    uint64_t turn;  /* its number among the passes begun: the same row may be made twice */
    uint64_t begun; /* so many */
} current;

/* ---- making one ------------------------------------------------------------------------------ */

static void node_clear(struct node *node)
{
    for (size_t i = 0; i < node->n; i++) {
        if (node->children)
            node_clear(&node->children[i]);
        if (node->keys)
            Py_XDECREF(node->keys[i]);
    }
    free(node->children);
    free(node->keys);
    Py_XDECREF(node->type);
}

/* Assumptions of the writers of each kind. */
static bool leaf_is_sound(const struct node *node, PyObject *type)
{
    switch (node->kind) {
    case INT:
    case FLOAT:
        return node->bits == 64 && !node->ndim;
    case BOOL:
        return node->bits == 8 && !node->ndim;
    case TENSOR:
        return PyTuple_Check(type) && PyTuple_Size(type) == 3;
    default:
        return true;
    }
}

static int take_leaf(PyObject *spec, struct node *node, struct layout *l)
{
    int kind;
    unsigned char code, bits;
    const char *format;
    PyObject *shape, *type;
    if (!PyArg_ParseTuple(spec, "sibbsO!O", &format, &kind, &code, &bits, &format, &PyTuple_Type, &shape, &type))
        return -1;
    if (kind < INT || kind > TEXT || bits % 8 || strlen(format) >= sizeof node->format ||
        PyTuple_Size(shape) > LEAT_MAX_DIMS - 1)
        goto wrong;
    node->kind = (enum kind)kind;
    node->code = code;
    node->bits = bits;
    strcpy(node->format, format);
    node->ndim = (unsigned)PyTuple_Size(shape);
    node->bytes = bits / 8;
    for (unsigned i = 0; i < node->ndim; i++) {
        node->shape[i + 1] = PyLong_AsLongLong(PyTuple_GetItem(shape, (Py_ssize_t)i));
        if (PyErr_Occurred())
            return -1;
        if (node->shape[i + 1] < 0 || __builtin_mul_overflow(node->bytes, (size_t)node->shape[i + 1], &node->bytes))
            goto wrong;
    }
    if (!leaf_is_sound(node, type) || node->bytes > PY_SSIZE_T_MAX)
        goto wrong;
    node->type = Py_NewRef(type);
    if (node->kind == TEXT) {
        if (type != (PyObject *)&PyUnicode_Type && type != (PyObject *)&PyBytes_Type)
            goto wrong;
        node->buffer = l->n_texts++;
    } else {
        if (l->n_arrays == LEAT_BOARD_BUFFERS)
            goto many;
        node->buffer = l->n_arrays++;
        l->row_bytes[node->buffer] = node->bytes;
    }
    l->n_buffers = l->n_arrays + !!l->n_texts;
    if (l->n_buffers > LEAT_BOARD_BUFFERS)
        goto many;
    return 0;
many:
    PyErr_SetString(PyExc_ValueError, "too many leaves for a layout");
    return -1;
wrong:
    PyErr_SetString(PyExc_ValueError, "no layout for this leaf");
    return -1;
}

static int take_spec(PyObject *spec, struct node *node, struct layout *l, unsigned depth)
{
    PyObject *what = PyTuple_Check(spec) && PyTuple_Size(spec) > 1 ? PyTuple_GetItem(spec, 0) : NULL;
    if (!what || !PyUnicode_Check(what) || depth > 16) {
        PyErr_SetString(PyExc_ValueError, "not a layout");
        return -1;
    }
    if (PyUnicode_CompareWithASCIIString(what, "leaf") == 0)
        return take_leaf(spec, node, l);
    bool dict = PyUnicode_CompareWithASCIIString(what, "dict") == 0;
    node->kind = dict ? DICT : PyUnicode_CompareWithASCIIString(what, "list") == 0 ? LIST : TUPLE;
    PyObject *parts = PyTuple_GetItem(spec, PyTuple_Size(spec) - 1), *keys = PyTuple_GetItem(spec, 1);
    if (!PyList_Check(parts) || !PyList_Check(keys) || PyList_Size(parts) != PyList_Size(keys)) {
        PyErr_SetString(PyExc_ValueError, "not a layout");
        return -1;
    }
    size_t n = (size_t)PyList_Size(parts);
    node->children = calloc(n ? n : 1, sizeof *node->children);
    node->keys = dict ? calloc(n ? n : 1, sizeof *node->keys) : NULL;
    if (!node->children || (dict && !node->keys)) {
        PyErr_NoMemory();
        return -1;
    }
    node->n = n;
    for (size_t i = 0; i < n; i++) {
        node->children[i].in_sequence = !dict;
        if (dict)
            node->keys[i] = Py_NewRef(PyList_GetItem(keys, (Py_ssize_t)i));
        if (take_spec(PyList_GetItem(parts, (Py_ssize_t)i), &node->children[i], l, depth + 1))
            return -1;
    }
    return 0;
}

static PyObject *layout_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *spec;
    if (!PyArg_ParseTuple(args, "O:Layout", &spec))
        return NULL;
    struct layout *l = py_object_new(type);
    if (!l)
        return NULL;
    l->root = calloc(1, sizeof *l->root);
    if (!l->root)
        PyErr_NoMemory();
    if (!l->root || take_spec(spec, l->root, l, 0)) {
        Py_DECREF(l);
        return NULL;
    }
    return (PyObject *)l;
}

static void layout_dealloc(PyObject *self)
{
    struct layout *l = (struct layout *)self;
    if (l->root)
        node_clear(l->root);
    free(l->root);
    py_object_free(self);
}

/* ---- writing a sample ------------------------------------------------------------------------ */

enum fit { ERROR = -1, FITS = 0, DIFFERS = 1 };

/* The destination of a row. */
struct place {
    const struct layout *layout;
    uint8_t *buffers[LEAT_BOARD_BUFFERS];
    uint64_t row;
    PyObject *elsewhere; /* dict: row to its texts that lie elsewhere */
    PyObject *gathered;  /* instead: a list of all texts; and only arrays in C order fit, as stacking keeps others */
};

static uint8_t *cell(const struct node *leaf, const struct place *place)
{
    return place->buffers[leaf->buffer] + place->row * leaf->bytes;
}

/* n elements that lie `stride` bytes apart. */
#define COPY_APART(type)                                                                                               \
    for (Py_ssize_t i = 0; i < n; i++, dst += sizeof(type), src += stride)                                             \
    memcpy(dst, src, sizeof(type))
static void copy_apart(uint8_t *dst, const uint8_t *src, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t item)
{
    switch (item) { /* so that each copy is one instruction */
    case 1:
        COPY_APART(uint8_t);
        break;
    case 2:
        COPY_APART(uint16_t);
        break;
    case 4:
        COPY_APART(uint32_t);
        break;
    case 8:
        COPY_APART(uint64_t);
        break;
    default:
        for (Py_ssize_t i = 0; i < n; i++, dst += item, src += stride)
            memcpy(dst, src, (size_t)item);
    }
}

/* An array with any strides to memory in C order: a permuted image, mostly. PyBuffer_ToContiguous goes element by
 * element, and takes longer than decoding a photo. */
static void copy_strided(uint8_t *dst, const uint8_t *src, int ndim, const Py_ssize_t *shape, const Py_ssize_t *strides,
                         Py_ssize_t item)
{
    if (!ndim) {
        memcpy(dst, src, (size_t)item);
    } else if (ndim == 1) {
        if (strides[0] == item)
            memcpy(dst, src, (size_t)(shape[0] * item));
        else
            copy_apart(dst, src, shape[0], strides[0], item);
    } else {
        Py_ssize_t bytes = item;
        for (int i = 1; i < ndim; i++)
            bytes *= shape[i];
        for (Py_ssize_t i = 0; i < shape[0]; i++)
            copy_strided(dst + i * bytes, src + i * strides[0], ndim - 1, shape + 1, strides + 1, item);
    }
}

/* The bytes of anything with the buffer protocol, if they are of this leaf's type and shape. */
static enum fit write_buffer(const struct node *leaf, PyObject *object, const struct place *place)
{
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO)) {
        PyErr_Clear(); /* a type that has none, such as datetime64 */
        return DIFFERS;
    }
    bool fits = (!place->gathered || PyBuffer_IsContiguous(&view, 'C')) && view.ndim == (int)leaf->ndim &&
                view.format && strcmp(view.format, leaf->format) == 0 && view.len == (Py_ssize_t)leaf->bytes;
    for (unsigned i = 0; fits && i < leaf->ndim; i++)
        fits = view.shape[i] == (Py_ssize_t)leaf->shape[i + 1];
    enum fit fit = fits ? FITS : DIFFERS;
    if (fits && view.len) {
        if (PyBuffer_IsContiguous(&view, 'C'))
            memcpy(cell(leaf, place), view.buf, (size_t)view.len);
        else if (!view.suboffsets)
            copy_strided(cell(leaf, place), view.buf, view.ndim, view.shape, view.strides, view.itemsize);
        else if (PyBuffer_ToContiguous(cell(leaf, place), &view, view.len, 'C'))
            fit = ERROR;
    }
    PyBuffer_Release(&view);
    return fit;
}

static enum fit write_tensor(const struct node *leaf, PyObject *tensor, const struct place *place)
{
    if ((PyObject *)Py_TYPE(tensor) != PyTuple_GetItem(leaf->type, 0))
        return DIFFERS;
    PyObject *dtype = PyObject_GetAttrString(tensor, "dtype"), *wanted = PyTuple_GetItem(leaf->type, 1),
             *as = PyTuple_GetItem(leaf->type, 2);
    bool same = dtype == wanted;
    Py_XDECREF(dtype);
    if (same && as != Py_None) { /* numpy() would say so, but not for a view as another dtype */
        PyObject *part_of_graph = PyObject_GetAttrString(tensor, "requires_grad");
        same = part_of_graph == Py_False;
        Py_XDECREF(part_of_graph);
    }
    if (!same) {
        PyErr_Clear();
        return DIFFERS;
    }
    PyObject *viewed = as == Py_None ? Py_NewRef(tensor) : PyObject_CallMethod(tensor, "view", "O", as);
    PyObject *array = viewed ? PyObject_CallMethod(viewed, "numpy", NULL) : NULL;
    Py_XDECREF(viewed);
    if (!array) {
        PyErr_Clear(); /* sparse, on a device, part of a graph ...: collating will report it */
        return DIFFERS;
    }
    enum fit fit = write_buffer(leaf, array, place);
    Py_DECREF(array);
    return fit;
}

static enum fit write_number(const struct node *leaf, PyObject *object, const struct place *place)
{
    if (leaf->kind == INT) {
        if (Py_TYPE(object) != &PyLong_Type)
            return DIFFERS;
        int64_t v = PyLong_AsLongLong(object);
        if (v == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return DIFFERS;
        }
        memcpy(cell(leaf, place), &v, sizeof v);
        return FITS;
    }
    if (leaf->kind == BOOL) {
        if (object != Py_True && object != Py_False)
            return DIFFERS;
        *cell(leaf, place) = object == Py_True;
        return FITS;
    }
    if (Py_TYPE(object) != &PyFloat_Type)
        return DIFFERS;
    double v = PyFloat_AsDouble(object);
    memcpy(cell(leaf, place), &v, sizeof v);
    return FITS;
}

/* Adds a text of this row to those that lie elsewhere. */
static int put_elsewhere(const struct place *place, PyObject *text)
{
    PyObject *row = PyLong_FromUnsignedLongLong(place->row);
    PyObject *list = row ? Py_XNewRef(PyDict_GetItemWithError(place->elsewhere, row)) : NULL;
    if (row && !list && !PyErr_Occurred() && (list = PyList_New(0)) && PyDict_SetItem(place->elsewhere, row, list))
        Py_CLEAR(list);
    int rc = list ? PyList_Append(list, text) : -1;
    Py_XDECREF(list);
    Py_XDECREF(row);
    return rc;
}

static enum fit write_text(const struct node *leaf, PyObject *object, const struct place *place)
{
    if ((PyObject *)Py_TYPE(object) != leaf->type)
        return DIFFERS;
    if (place->gathered)
        return PyList_Append(place->gathered, object) ? ERROR : FITS;
    const struct layout *l = place->layout;
    struct texts *texts = (struct texts *)place->buffers[l->n_arrays];
    struct text *entry = text_entry(l, texts, place->row, leaf->buffer);
    *entry = (struct text){.offset = ELSEWHERE};
    /* A string is not asked for its own UTF-8: it would keep it for good. */
    PyObject *bytes = PyUnicode_Check(object) ? PyUnicode_AsUTF8String(object) : Py_NewRef(object);
    if (!bytes) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return ERROR;
        PyErr_Clear();
        return put_elsewhere(place, object) ? ERROR : FITS;
    }
    const uint64_t size = (uint64_t)PyBytes_Size(bytes);
    const uint64_t at = atomic_fetch_add_explicit(&texts->used, size, memory_order_relaxed);
    int rc = 0;
    if (at > texts->room || size > texts->room - at) {
        rc = put_elsewhere(place, object);
    } else {
        memcpy(text_room(l, texts) + at, PyBytes_AsString(bytes), size);
        *entry = (struct text){.offset = at, .bytes = size};
    }
    Py_DECREF(bytes);
    return rc ? ERROR : FITS;
}

/* Whether the keys of a dict come in the layout's order; -1 with an exception. */
static int in_order(const struct node *node, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    for (size_t i = 0; i < node->n; i++) {
        if (!PyDict_Next(dict, &at, &key, &value) || Py_TYPE(key) != Py_TYPE(node->keys[i]))
            return 0;
        Py_INCREF(key);
        int same = PyObject_RichCompareBool(key, node->keys[i], Py_EQ);
        Py_DECREF(key);
        if (same != 1)
            return same;
    }
    return 1;
}

static enum fit write_node(const struct node *node, PyObject *object, const struct place *place)
{
    switch (node->kind) {
    case INT:
    case FLOAT:
    case BOOL:
        return write_number(node, object, place);
    case SCALAR:
    case ARRAY:
        return (PyObject *)Py_TYPE(object) == node->type ? write_buffer(node, object, place) : DIFFERS;
    case TENSOR:
        return write_tensor(node, object, place);
    case TEXT:
        return write_text(node, object, place);
    case DICT:
        if (!PyDict_CheckExact(object) || (size_t)PyDict_Size(object) != node->n)
            return DIFFERS;
        if (!place->row) { /* a batch has the order of its first sample */
            int ordered = in_order(node, object);
            if (ordered != 1)
                return ordered ? ERROR : DIFFERS;
        }
        break;
    default:
        if (!(node->kind == TUPLE ? PyTuple_CheckExact(object) : PyList_CheckExact(object)) ||
            (size_t)PySequence_Size(object) != node->n)
            return DIFFERS;
    }
    for (size_t i = 0; i < node->n; i++) {
        PyObject *part = node->kind == DICT    ? PyDict_GetItemWithError(object, node->keys[i])
                         : node->kind == TUPLE ? PyTuple_GetItem(object, (Py_ssize_t)i)
                                               : PyList_GetItem(object, (Py_ssize_t)i);
        if (!part)
            return PyErr_Occurred() ? ERROR : DIFFERS;
        Py_INCREF(part); /* a tensor's methods may run code of the user's, which may take it out of the sample */
        enum fit fit = write_node(&node->children[i], part, place);
        Py_DECREF(part);
        if (fit != FITS)
            return fit;
    }
    return FITS;
}

/* Takes back the texts of a row that was not written. */
static int forget_texts(const struct place *place, Py_ssize_t before)
{
    if (place->gathered)
        return PyList_SetSlice(place->gathered, before, PY_SSIZE_T_MAX, NULL);
    PyObject *row = PyLong_FromUnsignedLongLong(place->row);
    int rc = row ? PyDict_DelItem(place->elsewhere, row) : -1;
    Py_XDECREF(row);
    if (rc && PyErr_ExceptionMatches(PyExc_KeyError)) {
        PyErr_Clear();
        rc = 0;
    }
    return rc;
}

/* Writes one sample. */
static enum fit write_sample(const struct place *place, PyObject *sample)
{
    Py_ssize_t before = place->gathered ? PyList_Size(place->gathered) : 0;
    enum fit fit = write_node(place->layout->root, sample, place);
    if (fit == FITS || !place->layout->n_texts)
        return fit;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (forget_texts(place, before))
        fit = ERROR;
    if (type)
        PyErr_Restore(type, value, traceback);
    return fit;
}

/* The source of a batch's samples, and the keys of their rows. */
struct source {
    PyObject *dataset, *before; /* before(seed, epoch, row) or None: called ahead of each */
    struct leat_board *board;   /* is told the row, or NULL */
    int removable;              /* indices may be marks of rows that the parent has taken out */
    unsigned long long seed, epoch, first_row;
};

/* The sample of a row at an index; NULL with the data set's exception. */
static PyObject *sample_at(const struct source *s, unsigned row, PyObject *index)
{
    if (s->board)
        leat_board_at_row(s->board, row);
    current.known = true;
    current.turn = ++current.begun;
    current.seed = s->seed;
    current.epoch = s->epoch;
    current.row = s->first_row + row;
    if (s->before != Py_None) {
        PyObject *nothing = PyObject_CallFunction(s->before, "KKK", s->seed, s->epoch, s->first_row + row);
        if (!nothing)
            return NULL;
        Py_DECREF(nothing);
    }
    return PyObject_GetItem(s->dataset, index);
}

/* Writes rows [*row, end) of these indices. FITS: all are written; DIFFERS: *sample, of *row, is not. */
static enum fit write_rows(struct place *place, const struct source *s, const int64_t *indices, unsigned *row,
                           unsigned end, PyObject **sample)
{
    for (; *row < end; ++*row) {
        if (s->removable && indices[*row] <= INT64_MIN + LEAT_MAX_SUBSTITUTES) { /* the parent has taken it out */
            *sample = Py_NewRef(Py_NotImplemented);
            return DIFFERS;
        }
        PyObject *index = PyLong_FromLongLong(indices[*row]);
        *sample = index ? sample_at(s, *row, index) : NULL;
        Py_XDECREF(index);
        if (!*sample)
            return ERROR;
        place->row = *row;
        enum fit fit = write_sample(place, *sample);
        if (fit == DIFFERS)
            return DIFFERS;
        Py_CLEAR(*sample);
        if (fit == ERROR)
            return ERROR;
    }
    return FITS;
}

/* fill(board, dataset, first, end, before, elsewhere[, removable]): rows [first, end) of the unit that the board has
 * taken, whose payload is int64 indices: (row, None) when all are written, or (row, sample) if one does not fit. An
 * exception of the data set's passes through; the board knows the row. */
static PyObject *layout_fill(PyObject *self, PyObject *args)
{
    struct layout *l = (struct layout *)self;
    PyObject *board, *elsewhere, *sample = NULL;
    unsigned row, end;
    struct source source = {.removable = true};
    if (!PyArg_ParseTuple(args, "OOIIOO!|p:fill", &board, &source.dataset, &row, &end, &source.before, &PyDict_Type,
                          &elsewhere, &source.removable))
        return NULL;
    struct leat_board *handle = py_board_handle(board);
    if (!handle)
        return NULL;
    const struct leat_board_batch *batch = &py_board_unit(board)->batch;
    struct place place = {.layout = l, .elsewhere = elsewhere};
    bool room =
        batch->n_buffers >= l->n_buffers && end <= batch->rows && batch->payload_bytes >= batch->rows * sizeof(int64_t);
    for (unsigned i = 0; room && i < l->n_buffers; i++)
        place.buffers[i] = leat_board_at(handle, batch->buffers[i]);
    if (!room || (l->n_texts && end > ((struct texts *)place.buffers[l->n_arrays])->rows)) {
        PyErr_SetString(PyExc_ValueError, "the batch has no place for this layout");
        return NULL;
    }
    source.board = handle;
    source.seed = batch->seed;
    source.epoch = batch->epoch;
    source.first_row = batch->first_row;
    enum fit fit = write_rows(&place, &source, leat_board_at(handle, batch->payload), &row, end, &sample);
    return fit == ERROR ? NULL : Py_BuildValue("IN", row, fit == DIFFERS ? sample : Py_NewRef(Py_None));
}

/* slots(rows, room): new slots for a batch, with so many bytes of room for its texts. */
static PyObject *layout_slots_of(PyObject *self, PyObject *args)
{
    struct layout *l = (struct layout *)self;
    unsigned long long rows, room;
    if (!PyArg_ParseTuple(args, "KK:slots", &rows, &room))
        return NULL;
    PyObject *tuple = PyTuple_New(l->n_buffers);
    for (unsigned i = 0; tuple && i < l->n_buffers; i++) {
        size_t bytes, each = i < l->n_arrays ? l->row_bytes[i] : l->n_texts * sizeof(struct text);
        PyObject *slot = NULL;
        if (__builtin_mul_overflow(each, rows, &bytes) ||
            (i == l->n_arrays && (__builtin_add_overflow(bytes, sizeof(struct texts), &bytes) ||
                                  __builtin_add_overflow(bytes, room, &bytes))))
            PyErr_NoMemory();
        else
            slot = py_slot_make(bytes);
        if (!slot || PyTuple_SetItem(tuple, (Py_ssize_t)i, slot)) {
            Py_CLEAR(tuple);
        } else if (i == l->n_arrays) {
            struct texts *texts = leat_slot_data(py_slot_handle(slot));
            *texts = (struct texts){.rows = rows, .room = room};
        }
    }
    return tuple;
}

/* Handles of a tuple of slots, which must hold `rows` rows of this layout. */
static int take_slots(const struct layout *l, PyObject *tuple, unsigned long long rows, struct leat_slot **slots)
{
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != (Py_ssize_t)l->n_buffers) {
        PyErr_SetString(PyExc_TypeError, "one slot per buffer is expected");
        return -1;
    }
    for (unsigned i = 0; i < l->n_buffers; i++) {
        if (!(slots[i] = py_slot_handle(PyTuple_GetItem(tuple, (Py_ssize_t)i))))
            return -1;
        if (i < l->n_arrays ? l->row_bytes[i] && rows > leat_slot_bytes(slots[i]) / l->row_bytes[i]
                            : rows > ((struct texts *)leat_slot_data(slots[i]))->rows) {
            PyErr_SetString(PyExc_IndexError, "a row outside of its slot");
            return -1;
        }
    }
    return 0;
}

/* store(sample, slots, row, elsewhere): writes the sample; whether it fits. */
static PyObject *layout_store(PyObject *self, PyObject *args)
{
    struct layout *l = (struct layout *)self;
    PyObject *sample, *tuple;
    unsigned long long row;
    struct leat_slot *slots[LEAT_BOARD_BUFFERS];
    struct place place = {.layout = l};
    if (!PyArg_ParseTuple(args, "OOKO!:store", &sample, &tuple, &row, &PyDict_Type, &place.elsewhere))
        return NULL;
    if (row == ULLONG_MAX || take_slots(l, tuple, row + 1, slots))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "a row outside of its slot");
    place.row = row;
    for (unsigned i = 0; i < l->n_buffers; i++)
        place.buffers[i] = leat_slot_data(slots[i]);
    if (l->n_texts && forget_texts(&place, 0)) /* of an earlier try */
        return NULL;
    enum fit fit = write_sample(&place, sample);
    return fit == ERROR ? NULL : PyBool_FromLong(fit == FITS);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
    const struct layout *layout;
    unsigned long long rows;
    struct leat_slot **slots;
    PyObject *from_dlpack; /* makes a tensor of a capsule */
    PyObject *elsewhere;   /* dict: row to its texts that lie elsewhere */
    /* instead of these, of a batch that was gathered: */
    PyObject *tensors, *gathered;
};

/* A text of a row, new reference. */
static PyObject *read_text(const struct reading *r, uint64_t row, unsigned text, bool str)
{
    const struct layout *l = r->layout;
    if (r->gathered)
        return Py_XNewRef(PyList_GetItem(r->gathered, (Py_ssize_t)(row * l->n_texts + text)));
    struct leat_slot *slot = r->slots[l->n_arrays];
    struct texts *texts = leat_slot_data(slot);
    const struct text *entry = text_entry(l, texts, row, text);
    if (entry->offset == ELSEWHERE) {
        Py_ssize_t nth = 0;
        for (unsigned i = 0; i < text; i++)
            nth += text_entry(l, texts, row, i)->offset == ELSEWHERE;
        PyObject *key = PyLong_FromUnsignedLongLong(row);
        PyObject *list = key ? PyDict_GetItemWithError(r->elsewhere, key) : NULL;
        Py_XDECREF(key);
        if (!list || !PyList_Check(list)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a text is missing");
            return NULL;
        }
        return Py_XNewRef(PyList_GetItem(list, nth));
    }
    if (entry->offset > texts->room || entry->bytes > texts->room - entry->offset) {
        PyErr_SetString(PyExc_ValueError, "a text outside of its slot");
        return NULL;
    }
    const char *bytes = (const char *)text_room(l, texts) + entry->offset;
    return str ? PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)entry->bytes, NULL)
               : PyBytes_FromStringAndSize(bytes, (Py_ssize_t)entry->bytes);
}

static PyObject *read_texts(const struct node *node, const struct reading *r)
{
    const Py_ssize_t n = (Py_ssize_t)r->rows;
    PyObject *made = node->in_sequence ? PyTuple_New(n) : PyList_New(n);
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *text = read_text(r, (uint64_t)i, node->buffer, node->type == (PyObject *)&PyUnicode_Type);
        if (!text || (node->in_sequence ? PyTuple_SetItem(made, i, text) : PyList_SetItem(made, i, text)))
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *read_array(const struct node *node, const struct reading *r)
{
    if (r->tensors)
        return Py_XNewRef(PyList_GetItem(r->tensors, node->buffer));
    int64_t shape[LEAT_MAX_DIMS + 1];
    memcpy(shape, node->shape, sizeof shape);
    shape[0] = (int64_t)r->rows;
    PyObject *capsule = py_dlpack_of_slot(r->slots[node->buffer], 0, node->code, node->bits, node->ndim + 1, shape);
    PyObject *tensor = capsule ? PyObject_CallFunctionObjArgs(r->from_dlpack, capsule, NULL) : NULL;
    Py_XDECREF(capsule);
    if (tensor && node->kind == TENSOR && node->code != DLPACK_BFLOAT && PyTuple_GetItem(node->type, 2) != Py_None) {
        PyObject *viewed = PyObject_CallMethod(tensor, "view", "O", PyTuple_GetItem(node->type, 1));
        Py_DECREF(tensor);
        tensor = viewed;
    }
    return tensor;
}

static PyObject *read_node(const struct node *node, const struct reading *r)
{
    if (node->kind == TEXT)
        return read_texts(node, r);
    if (node->kind < TEXT)
        return read_array(node, r);
    PyObject *made = node->kind == DICT ? PyDict_New() : PyList_New(0);
    for (size_t i = 0; made && i < node->n; i++) {
        PyObject *part = read_node(&node->children[i], r);
        int bad = !part || (node->kind == DICT ? PyDict_SetItem(made, node->keys[i], part) : PyList_Append(made, part));
        Py_XDECREF(part);
        if (bad)
            Py_CLEAR(made);
    }
    return made;
}

/* batch(slots, rows, from_dlpack, elsewhere): the batch over its slots. */
static PyObject *layout_batch(PyObject *self, PyObject *args)
{
    struct leat_slot *slots[LEAT_BOARD_BUFFERS];
    struct reading r = {.layout = (struct layout *)self, .slots = slots};
    PyObject *tuple;
    if (!PyArg_ParseTuple(args, "OKOO!:batch", &tuple, &r.rows, &r.from_dlpack, &PyDict_Type, &r.elsewhere) ||
        take_slots(r.layout, tuple, r.rows, slots))
        return NULL;
    return read_node(r.layout->root, &r);
}

/* texts(slots, row, elsewhere): those of one row, in the order of its leaves. */
static void take_texts(const struct node *node, const struct reading *r, uint64_t row, PyObject **list)
{
    if (node->kind == TEXT)
        py_list_add(list, read_text(r, row, node->buffer, node->type == (PyObject *)&PyUnicode_Type));
    for (size_t i = 0; *list && i < node->n; i++)
        take_texts(&node->children[i], r, row, list);
}

static PyObject *layout_texts(PyObject *self, PyObject *args)
{
    struct leat_slot *slots[LEAT_BOARD_BUFFERS];
    struct reading r = {.layout = (struct layout *)self, .slots = slots};
    PyObject *tuple;
    unsigned long long row;
    if (!PyArg_ParseTuple(args, "OKO!:texts", &tuple, &row, &PyDict_Type, &r.elsewhere) || row == ULLONG_MAX ||
        take_slots(r.layout, tuple, row + 1, slots))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "a row outside of its slot");
    PyObject *list = PyList_New(0);
    take_texts(r.layout->root, &r, row, &list);
    return list;
}

/* asked(slots): bytes of room that the texts of a batch asked for. */
static PyObject *layout_asked(PyObject *self, PyObject *tuple)
{
    struct layout *l = (struct layout *)self;
    struct leat_slot *slots[LEAT_BOARD_BUFFERS];
    if (take_slots(l, tuple, 0, slots))
        return NULL;
    struct texts *texts = l->n_texts ? leat_slot_data(slots[l->n_arrays]) : NULL;
    return PyLong_FromUnsignedLongLong(texts ? atomic_load_explicit(&texts->used, memory_order_relaxed) : 0);
}

/* ---- gathering: batches that the process makes for itself ------------------------------------- */

/* gather(dataset, indices, before, seed, epoch, first_row, tensors): the batch of int64 indices, over these tensors in
 * ordinary memory, one for each array of the layout: (rows, None, batch); or (row, sample, texts) if one does not fit:
 * the rows before it are in the tensors, and their texts in a list. */
static PyObject *layout_gather(PyObject *self, PyObject *args)
{
    struct layout *l = (struct layout *)self;
    struct place place = {.layout = l};
    struct source source = {0};
    PyObject *positions, *tensors, *sample = NULL, *found = NULL;
    Py_buffer view = {0};
    if (!PyArg_ParseTuple(args, "OOOKKKO!:gather", &source.dataset, &positions, &source.before, &source.seed,
                          &source.epoch, &source.first_row, &PyList_Type, &tensors) ||
        PyObject_GetBuffer(positions, &view, PyBUF_SIMPLE))
        return NULL;
    const size_t rows = (size_t)view.len / sizeof(int64_t);
    bool sound = PyList_Size(tensors) == (Py_ssize_t)l->n_arrays && rows <= UINT32_MAX;
    for (unsigned i = 0; sound && i < l->n_arrays; i++) {
        PyObject *tensor = PyList_GetItem(tensors, (Py_ssize_t)i);
        PyObject *bytes = PyObject_GetAttrString(tensor, "nbytes");
        PyObject *address = bytes ? PyObject_CallMethod(tensor, "data_ptr", NULL) : NULL;
        sound = address && PyLong_AsSize_t(bytes) == rows * l->row_bytes[i];
        place.buffers[i] = address ? PyLong_AsVoidPtr(address) : NULL;
        Py_XDECREF(bytes);
        Py_XDECREF(address);
    }
    if (!sound) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a tensor of the batch's size for each array is expected");
        goto out;
    }
    place.gathered = PyList_New(0);
    unsigned row = 0;
    enum fit fit = place.gathered ? write_rows(&place, &source, view.buf, &row, (unsigned)rows, &sample) : ERROR;
    if (fit == DIFFERS) {
        found = Py_BuildValue("INO", row, sample, place.gathered);
    } else if (fit == FITS) {
        struct reading r = {.layout = l, .rows = rows, .tensors = tensors, .gathered = place.gathered};
        PyObject *batch = read_node(l->root, &r);
        found = batch ? Py_BuildValue("ION", row, Py_None, batch) : NULL;
    }
out:
    Py_XDECREF(place.gathered);
    PyBuffer_Release(&view);
    return found;
}

/* samples(board or None, dataset, indices, before, seed, epoch, first_row): a list of the samples of a batch. Indices:
 * a list of whatever the data set takes. */
PyObject *py_samples(PyObject *module, PyObject *args)
{
    struct source source = {0};
    PyObject *board, *indices;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO!OKKK:samples", &board, &source.dataset, &PyList_Type, &indices, &source.before,
                          &source.seed, &source.epoch, &source.first_row) ||
        (board != Py_None && !(source.board = py_board_handle(board))))
        return NULL;
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < PyList_Size(indices); i++) {
        PyObject *index = Py_NewRef(PyList_GetItem(indices, i)); /* the data set may change the list */
        py_list_add(&list, sample_at(&source, (unsigned)i, index));
        Py_DECREF(index);
    }
    return list;
}

static PyObject *layout_row_bytes(PyObject *self, void *closure)
{
    const struct layout *l = (struct layout *)self;
    int64_t bytes[LEAT_BOARD_BUFFERS]; /* at most PY_SSIZE_T_MAX */
    for (unsigned i = 0; i < l->n_arrays; i++)
        bytes[i] = (int64_t)l->row_bytes[i];
    return py_integers(bytes, l->n_arrays);
}

static PyObject *layout_n_texts(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLong(((struct layout *)self)->n_texts);
}

static PyMethodDef layout_methods[] = {
    {"slots", layout_slots_of, METH_VARARGS, "slots(rows, room): new slots for a batch; room: bytes for its texts"},
    {"fill", layout_fill, METH_VARARGS,
     "fill(board, dataset, first, end, before, elsewhere): (row reached, sample that does not fit or None)"},
    {"store", layout_store, METH_VARARGS, "store(sample, slots, row, elsewhere): whether it fits, and is written"},
    {"batch", layout_batch, METH_VARARGS, "batch(slots, rows, from_dlpack, elsewhere): the batch over its slots"},
    {"texts", layout_texts, METH_VARARGS, "texts(slots, row, elsewhere): of one row, in the order of its leaves"},
    {"asked", layout_asked, METH_O, "asked(slots): bytes of room that the texts of a batch asked for"},
    {"gather", layout_gather, METH_VARARGS,
     "gather(dataset, indices, before, seed, epoch, first_row, tensors): (rows, None, batch), or (row, sample that "
     "does "
     "not fit, texts of the rows before it)"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef layout_getters[] = {
    {"row_bytes", layout_row_bytes, NULL, "bytes of a row in each array", NULL},
    {"n_texts", layout_n_texts, NULL, "texts of a sample", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot layout_slots[] = {
    {Py_tp_doc, (void *)"Layout(spec): how samples that look alike lie in the buffers of a batch."},
    {Py_tp_new, (void *)layout_new},
    {Py_tp_dealloc, (void *)layout_dealloc},
    {Py_tp_methods, layout_methods},
    {Py_tp_getset, layout_getters},
    {0, NULL},
};
PyType_Spec py_layout_spec = PY_TYPE(Layout, struct layout, layout_slots, 0);

/* ---- the row at hand ------------------------------------------------------------------------- */

PyObject *py_current_row(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    if (!current.known)
        Py_RETURN_NONE;
    return Py_BuildValue("KKK", (unsigned long long)current.seed, (unsigned long long)current.epoch,
                         (unsigned long long)current.row);
}

PyObject *py_current_turn(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromUnsignedLongLong(current.turn);
}

PyObject *py_set_current_row(PyObject *module, PyObject *args)
{
    unsigned long long seed = 0, epoch = 0, row = 0, turn = 0;
    if (!PyArg_ParseTuple(args, "|KKKK:set_current_row", &seed, &epoch, &row, &turn))
        return NULL;
    current.known = PyTuple_Size(args) >= 3;
    current.turn = PyTuple_Size(args) == 4 ? turn : ++current.begun;
    current.seed = seed;
    current.epoch = epoch;
    current.row = row;
    Py_RETURN_NONE;
}
