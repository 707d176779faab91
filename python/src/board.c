/*
 * Slots, pools and boards (worker/worker.h) as Python objects. A board is used by one thread at a time; waiting is done
 * without the GIL.
 */
#include "leat_py.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Methods that take a number `n`, and properties that are numbers: their values for `self`. */
#define METHOD_OF_NUMBER(name, value)                                                                                  \
    static PyObject *name(PyObject *self, PyObject *number)                                                            \
    {                                                                                                                  \
        const unsigned long long n = PyLong_AsUnsignedLongLong(number);                                                \
        return n == (unsigned long long)-1 && PyErr_Occurred() ? NULL : (value);                                       \
    }
#define PROPERTY(name, number)                                                                                         \
    static PyObject *name(PyObject *self, void *closure)                                                               \
    {                                                                                                                  \
        return PyLong_FromUnsignedLongLong(number);                                                                    \
    }

/* ---- Slot ------------------------------------------------------------------------------------ */

struct slot {
    PyObject_HEAD struct leat_slot *handle;
};

struct leat_slot *py_slot_handle(PyObject *object)
{
    if (Py_TYPE(object) != py_slot_type) {
        PyErr_SetString(PyExc_TypeError, "a Slot is expected");
        return NULL;
    }
    return ((struct slot *)object)->handle;
}

PyObject *py_slot_make(uint64_t bytes)
{
    struct leat_error error;
    struct slot *s = py_object_new(py_slot_type);
    if (!s)
        return NULL;
    int rc = leat_slot_new(bytes ? bytes : 1, &s->handle, &error);
    if (rc) {
        Py_DECREF(s);
        return py_raise(&error);
    }
    return (PyObject *)s;
}

static PyObject *slot_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    unsigned long long bytes;
    return PyArg_ParseTuple(args, "K:Slot", &bytes) ? py_slot_make(bytes) : NULL;
}

static void slot_dealloc(PyObject *self)
{
    leat_slot_release(((struct slot *)self)->handle);
    py_object_free(self);
}

static bool in_slot(const struct leat_slot *s, unsigned long long offset, unsigned long long bytes)
{
    if (offset <= leat_slot_bytes(s) && bytes <= leat_slot_bytes(s) - offset)
        return true;
    PyErr_SetString(PyExc_IndexError, "a piece outside of its slot");
    return false;
}

static PyObject *slot_memory(PyObject *self, PyObject *args)
{
    struct leat_slot *s = ((struct slot *)self)->handle;
    unsigned long long offset, bytes;
    if (!PyArg_ParseTuple(args, "KK:memory", &offset, &bytes) || !in_slot(s, offset, bytes))
        return NULL;
    return py_memory_of_slot(s, offset, bytes);
}

PROPERTY(slot_offset, leat_slot_offset(((struct slot *)self)->handle))
PROPERTY(slot_bytes, leat_slot_bytes(((struct slot *)self)->handle))

static PyMethodDef slot_methods[] = {
    {"memory", slot_memory, METH_VARARGS, "memory(offset, bytes): a writable Memory of uint8"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef slot_getters[] = {
    {"offset", slot_offset, NULL, "what names it in workers", NULL},
    {"bytes", slot_bytes, NULL, "its size: whole pages", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slot_slots[] = {
    {Py_tp_doc, (void *)"Slot(bytes): a piece of the memory shared with workers."},
    {Py_tp_new, (void *)slot_new},
    {Py_tp_dealloc, (void *)slot_dealloc},
    {Py_tp_methods, slot_methods},
    {Py_tp_getset, slot_getters},
    {0, NULL},
};
PyType_Spec py_slot_spec = PY_TYPE(Slot, struct slot, slot_slots, 0);

/* ---- Pool ------------------------------------------------------------------------------------ */

struct pool {
    PyObject_HEAD struct leat_pool *handle;
};

static PyObject *pool_of(PyTypeObject *type, int rc, struct leat_pool *handle, const struct leat_error *error)
{
    if (rc)
        return py_raise(error);
    struct pool *p = py_object_new(type);
    if (!p) {
        leat_pool_free(handle);
        return NULL;
    }
    p->handle = handle;
    return (PyObject *)p;
}

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    unsigned n;
    struct leat_pool *handle = NULL;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "I:Pool", &n))
        return NULL;
    int rc = leat_pool_new(n, &handle, &error);
    return pool_of(type, rc, handle, &error);
}

static PyObject *pool_attach(PyObject *type, PyObject *args)
{
    unsigned long long offset;
    unsigned worker;
    int thread;
    struct leat_pool *handle = NULL;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "KIp:attach", &offset, &worker, &thread))
        return NULL;
    int rc = leat_pool_attach(offset, worker, thread, &handle, &error);
    return pool_of((PyTypeObject *)type, rc, handle, &error);
}

