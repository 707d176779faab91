/*
 * The extension module leat._leat: the common part of its files.
 *
 * The module is thin: objects around the handles of leat/leat.h, and memory given to NumPy and PyTorch without copying.
 * Everything that a user sees is written in Python beside it. It is built over CPython's limited API, so that one
 * binary serves every version from 3.11 on.
 *
 * State is in static variables: the module refuses to be imported by a second interpreter of a process.
 *
 * Locks. The handles of the library are for one thread at a time, and calls that may wait run without the GIL: each
 * object that can change therefore has a mutex (struct py_guard). It is taken only with py_guard_lock, which never
 * waits for it while holding the GIL. A thread that waits in the library runs signal handlers meanwhile
 * (py_interrupted), so the thread that holds the mutex may take it again: to ask, not to change anything.
 */
#ifndef LEAT_PY_H
#define LEAT_PY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "leat/leat.h"
#include "worker/worker.h"

#if !defined(Py_LIMITED_API)
#error "build with Py_LIMITED_API"
#endif

/* Types, made when the module is imported. */
/* clang-format off */
#define PY_TYPES(X)                                                                                                    \
    X(memory) X(dataset) X(writer) X(loader) X(consumer) X(batch) X(slot) X(pool) X(board) X(layout) X(chain)          \
    X(executor) X(port) X(attached) X(table) X(columns) X(device_rows)                               \
    X(device_batches) X(device_batch) X(device_mirrors)
/* clang-format on */
#define PY_DECLARE_TYPE(NAME)                                                                                          \
    extern PyTypeObject *py_##NAME##_type;                                                                             \
    extern PyType_Spec py_##NAME##_spec;
PY_TYPES(PY_DECLARE_TYPE)

/* Sets the Python exception that belongs to the error and returns NULL. */
PyObject *py_raise(const struct leat_error *error);
/* The same with a text and no place. */
PyObject *py_raise_text(int code, const char *message);

/* None, or NULL with the exception. */
PyObject *py_none_or_raise(int rc, const struct leat_error *error);

/* Appends an item and releases it. If it is NULL, or there is no memory, the list is given up: NULL. */
void py_list_add(PyObject **list, PyObject *item);

/* A tuple of integers. */
PyObject *py_integers(const int64_t *values, size_t n);

/* An object of a heap type, all zero behind its head; and the end of its memory. */
void *py_object_new(PyTypeObject *type);
void py_object_free(PyObject *self);

#define PY_WITHOUT_GIL(statement)                                                                                      \
    do {                                                                                                               \
        Py_BEGIN_ALLOW_THREADS;                                                                                        \
        statement;                                                                                                     \
        Py_END_ALLOW_THREADS;                                                                                          \
    } while (0)
/* A method without arguments that is one expression of `self`. */
#define PY_METHOD(NAME, RESULT)                                                                                        \
    static PyObject *NAME(PyObject *self, PyObject *none)                                                              \
    {                                                                                                                  \
        return RESULT;                                                                                                 \
    }
/* Methods that parse their arguments into DECLARATIONS: FORMAT, and their addresses. PY_PROCEDURE carries out a
 * statement and gives None. PY_CHECKED makes a call whose result is an error code, from `error`. */
#define PY_PROCEDURE(NAME, DECLARATIONS, STATEMENT, ...)                                                               \
    static PyObject *NAME(PyObject *self, PyObject *args)                                                              \
    {                                                                                                                  \
        DECLARATIONS;                                                                                                  \
        if (!PyArg_ParseTuple(args, __VA_ARGS__))                                                                      \
            return NULL;                                                                                               \
        STATEMENT;                                                                                                     \
        Py_RETURN_NONE;                                                                                                \
    }
#define PY_CHECKED(NAME, DECLARATIONS, CALL, ...)                                                                      \
    static PyObject *NAME(PyObject *self, PyObject *args)                                                              \
    {                                                                                                                  \
        struct leat_error error;                                                                                       \
        DECLARATIONS;                                                                                                  \
        return PyArg_ParseTuple(args, __VA_ARGS__) ? py_none_or_raise(CALL, &error) : NULL;                            \
    }
