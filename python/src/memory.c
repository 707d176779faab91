/*
 * Memory of the library as Python sees it, without copying: through the buffer protocol (NumPy) and DLPack (PyTorch).
 *
 *     buffer of a batch  <-- one reference --  Memory           <-- base --  numpy.ndarray
 *                        <-- one reference --  DLManagedTensor  <----------  torch.Tensor
 *
 * An array or tensor holds its own output's buffer and nothing else: neither the batch nor the loader. A DLPack deleter
 * may run on any thread, without the GIL, and after the interpreter is gone: it touches no Python object.
 *
 * The structures of DLPack are an interface (version 0.x, "dltensor"), declared here as its specification has them.
 */
#include "leat/device.h"
#include "leat_py.h"

#include <stdlib.h>
#include <string.h>

/* ---- DLPack ---------------------------------------------------------------------------------- */

enum { DL_CPU = 1 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

struct dl_device {
    int32_t type, id;
};
struct dl_type {
    uint8_t code, bits;
    uint16_t lanes;
};
struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t ndim;
    struct dl_type dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
};

struct dl_block {
    struct dl_managed managed;
    struct leat_buffer *buffer; /* one of these keeps the memory */
    struct leat_slot *slot;
    struct leat_device_buffer *there;
    int64_t shape[LEAT_MAX_DIMS + 1], strides[LEAT_MAX_DIMS + 1];
};

static const struct {
    uint8_t code, bits;
    const char *format; /* of the struct module; bfloat16, which it lacks, as its bits */
} types[] = {
    [LEAT_U8] = {DL_UINT, 8, "B"},      [LEAT_I8] = {DL_INT, 8, "b"},     [LEAT_U16] = {DL_UINT, 16, "H"},
    [LEAT_I16] = {DL_INT, 16, "h"},     [LEAT_U32] = {DL_UINT, 32, "I"},  [LEAT_I32] = {DL_INT, 32, "i"},
    [LEAT_U64] = {DL_UINT, 64, "L"},    [LEAT_I64] = {DL_INT, 64, "l"},   [LEAT_F16] = {DL_FLOAT, 16, "e"},
    [LEAT_BF16] = {DL_BFLOAT, 16, "H"}, [LEAT_F32] = {DL_FLOAT, 32, "f"}, [LEAT_F64] = {DL_FLOAT, 64, "d"},
    [LEAT_BOOL] = {DL_BOOL, 8, "?"},
};

static void dl_delete(struct dl_managed *self)
{
    struct dl_block *block = (struct dl_block *)self;
    if (block->buffer)
        leat_buffer_release(block->buffer);
    leat_slot_release(block->slot);
    leat_device_buffer_release(block->there);
    free(block);
}

/* A consumer renames the capsule when it takes the tensor over; one that nobody took still has its name. */
static void capsule_free(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor"))
        return;
    struct dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    managed->deleter(managed);
}

/* Over the memory of a buffer, of a slot or of a card: one of these. Without strides: dense. */
static PyObject *capsule_over(struct dl_device device, void *data, struct dl_type type, unsigned ndim,
                              const int64_t *shape, const int64_t *strides, struct leat_buffer *buffer,
                              struct leat_slot *slot, struct leat_device_buffer *there)
{
    struct dl_block *block = malloc(sizeof *block);
    if (!block)
        return PyErr_NoMemory();
    block->buffer = buffer;
    block->slot = slot;
    block->there = there;
    block->managed = (struct dl_managed){
        .tensor = {.data = data,
                   .device = device,
                   .ndim = (int32_t)ndim,
                   .dtype = type,
                   .shape = block->shape,
                   .strides = block->strides},
        .deleter = dl_delete,
    };
    int64_t dense = 1;
    for (unsigned i = ndim; i-- > 0;) {
        block->shape[i] = shape[i];
        block->strides[i] = strides ? strides[i] : dense;
        dense *= shape[i];
    }
    PyObject *capsule = PyCapsule_New(&block->managed, "dltensor", capsule_free);
    if (!capsule) {
        free(block);
        return NULL;
    }
    if (slot)
        leat_slot_retain(slot);
    else if (there)
        leat_device_buffer_retain(there);
    else
        leat_buffer_retain(buffer);
    return capsule;
}

