/*
 * Mirrors: copies of a batch's values in memory of a card that other processes can open. A port asks for them before it
 * publishes a batch (port/published.h), and its readers find them at the buffers of their batches; src/device makes and
 * reads them. They are given up with the buffers.
 */
#ifndef LEAT_ENGINE_MIRROR_H
#define LEAT_ENGINE_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

struct leat_batch;

/* Where the values of an output begin there. */
struct leat_mirror {
    uint8_t handle[64]; /* of an allocation, for other processes */
    uint8_t card[16];   /* its UUID */
    uint64_t at;        /* in the allocation */
    uint64_t there;     /* 0: there is none */
};

/* Makes those of a batch's buffers. Where it cannot, there are none: readers copy from the host then. */
struct leat_mirrors {
    void *user;
    void (*make)(void *user, struct leat_batch *batch);
};

#endif