static void pool_dealloc(PyObject *self)
{
    leat_pool_free(((struct pool *)self)->handle);
    py_object_free(self);
}

PY_METHOD(pool_wake, (leat_pool_wake(((struct pool *)self)->handle), Py_NewRef(Py_None)))
PY_METHOD(pool_seen, PyLong_FromUnsignedLong(leat_pool_seen(((struct pool *)self)->handle)))

PY_PROCEDURE(pool_sleep, unsigned seen;
             long long timeout_ms, PY_WITHOUT_GIL(leat_pool_sleep(((struct pool *)self)->handle, seen, timeout_ms)),
             "IL:sleep", &seen, &timeout_ms)

static PyObject *pool_worker(PyObject *self, PyObject *args)
{
    unsigned worker;
    struct leat_pool_worker w;
    if (!PyArg_ParseTuple(args, "I:worker", &worker))
        return NULL;
    leat_pool_worker(((struct pool *)self)->handle, worker, &w);
    return Py_BuildValue("KKIII", (unsigned long long)w.board, (unsigned long long)w.serial, w.row, w.units,
                         w.messages);
}

PY_METHOD(pool_messages, PyLong_FromUnsignedLong(leat_pool_messages(((struct pool *)self)->handle)))
METHOD_OF_NUMBER(pool_forget, (leat_pool_forget(((struct pool *)self)->handle, (unsigned)n), Py_NewRef(Py_None)))
METHOD_OF_NUMBER(pool_resize, (leat_pool_resize(((struct pool *)self)->handle, (unsigned)n), Py_NewRef(Py_None)))
PROPERTY(pool_offset, leat_pool_offset(((struct pool *)self)->handle))