static PyObject *capsule_of(void *data, struct dl_type type, unsigned ndim, const int64_t *shape,
                            const int64_t *strides, struct leat_buffer *buffer, struct leat_slot *slot)
{
    return capsule_over((struct dl_device){DL_CPU, 0}, data, type, ndim, shape, strides, buffer, slot, NULL);
}

PyObject *py_dlpack_there(int type, int number, const struct leat_device_tensor *t, bool offsets, uint64_t rows)
{
    const struct dl_device device = {type, number};
    const enum leat_dtype dtype = offsets ? LEAT_I64 : t->tensor.dtype;
    const struct dl_type dl = {types[dtype].code, types[dtype].bits, 1};
    const int64_t n = (int64_t)rows + 1;
    return offsets ? capsule_over(device, (void *)(uintptr_t)t->tensor.offsets, dl, 1, &n, NULL, NULL, NULL, t->owner)
                   : capsule_over(device, t->tensor.data, dl, t->tensor.ndim, t->tensor.shape, t->tensor.strides, NULL,
                                  NULL, t->owner);
}

PyObject *py_dlpack_of_tensor(const struct leat_tensor *t, bool offsets, uint64_t rows)
{
    const enum leat_dtype dtype = offsets ? LEAT_I64 : t->dtype;
    const struct dl_type type = {types[dtype].code, types[dtype].bits, 1};
    const int64_t n = (int64_t)rows + 1;
    return offsets ? capsule_of((void *)(uintptr_t)t->offsets, type, 1, &n, NULL, t->buffer, NULL)
                   : capsule_of(t->data, type, t->ndim, t->shape, t->strides, t->buffer, NULL);
}