#define PY_TYPE(NAME, STRUCT, SLOTS, FLAGS)                                                                            \
    {                                                                                                                  \
        .name = "leat._leat." #NAME, .basicsize = sizeof(STRUCT), .flags = Py_TPFLAGS_DEFAULT | (FLAGS),               \
        .slots = SLOTS                                                                                                 \
    }

/* A converter for PyArg_Parse ("O&"): a path to bytes; None to NULL. The result is a new reference. */
int py_path_or_none(PyObject *object, void *out);
/* JSON or other text that the library allocated: to str, and freed. */
PyObject *py_text_take(char *text);

struct py_guard {
    pthread_mutex_t mutex;
    _Atomic(const void *) owner; /* the thread that holds it, or NULL */
    unsigned depth;              /* how often the owner has taken it again */
    atomic_int waiting; /* threads that wait for the mutex: a thread that takes it again and again lets them pass */
    pid_t pid;          /* the process that made it: a forked child finds the mutex in an unknown state */
};
void py_guard_init(struct py_guard *guard);
void py_guard_destroy(struct py_guard *guard);
bool py_guard_here(const struct py_guard *guard); /* false in a forked child */
bool py_guard_try(struct py_guard *guard);
void py_guard_lock(struct py_guard *guard); /* with the GIL held; it is let go while waiting */
void py_guard_lock_without_gil(struct py_guard *guard);
void py_guard_unlock(struct py_guard *guard);
bool py_guard_mine(const struct py_guard *guard); /* this thread holds it: a signal handler runs within a call */

/*
 * Memory: a piece of memory that Python can see through the buffer protocol. Exactly one of these keeps it alive:
 * a reference to a buffer of a batch, a value read from a data set (with the data set), a block of our own.
 */
PyObject *py_memory_of_tensor(const struct leat_tensor *tensor, bool offsets, uint64_t rows, bool readonly);
/* Takes the value over: read-only, and kept with its data set, or (NULL) the caller's own. */
PyObject *py_memory_of_value(struct leat_value *value, PyObject *dataset);
PyObject *py_memory_copy(const void *data, enum leat_dtype dtype, uint64_t count);

/* A reader of batches (consumer.c): a further consumer of a loader is this, a loader and a reader attached to a port
 * begin with it. */
struct py_reader;
struct py_reader_kind {
    const char *closed, *forked; /* the texts of errors */
    bool asks;                   /* a batch may have to be asked for elsewhere, where Python may have to run */
    void (*end)(struct py_reader *reader); /* forgets what it reads and closes it, which happens without the GIL; does
                                            * nothing in a forked child */
};
struct py_reader {
    PyObject_HEAD struct py_guard guard;
    const struct py_reader_kind *kind;
    struct leat_consumer *consumer; /* NULL: closed */
    bool readonly;                  /* its batches */
    atomic_bool closing;
    unsigned long taker; /* the thread that was given the last batch, within its step; 0: none. With the GIL */
};
/* A closed reader of a type whose objects begin with one. Once it is opened (rc) and has its consumer: the object, or
 * NULL with an exception, of a signal handler too. */
void *py_reader_new(PyTypeObject *type, const struct py_reader_kind *kind);
PyObject *py_opened(PyObject *made, int rc, const struct leat_error *error);
/* Its handle with the guard taken, or NULL with an exception. For questions; enter, too, for changes, which no signal
 * handler may make within a call. */
struct leat_consumer *py_reader_look(struct py_reader *reader);
struct leat_consumer *py_reader_enter(struct py_reader *reader);
/* Closes it, if it is not; for dealloc. */
void py_reader_end(struct py_reader *reader);
/* The result of a call that gave ids, which are freed, or a batch. */
PyObject *py_ids_take(bool ok, int64_t *ids, uint64_t n);
PyObject *py_reader_batch(bool ok, const struct py_reader *reader, struct leat_batch *batch);
/* Sets the exception that says so. NULL. */
PyObject *py_raise_within(void);
/* A call of the library's that may wait, with the guard taken and without the GIL. `ok`: whether it succeeded; else
 * there is an exception, from its `error`, of a signal handler (the result of the call is then still the caller's to
 * free), or because the reader is closed. */