static PyMethodDef pool_methods[] = {
    {"attach", pool_attach, METH_VARARGS | METH_CLASS, "attach(offset, worker, thread): in a worker"},
    {"resize", pool_resize, METH_O, "resize(n): so many work now"},
    {"wake", pool_wake, METH_NOARGS, "wake(): every worker that sleeps"},
    {"seen", pool_seen, METH_NOARGS, "seen(): what sleep() takes"},
    {"sleep", pool_sleep, METH_VARARGS, "sleep(seen, timeout_ms): until something was published since"},
    {"worker", pool_worker, METH_VARARGS, "worker(i): (board, serial or 0, row, units, messages)"},
    {"messages", pool_messages, METH_NOARGS, "messages(): announced by all workers so far, modulo 2^32"},
    {"forget", pool_forget, METH_O, "forget(i): it is dead"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef pool_getters[] = {{"offset", pool_offset, NULL, "what names it in workers", NULL},
                                     {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot pool_slots[] = {
    {Py_tp_doc, (void *)"Pool(n_workers): the part that workers have in common."},
    {Py_tp_new, (void *)pool_new},
    {Py_tp_dealloc, (void *)pool_dealloc},
    {Py_tp_methods, pool_methods},
    {Py_tp_getset, pool_getters},
    {0, NULL},
};
PyType_Spec py_pool_spec = PY_TYPE(Pool, struct pool, pool_slots, 0);

/* ---- Board ----------------------------------------------------------------------------------- */

struct board {
    PyObject_HEAD struct leat_board *handle;
    PyObject *pool;
    struct leat_board_unit unit;
};

static struct leat_board *handle_of(PyObject *self)
{
    return ((struct board *)self)->handle;
}

struct leat_board *py_board_handle(PyObject *object)
{
    if (Py_TYPE(object) == py_board_type)
        return handle_of(object);
    PyErr_SetString(PyExc_TypeError, "a Board is expected");
    return NULL;
}

struct leat_board_unit *py_board_unit(PyObject *object)
{
    return &((struct board *)object)->unit;
}

static PyObject *board_of(PyTypeObject *type, PyObject *pool, int rc, struct leat_board *handle,
                          const struct leat_error *error)
{
    if (rc)
        return py_raise(error);
    struct board *b = py_object_new(type);
    if (!b) {
        leat_board_free(handle);
        return NULL;
    }
    b->handle = handle;
    b->pool = Py_NewRef(pool);
    return (PyObject *)b;
}

static PyObject *board_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *pool;
    unsigned entries, units;
    double unit_ns, weight;
    struct leat_board *handle = NULL;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "O!IIdd:Board", py_pool_type, &pool, &entries, &units, &unit_ns, &weight))
        return NULL;
    int rc = leat_board_new(((struct pool *)pool)->handle, entries, units, unit_ns, weight, &handle, &error);
    return board_of(type, pool, rc, handle, &error);
}

static PyObject *board_attach(PyObject *type, PyObject *args)
{
    PyObject *pool;
    unsigned long long offset;
    int thread;
    struct leat_board *handle = NULL;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "O!Kp:attach", py_pool_type, &pool, &offset, &thread))
        return NULL;
    int rc = leat_board_attach(((struct pool *)pool)->handle, offset, thread, &handle, &error);
    return board_of((PyTypeObject *)type, pool, rc, handle, &error);
}

static void board_dealloc(PyObject *self)
{
    leat_board_free(handle_of(self));
    Py_XDECREF(((struct board *)self)->pool);
    py_object_free(self);
}

/* Offsets of slots, from a tuple of these. */
static int take_offsets(PyObject *tuple, uint64_t *offsets, uint32_t *n)
{
    Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
    if (count < 0 || count > LEAT_BOARD_BUFFERS) {
        PyErr_SetString(PyExc_TypeError, "buffers are a tuple of at most 32 slots");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        struct leat_slot *slot = py_slot_handle(PyTuple_GetItem(tuple, i));
        if (!slot)
            return -1;
        offsets[i] = leat_slot_offset(slot);
    }
    *n = (uint32_t)count;
    return 0;
}

PY_METHOD(board_next, PyLong_FromUnsignedLongLong(leat_board_next(handle_of(self))))

static PyObject *board_publish(PyObject *self, PyObject *args)
{
    struct leat_board_batch b = {0};
    unsigned long long serial, payload, payload_bytes, seed, epoch, first_row, capacity;
    PyObject *buffers;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "KIIiIIKKKKKKO:publish", &serial, &b.rows, &b.run, &b.owner, &b.layout, &b.kind,
                          &payload, &payload_bytes, &seed, &epoch, &first_row, &capacity, &buffers) ||
        take_offsets(buffers, b.buffers, &b.n_buffers))
        return NULL;
    b.serial = serial;
    b.payload = payload;
    b.payload_bytes = payload_bytes;
    b.seed = seed;
    b.epoch = epoch;
    b.first_row = first_row;
    b.capacity = capacity;
    return py_none_or_raise(leat_board_publish(handle_of(self), &b, &error), &error);
}

static PyObject *board_place(PyObject *self, PyObject *args)
{
    unsigned long long serial;
    unsigned layout;
    uint32_t n;
    uint64_t offsets[LEAT_BOARD_BUFFERS];
    PyObject *buffers;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "KIO:place", &serial, &layout, &buffers) || take_offsets(buffers, offsets, &n))
        return NULL;
    return py_none_or_raise(leat_board_place(handle_of(self), serial, layout, offsets, n, &error), &error);
}