PyObject *py_dlpack_of_slot(struct leat_slot *slot, uint64_t offset, uint8_t code, uint8_t bits, unsigned ndim,
                            const int64_t *shape)
{
    const struct dl_type type = {code, bits, 1};
    return capsule_of((uint8_t *)leat_slot_data(slot) + offset, type, ndim, shape, NULL, NULL, slot);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

struct memory {
    PyObject_HEAD void *data;
    enum leat_dtype dtype;
    bool readonly;
    int ndim;
    Py_ssize_t bytes;
    Py_ssize_t shape[LEAT_MAX_DIMS], strides[LEAT_MAX_DIMS]; /* strides in bytes */
    struct leat_buffer *buffer;
    struct leat_slot *slot;
    struct leat_value value;
    PyObject *dataset;
    void *block;
};

static struct memory *memory_new(void *data, enum leat_dtype dtype, unsigned ndim, const int64_t *shape,
                                 const int64_t *strides)
{
    struct memory *m = py_object_new(py_memory_type);
    Py_ssize_t size = (Py_ssize_t)leat_dtype_size(dtype);
    if (!m)
        return NULL;
    m->data = data;
    m->dtype = dtype;
    m->ndim = (int)ndim;
    m->bytes = size;
    for (unsigned i = ndim; i-- > 0;) {
        m->shape[i] = (Py_ssize_t)shape[i];
        m->strides[i] = strides ? (Py_ssize_t)strides[i] * size : m->bytes;
        m->bytes *= (Py_ssize_t)shape[i];
    }
    return m;
}

PyObject *py_memory_of_tensor(const struct leat_tensor *t, bool offsets, uint64_t rows, bool readonly)
{
    int64_t n = (int64_t)rows + 1;
    struct memory *m = offsets ? memory_new((void *)(uintptr_t)t->offsets, LEAT_I64, 1, &n, NULL)
                               : memory_new(t->data, t->dtype, t->ndim, t->shape, t->strides);
    if (!m)
        return NULL;
    leat_buffer_retain(t->buffer);
    m->buffer = t->buffer;
    m->readonly = readonly;
    return (PyObject *)m;
}

PyObject *py_memory_of_value(struct leat_value *value, PyObject *dataset)
{
    struct memory *m = memory_new((void *)(uintptr_t)value->data, value->dtype, value->ndim, value->shape, NULL);
    if (!m) {
        leat_value_clear(value);
        return NULL;
    }
    m->value = *value;
    m->readonly = dataset != NULL;
    m->dataset = Py_XNewRef(dataset);
    return (PyObject *)m;
}

PyObject *py_memory_of_slot(struct leat_slot *slot, uint64_t offset, uint64_t bytes)
{
    int64_t n = (int64_t)bytes;
    struct memory *m = memory_new((uint8_t *)leat_slot_data(slot) + offset, LEAT_U8, 1, &n, NULL);
    if (!m)
        return NULL;
    leat_slot_retain(slot);
    m->slot = slot;
    return (PyObject *)m;
}

PyObject *py_memory_copy(const void *data, enum leat_dtype dtype, uint64_t count)
{
    int64_t n = (int64_t)count;
    size_t bytes = (size_t)count * leat_dtype_size(dtype);
    void *block = malloc(bytes ? bytes : 1);
    if (!block)
        return PyErr_NoMemory();
    if (bytes)
        memcpy(block, data, bytes);
    struct memory *m = memory_new(block, dtype, 1, &n, NULL);
    if (!m) {
        free(block);
        return NULL;
    }
    m->block = block;
    return (PyObject *)m;
}

static void memory_dealloc(PyObject *self)
{
    struct memory *m = (struct memory *)self;
    if (m->buffer)
        leat_buffer_release(m->buffer);
    leat_slot_release(m->slot);
    leat_value_clear(&m->value); /* of another memory it is all zero */
    Py_XDECREF(m->dataset);
    free(m->block);
    py_object_free(self);
}

static bool contiguous(const struct memory *m)
{
    Py_ssize_t expected = (Py_ssize_t)leat_dtype_size(m->dtype);
    for (int i = m->ndim; i-- > 0;) {
        if (m->shape[i] != 1 && m->strides[i] != expected)
            return m->bytes == 0;
        expected *= m->shape[i];
    }
    return true;
}

static int memory_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    struct memory *m = (struct memory *)self;
    const char *format = types[m->dtype].format;
    view->obj = NULL;
    if (m->readonly && (flags & PyBUF_WRITABLE)) {
        PyErr_SetString(PyExc_BufferError, "this memory is read-only");
        return -1;
    }
    bool wants_c = !(flags & PyBUF_STRIDES) || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS || (wants_c && !contiguous(m))) {
        PyErr_SetString(PyExc_BufferError, "this memory is not contiguous in the order that was asked for");
        return -1;
    }
    *view = (Py_buffer){
        .buf = m->data,
        .obj = Py_NewRef(self),
        .len = m->bytes,
        .itemsize = (Py_ssize_t)leat_dtype_size(m->dtype),
        .readonly = m->readonly,
        .ndim = flags & PyBUF_ND ? m->ndim : 1,
        .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)format : NULL,
        .shape = flags & PyBUF_ND ? m->shape : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? m->strides : NULL,
    };
    return 0;
}

static PyObject *memory_orientation(PyObject *self, void *closure)
{
    return PyLong_FromLong(((struct memory *)self)->value.orientation);
}

static PyGetSetDef memory_attributes[] = {
    {"orientation", memory_orientation, NULL,
     "The EXIF orientation of a photo that is stored as pixels, which says it nowhere else; else 0.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, (void *)"A piece of memory of the library, for the buffer protocol."},
    {Py_tp_dealloc, (void *)memory_dealloc},
    {Py_tp_getset, memory_attributes},
    {Py_bf_getbuffer, (void *)memory_getbuffer},
    {0, NULL},
};

PyType_Spec py_memory_spec = PY_TYPE(Memory, struct memory, memory_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
