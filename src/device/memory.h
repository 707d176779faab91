/*
 * Memory of a card, in buffers that are used again and again. A buffer that its last holder has let go of may still be
 * read by work that was put into a stream before: whoever gets it next waits for that, on the card.
 */
#ifndef LEAT_DEVICE_MEMORY_H
#define LEAT_DEVICE_MEMORY_H

#include <stdatomic.h>

#include "device/card.h"
#include "engine/mirror.h"

struct leat_device_memory {
    struct leat_card *card;
    pthread_mutex_t mutex;
    uint64_t budget, allocated, used; /* bytes: at most; of the card; in buffers that somebody holds */
    uint64_t most_used;
    struct leat_device_buffer *free;
    unsigned references; /* its owner, and buffers that are held */
    bool shared;         /* other processes may have it open: nothing is freed before the process ends */
};

struct leat_device_buffer {
    struct leat_device_memory *memory;
    _Atomic unsigned references;
    leat_cu_memory at;
    uint64_t bytes;
    leat_cu_handle stream; /* that reads it last: the holder's */
    leat_cu_handle read;   /* the event behind that */
    bool unread;           /* it is not recorded yet: the stream was being captured */
    bool exported;
    struct leat_cu_ipc handle; /* if it is */
    struct leat_device_buffer *next, *next_exported;
};

/* At most `budget` bytes. NULL: no memory. The card stays open. */
struct leat_device_memory *leat_device_memory_new(struct leat_card *card, uint64_t budget);
/* Its owner lets go of it: what nobody holds is freed, the rest as it comes back. */
void leat_device_memory_close(struct leat_device_memory *memory);

/* A buffer of at least so many bytes, at a multiple of 256, with one reference; `stream` waits until nobody reads it.
 * The card was entered, here and below. Errors: BUDGET, NOMEM, with their numbers; IO. */
int leat_device_buffer_take(struct leat_device_memory *memory, uint64_t bytes, leat_cu_handle stream,
                            struct leat_device_buffer **out, struct leat_error *error);

/* The handle by which other processes open a buffer of shared memory. IO: the system does not share it (some do not
 * across containers or parts of a card). */
int leat_device_buffer_export(struct leat_device_buffer *buffer, struct leat_error *error);
/* The place of a buffer that this process has exported, which its own driver does not open; 0: it is none. */
leat_cu_memory leat_device_exported(const struct leat_cu_ipc *handle, uint64_t *bytes);

/* Allocations of other processes that one has opened; all zero before the first. One thread at a time. */
enum { LEAT_DEVICE_OPENED = 256 };
struct leat_device_opened {
    struct {
        struct leat_cu_ipc handle;
        leat_cu_memory at; /* 0: it cannot be opened */
        uint64_t bytes;
        bool own; /* of this process after all */
    } of[LEAT_DEVICE_OPENED];
    size_t n;
};
/* The place of a mirror's `bytes` for this process. 0: it cannot be had: of another card, or of a port that says what
 * is not so. The card was entered. */
leat_cu_memory leat_device_open_shared(struct leat_device_opened *opened, const struct leat_card *card,
                                       const struct leat_mirror *mirror, uint64_t bytes);
void leat_device_close_shared(struct leat_device_opened *opened, const struct leat_cuda *cuda);

#endif