#define PY_READER_CALL(ok, reader, call) PY_READER_DO(ok, py_reader_enter, reader, call)
#define PY_READER_ASK(ok, reader, call) PY_READER_DO(ok, py_reader_look, reader, call)
#define PY_READER_DO(ok, enter, reader, call)                                                                          \
    do {                                                                                                               \
        (ok) = enter(reader) != NULL;                                                                                  \
        if (ok) {                                                                                                      \
            struct leat_error error;                                                                                   \
            const struct py_waiting outer = py_waiting;                                                                \
            int call_rc;                                                                                               \
            py_waiting = (struct py_waiting){(reader)->consumer, &(reader)->closing};                                  \
            Py_BEGIN_ALLOW_THREADS;                                                                                    \
            call_rc = (call);                                                                                          \
            Py_END_ALLOW_THREADS;                                                                                      \
            py_waiting = outer;                                                                                        \
            py_guard_unlock(&(reader)->guard);                                                                         \
            if (call_rc)                                                                                               \
                py_raise(&error);                                                                                      \
            (ok) = !PyErr_Occurred();                                                                                  \
        }                                                                                                              \
    } while (0)
/* The rest of a method: a call that gives a `json` text. */
#define PY_READER_TEXT(reader, call)                                                                                   \
    do {                                                                                                               \
        char *json = NULL;                                                                                             \
        bool done;                                                                                                     \
        PY_READER_ASK(done, reader, call);                                                                             \
        return done ? py_text_take(json) : NULL;                                                                       \
    } while (0)
PyObject *py_reader_start(PyObject *self, PyObject *none);
PyObject *py_reader_next(PyObject *self, PyObject *number);
PyObject *py_reader_peek(PyObject *self, PyObject *none);
PyObject *py_reader_begin_step(PyObject *self, PyObject *none);
PyObject *py_reader_put_back(PyObject *self, PyObject *none);
PyObject *py_reader_set_epoch(PyObject *self, PyObject *number);
PyObject *py_reader_epoch(PyObject *self, PyObject *none);
PyObject *py_reader_steps(PyObject *self, PyObject *none);
PyObject *py_reader_state(PyObject *self, PyObject *none);
PyObject *py_reader_load_state(PyObject *self, PyObject *text);
PyObject *py_reader_close(PyObject *self, PyObject *none);
#define PY_READER_METHODS                                                                                              \
    {"start", py_reader_start, METH_NOARGS, "start(): begins an epoch; the iteration's number"},                       \
        {"next", py_reader_next, METH_O, "next(iteration): a Batch, or None at the end of the epoch"},                 \
        {"peek", py_reader_peek, METH_NOARGS, "peek(): the same, which is not handed out"},                            \
        {"begin_step", py_reader_begin_step, METH_NOARGS, "begin_step(): what follows, by this thread, is one step"},  \
        {"put_back", py_reader_put_back, METH_NOARGS,                                                                  \
         "put_back(): whether the batch of the step, which nobody was given, comes again"},                            \
        {"set_epoch", py_reader_set_epoch, METH_O, "set_epoch(epoch): whether a loaded position was dropped"},         \
        {"epoch", py_reader_epoch, METH_NOARGS, "epoch()"},                                                            \
        {"steps", py_reader_steps, METH_NOARGS, "steps(): batches of an epoch"},                                       \
        {"state", py_reader_state, METH_NOARGS, "state(): JSON text"},                                                 \
        {"load_state", py_reader_load_state, METH_O, "load_state(JSON text)"},                                         \
    {                                                                                                                  \
        "close", py_reader_close, METH_NOARGS, "close()"                                                               \
    }

#define PY_LOADER_FORKED                                                                                               \
    "a Loader and its consumers work only in the process that opened it: open one after the fork; the data set may "   \
    "be "                                                                                                              \
    "shared"
/* A consumer of a loader. New reference, or NULL with an exception. */
PyObject *py_consumer_open(struct leat_loader *loader, uint64_t batch_size, bool beginning);