METHOD_OF_NUMBER(board_complete, PyBool_FromLong(leat_board_complete(handle_of(self), n)))
PY_PROCEDURE(board_received, unsigned long long serial;
             unsigned unit, leat_board_received(handle_of(self), serial, unit, 0), "KI:received", &serial, &unit)

METHOD_OF_NUMBER(board_retire, (leat_board_retire(handle_of(self), n), Py_NewRef(Py_None)))
METHOD_OF_NUMBER(board_cancel, PyBool_FromLong(leat_board_cancel(handle_of(self), n)))

static void gone(void *user, uint64_t serial, uint32_t row)
{
    if (!PyErr_Occurred())
        Py_XDECREF(PyObject_CallFunction(user, "KI", (unsigned long long)serial, row));
}

static PyObject *board_requeue(PyObject *self, PyObject *args)
{
    unsigned worker;
    PyObject *callback;
    if (!PyArg_ParseTuple(args, "IO:requeue", &worker, &callback))
        return NULL;
    unsigned n = leat_board_requeue(handle_of(self), worker, gone, callback);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLong(n);
}

PY_METHOD(board_ns_per_row, PyFloat_FromDouble(leat_board_ns_per_row(handle_of(self))))
PY_METHOD(board_seen, PyLong_FromUnsignedLong(leat_board_seen(handle_of(self))))

PY_PROCEDURE(board_wait, unsigned seen; long long timeout_ms,
                                        PY_WITHOUT_GIL(leat_board_wait(handle_of(self), seen, timeout_ms)), "IL:wait",
                                        &seen, &timeout_ms)

PY_METHOD(board_close, (leat_board_close(handle_of(self)), Py_NewRef(Py_None)))
PY_METHOD(board_closed, PyBool_FromLong(leat_board_closed(handle_of(self))))

static PyObject *board_take(PyObject *self, PyObject *none)
{
    struct leat_board_unit *u = &((struct board *)self)->unit;
    struct leat_error error;
    if (!leat_board_take(handle_of(self), u))
        Py_RETURN_NONE;
    if (leat_share_follow(&error))
        return py_raise(&error);
    const struct leat_board_batch *b = &u->batch;
    int64_t offsets[LEAT_BOARD_BUFFERS]; /* below 2^63 */
    for (uint32_t i = 0; i < b->n_buffers; i++)
        offsets[i] = (int64_t)b->buffers[i];
    PyObject *buffers = py_integers(offsets, b->n_buffers);
    if (!buffers)
        return NULL;
    return Py_BuildValue("KIIIIIIKKKKKKN", (unsigned long long)b->serial, u->unit, u->first, u->n, b->rows, b->layout,
                         b->kind, (unsigned long long)b->payload, (unsigned long long)b->payload_bytes,
                         (unsigned long long)b->seed, (unsigned long long)b->epoch, (unsigned long long)b->first_row,
                         (unsigned long long)b->capacity, buffers);
}

METHOD_OF_NUMBER(board_at_row, (leat_board_at_row(handle_of(self), (uint32_t)n), Py_NewRef(Py_None)))
PY_METHOD(board_message, (leat_board_message(handle_of(self)), Py_NewRef(Py_None)))

PY_PROCEDURE(board_finish, int sent, leat_board_finish(handle_of(self), &((struct board *)self)->unit, sent),
             "p:finish", &sent)

static PyObject *board_view(PyObject *self, PyObject *args)
{
    unsigned long long offset;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "Kn:view", &offset, &bytes))
        return NULL;
    return PyMemoryView_FromMemory(leat_board_at(handle_of(self), offset), bytes, PyBUF_WRITE);
}

PY_METHOD(board_served_ns, PyLong_FromUnsignedLongLong(leat_board_served_ns(handle_of(self))))
METHOD_OF_NUMBER(board_start_at, (leat_board_start_at(handle_of(self), n), Py_NewRef(Py_None)))
PROPERTY(board_offset, leat_board_offset(handle_of(self)))

