/*
 * The memory that a port and one consumer share, beside the loader's: a channel, in memory of its own.
 *
 *     given[]      the port writes: what the consumer may read, in the order of the plan
 *     returned[]   the consumer writes: what it has let go of
 *
 * The port alone knows which batches a consumer has (struct leat_lending); the channel only asks it to change that. So
 * whatever a consumer writes here, or leaves unwritten because it died, it can give back only its own batches, and no
 * other's. Neither ring overflows: a consumer is given at most LEAT_CHANNEL_RING batches that it has not returned.
 *
 * Waiting needs no thread. A consumer says in `sleeping` that it sleeps, looks once more, and sleeps on that word (a
 * futex); its waker makes it 0. The port, having lent all that it may, says so in `starved`, looks once more, and is
 * woken through a descriptor once the consumer has returned enough.
 */
#ifndef LEAT_PORT_CHANNEL_H
#define LEAT_PORT_CHANNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"

#define LEAT_CHANNEL_RING 128u /* a power of two */

/* The place of the record (record.h) of a batch in the loader's memory, and the number under which it is returned. */
struct leat_given {
    uint64_t offset, bytes;
    uint32_t slot, stream; /* stream: the one of the consumer's seeks that it belongs to */
};

struct leat_channel {
    /* written by the port */
    _Atomic uint32_t n_given; /* so far */
    _Atomic uint32_t ended;   /* the port has ended */
    _Atomic uint32_t starved; /* it waits for returned batches */
    _Atomic uint32_t credit;  /* how many may be out */
    uint8_t pad[48];
    /* written by the consumer */
    _Atomic uint32_t n_returned; /* so far */
    _Atomic uint32_t sleeping;   /* a futex */
    _Atomic uint64_t epoch, row; /* its position, for leat_port_stat; as are */
    _Atomic uint64_t batches, samples, bytes, held;
    uint8_t more[8];
    struct leat_given given[LEAT_CHANNEL_RING];
    _Atomic uint32_t returned[LEAT_CHANNEL_RING];
};

/* Makes one; *fd is its descriptor, sealed against resizing. IO, NOMEM. */
int leat_channel_new(struct leat_channel **out, int *fd, struct leat_error *error);
/* Whether memory of another process stays as long as it is. */
bool leat_channel_is_sealed(int fd);
/* Maps one that came from elsewhere. FORMAT: it is none. */
int leat_channel_map(int fd, struct leat_channel **out, struct leat_error *error);
void leat_channel_unmap(struct leat_channel *channel);

/* The port gives one more. */
void leat_channel_give(struct leat_channel *channel, const struct leat_given *given);
void leat_channel_end(struct leat_channel *channel);
/* The consumer sleeps until there are other than `seen`, or the port has ended, or a time has passed. It may
 * return before. */
void leat_channel_wait(struct leat_channel *channel, uint32_t seen, int64_t timeout_ns);
/* The consumer returns one. */
void leat_channel_return(struct leat_channel *channel, uint32_t slot);
/* Whether the port should be woken: it waits, and `out` of the given batches are not returned; `all`: in any case. */
bool leat_channel_should_wake(struct leat_channel *channel, uint32_t out, bool all);

#endif