/* A DLPack capsule ("dltensor") over one output of a batch, or over its offsets. */
PyObject *py_dlpack_of_tensor(const struct leat_tensor *tensor, bool offsets, uint64_t rows);

struct leat_device_tensor;
struct leat_mirrors;
/* Those of a DeviceMirrors, which keeps them. */
const struct leat_mirrors *py_device_mirrors(PyObject *object);
/* The same over memory of a card, by the type and number of the device as DLPack has them. */
PyObject *py_dlpack_there(int type, int number, const struct leat_device_tensor *tensor, bool offsets, uint64_t rows);

/* The same over a slot of shared memory: dense, from `offset` bytes on, a type of DLPack. Memory: its bytes,
 * writable. */
PyObject *py_dlpack_of_slot(struct leat_slot *slot, uint64_t offset, uint8_t code, uint8_t bits, unsigned ndim,
                            const int64_t *shape);
PyObject *py_memory_of_slot(struct leat_slot *slot, uint64_t offset, uint64_t bytes);

/* board.c: handles, borrowed; the unit that a worker's board has taken. NULL with an exception if the object is
 * another. */
struct leat_slot *py_slot_handle(PyObject *object);
PyObject *py_slot_make(uint64_t bytes); /* a new Slot */
struct leat_board *py_board_handle(PyObject *object);
struct leat_board_unit *py_board_unit(PyObject *object);
PyObject *py_share_descriptor(PyObject *module, PyObject *none);
PyObject *py_share_attach(PyObject *module, PyObject *descriptor);
PyObject *py_share_used(PyObject *module, PyObject *none);
PyObject *py_share_trim(PyObject *module, PyObject *keep);
PyObject *py_worker_watch(PyObject *module, PyObject *descriptor);
PyObject *py_process_descriptor(PyObject *module, PyObject *pid);
PyObject *py_memory_file(PyObject *module, PyObject *bytes);
PyObject *py_region_join(PyObject *module, PyObject *memory);
PyObject *py_region_hold(PyObject *module, PyObject *args);
PyObject *py_region_drop(PyObject *module, PyObject *args);
PyObject *py_order_shuffled(PyObject *module, PyObject *args);
PyObject *py_positions_hash(PyObject *module, PyObject *positions);
PyObject *py_best_fit(PyObject *module, PyObject *args);
PyObject *py_row_key(PyObject *module, PyObject *args);
PyObject *py_device_channels(PyObject *module, PyObject *args);
PyObject *py_device_decodes(PyObject *module, PyObject *args);
PyObject *py_substitutes(PyObject *module, PyObject *args);
PyObject *py_select_extreme(PyObject *module, PyObject *args);
PyObject *py_select_weighted(PyObject *module, PyObject *args);

/* curves.c */
PyObject *py_power_law_fit(PyObject *module, PyObject *args);
PyObject *py_power_law_at(PyObject *module, PyObject *args);
PyObject *py_curve_smooth(PyObject *module, PyObject *args);
PyObject *py_exp(PyObject *module, PyObject *x);
PyObject *py_ln(PyObject *module, PyObject *x);
PyObject *py_power(PyObject *module, PyObject *args);
/* layout.c: the row that this thread makes: (seed, epoch, row), or None; and how many it has begun. */
PyObject *py_current_row(PyObject *module, PyObject *none);
PyObject *py_current_turn(PyObject *module, PyObject *none);
PyObject *py_set_current_row(PyObject *module, PyObject *args);
PyObject *py_samples(PyObject *module, PyObject *args);

/* executor.c: the handle, borrowed. */
struct leat_executor *py_executor_handle(PyObject *object);
/* loader_options.c: the table of a list of (address, whether it is of the flat form, what keeps it alive), to be freed
 * with PyMem_Free; NULL with an exception. */
struct leat_native *py_native_table(PyObject *list);
/* loader.c: the handle, borrowed; NULL with an exception if the loader is closed. */
struct leat_loader *py_loader_handle(PyObject *object);