static PyMethodDef board_methods[] = {
    {"attach", board_attach, METH_VARARGS | METH_CLASS, "attach(pool, offset, thread): in a worker"},
    {"next", board_next, METH_NOARGS, "next(): the serial of the next batch; 0: there is no place for it"},
    {"publish", board_publish, METH_VARARGS,
     "publish(serial, rows, run, owner, layout, kind, payload, payload_bytes, seed, epoch, first_row, capacity, "
     "buffers)"},
    {"place", board_place, METH_VARARGS, "place(serial, layout, buffers): where the rows of a published batch go"},
    {"complete", board_complete, METH_O, "complete(serial)"},
    {"received", board_received, METH_VARARGS, "received(serial, unit): its message is here"},
    {"retire", board_retire, METH_O, "retire(serial): its entry is free"},
    {"cancel", board_cancel, METH_O, "cancel(serial): whether nothing of it runs"},
    {"requeue", board_requeue, METH_VARARGS,
     "requeue(worker, gone): what a dead worker had; gone(serial, row) is told of a row that has ended three"},
    {"ns_per_row", board_ns_per_row, METH_NOARGS, "ns_per_row(): of batches that were cut by it; 0: not known yet"},
    {"seen", board_seen, METH_NOARGS, "seen(): what wait() takes"},
    {"wait", board_wait, METH_VARARGS, "wait(seen, timeout_ms)"},
    {"close", board_close, METH_NOARGS, "close(): workers take nothing more"},
    {"closed", board_closed, METH_NOARGS, "closed()"},
    {"take", board_take, METH_NOARGS,
     "take(): None, or (serial, unit, first, n, rows, layout, kind, payload, payload_bytes, seed, epoch, first_row, "
     "capacity, buffers)"},
    {"at_row", board_at_row, METH_O, "at_row(row): of the batch"},
    {"message", board_message, METH_NOARGS, "message(): one is being sent"},
    {"finish", board_finish, METH_VARARGS, "finish(sent): the unit that was taken"},
    {"view", board_view, METH_VARARGS, "view(offset, bytes): a memoryview of a slot, in a worker"},
    {"served_ns", board_served_ns, METH_NOARGS, "served_ns(): time of workers over the board's weight"},
    {"start_at", board_start_at, METH_O, "start_at(served_ns)"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef board_getters[] = {{"offset", board_offset, NULL, "what names it in workers", NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot board_slots[] = {
    {Py_tp_doc, (void *)"Board(pool, n_entries, max_units, unit_ns, weight): the rows that workers are to make."},
    {Py_tp_new, (void *)board_new},
    {Py_tp_dealloc, (void *)board_dealloc},
    {Py_tp_methods, board_methods},
    {Py_tp_getset, board_getters},
    {0, NULL},
};
PyType_Spec py_board_spec = PY_TYPE(Board, struct board, board_slots, 0);

/* ---- functions ------------------------------------------------------------------------------- */

PyObject *py_share_descriptor(PyObject *module, PyObject *none)
{
    int fd;
    struct leat_error error;
    (void)module, (void)none;
    return leat_share_descriptor(&fd, &error) ? py_raise(&error) : PyLong_FromLong(fd);
}

/* With a descriptor. */
static PyObject *call_with(PyObject *descriptor, int (*call)(int fd, struct leat_error *error))
{
    struct leat_error error;
    long fd = PyLong_AsLong(descriptor);
    return fd == -1 && PyErr_Occurred() ? NULL : py_none_or_raise(call((int)fd, &error), &error);
}

PyObject *py_share_attach(PyObject *module, PyObject *descriptor)
{
    return call_with(descriptor, leat_share_attach);
}

PyObject *py_share_used(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromUnsignedLongLong(leat_share_used());
}

PyObject *py_share_trim(PyObject *module, PyObject *keep)
{
    unsigned long long bytes = PyLong_AsUnsignedLongLong(keep);
    if (bytes == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    PY_WITHOUT_GIL(leat_share_trim(bytes));
    Py_RETURN_NONE;
}

PyObject *py_worker_watch(PyObject *module, PyObject *descriptor)
{
    return call_with(descriptor, leat_worker_watch);
}

/* `os` lacks these two in a Python that was built with old headers, as those of conda and uv were. */
PyObject *py_process_descriptor(PyObject *module, PyObject *pid)
{
    const long number = PyLong_AsLong(pid);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    const long fd = syscall(SYS_pidfd_open, number, 0);
    return fd < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(fd);
}

PyObject *py_memory_file(PyObject *module, PyObject *bytes)
{
    const long long size = PyLong_AsLongLong(bytes);
    if (size == -1 && PyErr_Occurred())
        return NULL;
    const int fd = memfd_create("leat", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, size)) {
        PyErr_SetFromErrno(PyExc_OSError);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    return PyLong_FromLong(fd);
}

PyObject *py_order_shuffled(PyObject *module, PyObject *args)
{
    unsigned long long count, seed, epoch, first, n;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "KKKKK:order_shuffled", &count, &seed, &epoch, &first, &n))
        return NULL;
    int64_t *positions = malloc(n ? n * sizeof *positions : 1);
    if (!positions)
        return PyErr_NoMemory();
    int rc = leat_order_shuffled(count, seed, epoch, first, n, positions, &error);
    PyObject *memory = rc ? py_raise(&error) : py_memory_copy(positions, LEAT_I64, n);
    free(positions);
    return memory;
}

PyObject *py_row_key(PyObject *module, PyObject *args)
{
    unsigned long long seed, epoch, row;
    if (!PyArg_ParseTuple(args, "KKK:row_key", &seed, &epoch, &row))
        return NULL;
    return PyLong_FromUnsignedLongLong(leat_row_key(seed, epoch, row));
}

PyObject *py_substitutes(PyObject *module, PyObject *args)
{
    unsigned long long row_key, count, broken;
    if (!PyArg_ParseTuple(args, "KKK:substitutes", &row_key, &count, &broken))
        return NULL;
    PyObject *list = PyList_New(0);
    for (unsigned i = 0; list && i < LEAT_MAX_SUBSTITUTES; i++)
        py_list_add(&list, PyLong_FromUnsignedLongLong(leat_order_substitute(row_key, i, count, broken)));
    return list;
}

/* region_join(memory) -> capsule: this process's row in the table of holders of a loader's region; `memory`, writable,
 * is the beginning of the region. It has to outlive the row. */
PyObject *py_region_join(PyObject *module, PyObject *memory)
{
    Py_buffer view;
    struct leat_holder *row;
    struct leat_error error;
    if (PyObject_GetBuffer(memory, &view, PyBUF_WRITABLE))
        return NULL;
    int rc = leat_region_join(view.buf, (uint64_t)view.len, &row, &error);
    PyBuffer_Release(&view);
    return rc ? py_raise(&error) : PyCapsule_New(row, "leat.holder", NULL);
}

/* For each offset of a list. */
static PyObject *change_holds(PyObject *args, bool hold)
{
    PyObject *capsule, *list;
    if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyList_Type, &list))
        return NULL;
    struct leat_holder *row = PyCapsule_GetPointer(capsule, "leat.holder");
    for (Py_ssize_t i = 0; row && i < PyList_Size(list); i++) {
        const uint64_t offset = PyLong_AsUnsignedLongLong(PyList_GetItem(list, i));
        if (offset == UINT64_MAX && PyErr_Occurred())
            return NULL;
        if (!hold) {
            leat_holder_drop(row, offset);
        } else if (!leat_holder_hold(row, offset)) {
            while (i--)
                leat_holder_drop(row, PyLong_AsUnsignedLongLong(PyList_GetItem(list, i)));
            PyErr_SetString(PyExc_MemoryError, "too many processes hold memory of this loader: use fewer workers, or "
                                               "fewer outputs with functions");
            return NULL;
        }
    }
    return row ? Py_NewRef(Py_None) : NULL;
}

/* region_hold(row, offsets), region_drop(row, offsets) */
PyObject *py_region_hold(PyObject *module, PyObject *args)
{
    return change_holds(args, true);
}

PyObject *py_region_drop(PyObject *module, PyObject *args)
{
    return change_holds(args, false);
}
