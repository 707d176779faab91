/*
 * Bytes from files. A file is reached through a backend, a table of functions: the local file system, or in tests one
 * that fails, delays or cuts (tests/c/faulty.h).
 *
 * Reading is submit and complete: leat_io_submit may finish a request before it returns (local files do, unless their
 * disk is slow) or later, on another thread. No other code in leat reads files for samples.
 */
#ifndef LEAT_IO_FILE_H
#define LEAT_IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

struct leat_io_file; /* reference-counted, immutable; any thread */

/* One read. The caller owns it and keeps it in place until `done` has been called or submit returned LEAT_OK. */
struct leat_io_request {
    struct leat_io_file *file;
    uint64_t offset, length;
    void *buffer; /* receives `length` bytes; NULL, of files of blocks (io/blocks.h): they are brought into the cache */
    int status;   /* when complete: 0 or LEAT_E_IO, LEAT_E_CORRUPT (the file is shorter than offset + length),
                   * LEAT_E_CHANGED (it is another one than was opened), LEAT_E_CANCELLED */
    unsigned retry_after_ms; /* of LEAT_E_IO: trying again may help after so long; 0: it does not help */
    void *backend_state;     /* the backend's own while the request is pending */
    bool waits;              /* set by leat_io_once: its caller waits, and may as well read in place */
    bool past_mapping; /* not a copy out of the file's mapping, whose pages would count as this process's memory */
    struct leat_error error;                                   /* filled if status is not 0; names file and offset */
    void (*done)(struct leat_io_request *request, void *user); /* called once if submit returned LEAT_IO_PENDING */
    void *user;
};
#define LEAT_IO_PENDING 1

struct leat_io_look {
    uint64_t size;
    int64_t mtime_ns; /* of its bytes; a program can set it back */
    int64_t ctime_ns; /* of anything: bytes, links, mode, owner */
};

struct leat_io_backend {
    const char *name;
    int (*open)(const struct leat_io_backend *backend, const char *path, struct leat_io_file **out,
                struct leat_error *error);
    int (*submit)(struct leat_io_file *file, struct leat_io_request *request);
    /* n requests of files of this backend at once; results[i] is what submit would have returned. NULL: one by one. */
    void (*submit_many)(struct leat_io_request *const *requests, size_t n, int *results);
    /* Asks for the end of a request that is pending: `done` is called soon, with LEAT_E_CANCELLED unless it was
     * complete before. NULL: requests end by themselves. */
    void (*cancel)(struct leat_io_request *request);
    /* Maps [0, size) read-only, once; NULL if this backend cannot. */
    const uint8_t *(*map)(struct leat_io_file *file, struct leat_error *error);
    /* A read of these bytes is next. True: they will be copied out of memory, and the processor has been asked for
     * them. NULL: never. */
    bool (*expect)(const struct leat_io_file *file, uint64_t offset, uint64_t length);
    /* As leat_io_within. NULL: never. */
    bool (*within)(struct leat_io_file *file, uint64_t offset, uint64_t length,
                   void (*look)(void *user, const uint8_t *bytes), void *user);
    /* Its size and times as they are now. NULL: it does not know. IO. */
    int (*look)(struct leat_io_file *file, struct leat_io_look *out, struct leat_error *error);
    /* Its copies of [offset, offset + length) are read again when they are wanted. NULL: it keeps nothing. */
    void (*forget)(struct leat_io_file *file, uint64_t offset, uint64_t length);
    void (*close)(struct leat_io_file *file);
};
extern const struct leat_io_backend leat_io_local, leat_io_http;
/* Whether a path is an address of another machine, "http://...". */
bool leat_io_is_remote(const char *path);
/* The backend of paths without a scheme: leat_io_local. LEAT_REPLACEABLE. */
const struct leat_io_backend *leat_io_backend_of_files(void);

/* The head of every backend's file. */
struct leat_io_file {
    const struct leat_io_backend *backend;
    char *path;
    uint64_t size; /* when opened */
    uint64_t device, inode;
    int64_t mtime_ns;
    _Atomic uint32_t references;
    bool copy; /* leat made it of another file, and makes it anew once it is gone */
};