/* names.c */
PyObject *py_names(PyObject *module, PyObject *list);
PyObject *py_find_name(PyObject *module, PyObject *args);
PyObject *py_nearest(PyObject *module, PyObject *args);
PyObject *py_paths(PyObject *module, PyObject *given);
PyObject *py_path_is_ours(PyObject *module, PyObject *path);
PyObject *py_look(PyObject *module, PyObject *path);

/* writer.c */
PyObject *py_writer_join(PyObject *module, PyObject *args);

/* order.c */
PyObject *py_dependent_order(PyObject *module, PyObject *args);

/* random.c */
PyObject *py_random_fill(PyObject *module, PyObject *args);

/* attached.c: ports of other processes */
PyObject *py_ports(PyObject *module, PyObject *folder);
PyObject *py_port_ask_stat(PyObject *module, PyObject *args);
PyObject *py_port_stop(PyObject *module, PyObject *args);

/* Takes the batch over. `readonly`: buffers of its outputs are not writable (DLPack has no word for that). */
PyObject *py_batch_new(struct leat_batch *batch, bool readonly);
/* Its handle, borrowed. */
struct leat_batch *py_batch_handle(PyObject *object);
/* The handle of a data set object, borrowed. */
struct leat_dataset *py_dataset_handle(PyObject *object);
PyObject *py_dataset_new(struct leat_dataset *handle); /* takes it over */
/* The handles of a list of data sets, borrowed, in an array to be freed; NULL with an exception. */
struct leat_dataset **py_datasets_of(PyObject *list, size_t *n);
PyObject *py_dataset_concat(PyObject *module, PyObject *list);
/* writer.c: a field of (name, kind, dtype, layout, shape, role, normalized, pairs), whose strings and pairs stay those
 * of the tuple: 0, or -1 with an exception. And the fields of a list of these, to be freed: their number, or -1. */
int py_field(PyObject *tuple, struct leat_field *f);
Py_ssize_t py_schema_fields(PyObject *list, struct leat_field **out);
/* A list of str, or of bytes, as C strings, which live as long as its items, in an array to be freed; NULL with an
 * exception. */
const char **py_strings_of(PyObject *list, size_t *n);

/* Whether Ctrl-C was pressed: the exception is then set, and it stays true until that was raised. Or whether the source
 * of this thread is being closed: nothing is set then. Only a thread of Python's can say. With or without the GIL. The
 * library may succeed all the same: the caller asks PyErr_Occurred in any case. */
bool py_interrupted(void);
/* The call that this thread is in: its consumer, or NULL (it ends, too, instead of handing out a batch beside an
 * exception), and whether that is being closed, which waits for the call. */
struct py_waiting {
    struct leat_consumer *consumer;
    const atomic_bool *closing;
};
extern _Thread_local struct py_waiting py_waiting;

/* made.c: data sets that are not files. */
PyObject *py_dataset_zip(PyObject *module, PyObject *args);
PyObject *py_dataset_windows(PyObject *module, PyObject *args);
/* temporal.c */
PyObject *py_temporal_make(PyObject *module, PyObject *args);
PyObject *py_temporal_recent(PyObject *module, PyObject *args);
PyObject *py_temporal_look(PyObject *module, PyObject *graph);
PyObject *py_dataset_prompts(PyObject *module, PyObject *args);
PyObject *py_prompts_simulate(PyObject *module, PyObject *args);
PyObject *py_prompts_records(PyObject *module, PyObject *args);
/* Releases the object that holds the memory of a data set: `release` of leat_dataset_from_arrays. */
void py_let_go(void *user);
PyObject *py_arrays_make(PyObject *module, PyObject *args);
PyObject *py_stored_make(PyObject *module, PyObject *args);
PyObject *py_stored_read(PyObject *module, PyObject *args);
PyObject *py_matrix_entries(PyObject *module, PyObject *args);
PyObject *py_lent_make(PyObject *module, PyObject *schema);
PyObject *py_dataset_lend(PyObject *self, PyObject *args);
PyObject *py_source_make(PyObject *module, PyObject *args);
PyObject *py_source_serve(PyObject *module, PyObject *capsule);
/* Makes an exception that a read has failed with the cause of this one, if it is about that. */
void py_source_chain(PyObject *exception, const char *message);

#endif
