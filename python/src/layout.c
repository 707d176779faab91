/*
 * A layout: how samples of a Python data set that all look alike (a number, an array, a tensor, or tuples, lists and
 * dicts of these) lie in the buffers of a batch: one buffer per leaf, one row per sample. Workers write samples there
 * as they come from the data set; the parent makes the batch's tensors over the buffers, in the containers in which
 * PyTorch's default_collate puts them. A sample that looks different is not written; the caller deals with it.
 *
 *     spec:   ("leaf", kind, code, bits, format, shape, type)        kind: INT ... OBJECT below
 *             ("tuple" | "list", [spec, ...])   ("dict", [key, ...], [spec, ...])
 *
 * Strings and bytes (OBJECT) are not written: they are appended to a list, row by row, which the worker sends by
 * itself.
 */
#include "leat_py.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define DLPACK_BFLOAT 4

enum kind { INT = 0, FLOAT, BOOL, SCALAR, ARRAY, TENSOR, OBJECT, TUPLE, LIST, DICT };

struct node {
    enum kind kind;
    /* leaves */
    uint8_t code, bits;
    char format[8];
    unsigned ndim, buffer;
    int64_t shape[LEAT_MAX_DIMS + 1]; /* [0] is the batch's rows */
    size_t bytes;                     /* of a row */
    PyObject *type; /* class of the sample's leaf; TENSOR: (class, dtype, what to view it as or None) */
    /* containers */
    size_t n;
    struct node *children;
    PyObject **keys;
};

struct layout {
    PyObject_HEAD struct node *root;
    unsigned n_buffers;
    size_t row_bytes[LEAT_BOARD_BUFFERS];
};