int leat_io_open(const char *path, struct leat_io_file **out, struct leat_error *error);
/* The measured times of reads of a place (io/helpers.h); zero at first. */
struct leat_io_pace {
    _Atomic int64_t mean_ns;
    _Atomic unsigned turn;
    _Atomic bool slow;
};
/* A file as a folder lists it. It is opened by each read of it, which is LEAT_E_CHANGED if it is gone, or has another
 * size or time. `pace` is that of all files of the folder, and outlives them. NOMEM. */
int leat_io_open_listed(const char *path, uint64_t size, int64_t mtime_ns, struct leat_io_pace *pace,
                        struct leat_io_file **out, struct leat_error *error);
struct leat_io_file *leat_io_retain(struct leat_io_file *file);
void leat_io_release(struct leat_io_file *file); /* NULL is allowed */

/* For backends: whether a request lies within its file, else it fails; and the failure of a read of a compressed file
 * whose byte `at` is no such thing. */
bool leat_io_fits(struct leat_io_request *request);
int leat_io_damaged(const struct leat_io_file *file, uint64_t at, const char *what, struct leat_error *error);

/* LEAT_OK: complete, look at request->status. LEAT_IO_PENDING: `done` will be called. */
int leat_io_submit(struct leat_io_request *request);
/* As submit, for n requests of any files; results[i] is what submit would have returned. */
void leat_io_submit_many(struct leat_io_request *const *requests, size_t n, int *results);
/* Asks for the end of a request for which submit returned LEAT_IO_PENDING, from any thread, also while `done` runs and
 * behind it: complete requests are left alone. `done` is called in any case. The request and its file stay in place
 * until both have returned. */
void leat_io_cancel(struct leat_io_request *request);
/* Whether a request that has failed for the `tries`-th time, with that status and retry_after_ms, is tried again: after
 * so many milliseconds, each time twice as long; 0: no more. It is tried five times in all, by the one that waits for
 * it. */
unsigned leat_io_pause_ms(int status, unsigned retry_after_ms, unsigned tries);
/* As the backend's. */
bool leat_io_expect(const struct leat_io_file *file, uint64_t offset, uint64_t length);
/* Shows the bytes of a read where they lie, if it would only copy them out of memory: calls `look`, which runs guarded
 * (io/guard.h), and may be abandoned or called on other bytes than the file's. False: what it did is of no meaning, or
 * it was not called: read them. */
bool leat_io_within(struct leat_io_file *file, uint64_t offset, uint64_t length,
                    void (*look)(void *user, const uint8_t *bytes), void *user);
/* Submits and waits, setting `done` and `user`. Returns the status; LEAT_E_CANCELLED, too, if it was interrupted
 * (leat_set_interrupt). */
int leat_io_once(struct leat_io_request *request);
/* As leat_io_once; tries again as leat_io_pause_ms says. */
int leat_io_wait(struct leat_io_request *request);
/* Reads and waits, likewise; returns the status. */
int leat_io_read(struct leat_io_file *file, uint64_t offset, uint64_t length, void *buffer, struct leat_error *error);
/* The same without touching a mapping of the file. */
int leat_io_read_past_mapping(struct leat_io_file *file, uint64_t offset, uint64_t length, void *buffer,
                              struct leat_error *error);
/* A number that changes with the file's bytes even where its time was set back, and with its links, its mode and its
 * owner: for files whose values are then compared again. *size is the size now. Where the backend does not know: 0, and
 * the size at opening. IO. */
int leat_io_stamp(struct leat_io_file *file, uint64_t *stamp, uint64_t *size, struct leat_error *error);
/* CHANGED, at the file, if its size or its time is not that of opening, as for a file that is opened again: where there
 * is nothing to compare values with. IO. */
int leat_io_unchanged(struct leat_io_file *file, struct leat_error *error);
/* The bytes there are damaged: the next read does not get them from a cache. */
void leat_io_forget(struct leat_io_file *file, uint64_t offset, uint64_t length);
/* A file that is memory: `bytes` at `data`, which stay the caller's and outlive the file. `label` is its path in
 * errors. */
int leat_io_from_memory(const char *label, const void *data, uint64_t bytes, struct leat_io_file **out,
                        struct leat_error *error);
/* The whole file as read-only memory for as long as the file is open, or NULL. A file that is cut under the mapping
 * faults: read it only inside leat_guarded (io/guard.h). */
const uint8_t *leat_io_map(struct leat_io_file *file, struct leat_error *error);

#endif