static _Thread_local struct {
    bool known;
    uint64_t seed, epoch, row;
    uint64_t turn; /* counts what was begun: the same row may be made twice */
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

/* What the writing of each kind relies on. */
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
    if (kind < INT || kind > OBJECT || bits % 8 || strlen(format) >= sizeof node->format ||
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
    if (node->kind == OBJECT)
        return 0;
    if (l->n_buffers == LEAT_BOARD_BUFFERS) {
        PyErr_SetString(PyExc_ValueError, "too many leaves for a layout");
        return -1;
    }
    node->buffer = l->n_buffers++;
    l->row_bytes[node->buffer] = node->bytes;
    return 0;
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

/* Where a row goes: memory of the buffers, and the list of strings. */
struct place {
    uint8_t *buffers[LEAT_BOARD_BUFFERS];
    uint64_t row;
    PyObject *objects;
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
    bool fits = view.ndim == (int)leaf->ndim && view.format && strcmp(view.format, leaf->format) == 0 &&
                view.len == (Py_ssize_t)leaf->bytes;
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
    Py_XDECREF(dtype);
    if (dtype != wanted) {
        PyErr_Clear();
        return DIFFERS;
    }
    PyObject *viewed = as == Py_None ? Py_NewRef(tensor) : PyObject_CallMethod(tensor, "view", "O", as);
    PyObject *array = viewed ? PyObject_CallMethod(viewed, "numpy", NULL) : NULL;
    Py_XDECREF(viewed);
    if (!array) {
        PyErr_Clear(); /* sparse, on a device, part of a graph ...: what it is, collating will say */
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
    case OBJECT:
        if ((PyObject *)Py_TYPE(object) != node->type)
            return DIFFERS;
        return PyList_Append(place->objects, object) ? ERROR : FITS;
    case DICT:
        if (!PyDict_CheckExact(object) || (size_t)PyDict_Size(object) != node->n)
            return DIFFERS;
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

/* Writes one sample; strings of a sample that does not fit, or could not be written, are taken back. */
static enum fit write_sample(const struct layout *l, PyObject *sample, const struct place *place)
{
    Py_ssize_t before = PyList_Size(place->objects);
    enum fit fit = write_node(l->root, sample, place);
    if (fit == FITS || PyList_Size(place->objects) == before)
        return fit;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyList_SetSlice(place->objects, before, PY_SSIZE_T_MAX, NULL))
        fit = ERROR;
    if (type)
        PyErr_Restore(type, value, traceback);
    return fit;
}

/* fill(board, dataset, first, end, before, objects): rows [first, end) of the unit that the board has taken, whose
 * payload is int64 indices: (row, None) when all are written, or (row, sample) where one does not fit. An exception of
 * the data set's passes through; the board knows the row. before(seed, epoch, row) or None is called ahead of each. */
static PyObject *layout_fill(PyObject *self, PyObject *args)
{
    struct layout *l = (struct layout *)self;
    PyObject *board, *dataset, *before, *objects;
    unsigned first, end;
    if (!PyArg_ParseTuple(args, "OOIIOO!:fill", &board, &dataset, &first, &end, &before, &PyList_Type, &objects))
        return NULL;
    struct leat_board *handle = py_board_handle(board);
    if (!handle)
        return NULL;
    const struct leat_board_batch *batch = &py_board_unit(board)->batch;
    if (batch->n_buffers < l->n_buffers || end > batch->rows || batch->payload_bytes < batch->rows * sizeof(int64_t)) {
        PyErr_SetString(PyExc_ValueError, "the batch has no place for this layout");
        return NULL;
    }
    struct place place = {.objects = objects};
    for (unsigned i = 0; i < l->n_buffers; i++)
        place.buffers[i] = leat_board_at(handle, batch->buffers[i]);
    const int64_t *indices = leat_board_at(handle, batch->payload);
    for (unsigned row = first; row < end; row++) {
        leat_board_at_row(handle, row);
        current.known = true;
        current.turn++;
        current.seed = batch->seed;
        current.epoch = batch->epoch;
        current.row = batch->first_row + row;
        if (indices[row] <= INT64_MIN + 16) /* the parent has taken it out */
            return Py_BuildValue("IO", row, Py_NotImplemented);
        if (before != Py_None) {
            PyObject *nothing =
                PyObject_CallFunction(before, "KKK", (unsigned long long)batch->seed, (unsigned long long)batch->epoch,
                                      (unsigned long long)(batch->first_row + row));
            if (!nothing)
                return NULL;
            Py_DECREF(nothing);
        }
        PyObject *index = PyLong_FromLongLong(indices[row]), *sample = index ? PyObject_GetItem(dataset, index) : NULL;
        Py_XDECREF(index);
        if (!sample)
            return NULL;
        place.row = row;
        enum fit fit = write_sample(l, sample, &place);
        if (fit == DIFFERS)
            return Py_BuildValue("IN", row, sample);
        Py_DECREF(sample);
        if (fit == ERROR)
            return NULL;
    }
    return Py_BuildValue("IO", end, Py_None);
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
        if (l->row_bytes[i] && rows > leat_slot_bytes(slots[i]) / l->row_bytes[i]) {
            PyErr_SetString(PyExc_IndexError, "a row outside of its slot");
            return -1;
        }
    }
    return 0;
}

static PyObject *layout_store(PyObject *self, PyObject *args)
{
    struct layout *l = (struct layout *)self;
    PyObject *sample, *tuple, *objects;
    unsigned long long row;
    struct leat_slot *slots[LEAT_BOARD_BUFFERS];
    if (!PyArg_ParseTuple(args, "OOKO!:store", &sample, &tuple, &row, &PyList_Type, &objects))
        return NULL;
    if (row == ULLONG_MAX || take_slots(l, tuple, row + 1, slots))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "a row outside of its slot");
    struct place place = {.row = row, .objects = objects};
    for (unsigned i = 0; i < l->n_buffers; i++)
        place.buffers[i] = leat_slot_data(slots[i]);
    enum fit fit = write_sample(l, sample, &place);
    return fit == ERROR ? NULL : PyBool_FromLong(fit == FITS);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
    struct leat_slot **slots;
    unsigned long long rows;
    PyObject *tensor;  /* from a DLPack capsule */
    PyObject *objects; /* an iterator over the lists of strings, one per OBJECT leaf */
};

static PyObject *read_node(const struct node *node, const struct reading *r);

static PyObject *read_container(const struct node *node, const struct reading *r)
{
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

static PyObject *read_node(const struct node *node, const struct reading *r)
{
    if (node->kind >= TUPLE)
        return read_container(node, r);
    if (node->kind == OBJECT) {
        PyObject *list = PyIter_Next(r->objects);
        if (!list && !PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a list of strings is missing");
        return list;
    }
    int64_t shape[LEAT_MAX_DIMS + 1];
    memcpy(shape, node->shape, sizeof shape);
    shape[0] = (int64_t)r->rows;
    PyObject *capsule = py_dlpack_of_slot(r->slots[node->buffer], 0, node->code, node->bits, node->ndim + 1, shape);
    PyObject *tensor = capsule ? PyObject_CallFunction(r->tensor, "O", capsule) : NULL;
    Py_XDECREF(capsule);
    if (tensor && node->kind == TENSOR && node->code != DLPACK_BFLOAT && PyTuple_GetItem(node->type, 2) != Py_None) {
        PyObject *viewed = PyObject_CallMethod(tensor, "view", "O", PyTuple_GetItem(node->type, 1));
        Py_DECREF(tensor);
        tensor = viewed;
    }
    return tensor;
}

/* batch(slots, rows, from_dlpack, objects): the batch over its slots. */
static PyObject *layout_batch(PyObject *self, PyObject *args)
{
    struct layout *l = (struct layout *)self;
    struct leat_slot *slots[LEAT_BOARD_BUFFERS];
    struct reading r = {.slots = slots};
    PyObject *tuple, *objects;
    if (!PyArg_ParseTuple(args, "OKOO:batch", &tuple, &r.rows, &r.tensor, &objects) ||
        take_slots(l, tuple, r.rows, slots))
        return NULL;
    r.objects = PyObject_GetIter(objects);
    if (!r.objects)
        return NULL;
    PyObject *batch = read_node(l->root, &r);
    Py_DECREF(r.objects);
    return batch;
}

static PyObject *layout_row_bytes(PyObject *self, void *closure)
{
    struct layout *l = (struct layout *)self;
    PyObject *tuple = PyTuple_New(l->n_buffers);
    for (unsigned i = 0; tuple && i < l->n_buffers; i++) {
        PyObject *bytes = PyLong_FromSize_t(l->row_bytes[i]);
        if (!bytes || PyTuple_SetItem(tuple, (Py_ssize_t)i, bytes))
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyMethodDef layout_methods[] = {
    {"fill", layout_fill, METH_VARARGS,
     "fill(board, dataset, first, end, before, objects): (row reached, sample that does not fit or None)"},
    {"store", layout_store, METH_VARARGS, "store(sample, slots, row, objects): whether it fits, and is written"},
    {"batch", layout_batch, METH_VARARGS, "batch(slots, rows, from_dlpack, objects): the batch over its slots"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef layout_getters[] = {{"row_bytes", layout_row_bytes, NULL, "bytes of a row in each buffer", NULL},
                                       {NULL, NULL, NULL, NULL, NULL}};
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
    unsigned long long seed = 0, epoch = 0, row = 0;
    if (!PyArg_ParseTuple(args, "|KKK:set_current_row", &seed, &epoch, &row))
        return NULL;
    current.known = PyTuple_Size(args) == 3;
    current.turn++;
    current.seed = seed;
    current.epoch = epoch;
    current.row = row;
    Py_RETURN_NONE;
}
