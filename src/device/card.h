/* The cards that this process has opened, each with the kernels that were compiled for it. */
#ifndef LEAT_DEVICE_CARD_H
#define LEAT_DEVICE_CARD_H

#include <pthread.h>

#include "device/driver.h"
#include "device/nvrtc.h"

enum { LEAT_CARDS = 64, LEAT_CARD_KERNELS = 256 };

/* One variant of a kernel, by the numbers that its text leaves open. */
struct leat_card_kernel {
    const struct leat_kernel_source *source;
    unsigned values[LEAT_KERNEL_DEFINES];
    leat_cu_handle function;
};

struct leat_card {
    const struct leat_cuda *cuda;
    int ordinal, major, minor;
    char name[96];
    uint8_t uuid[16];
    leat_cu_handle context; /* the primary one, which PyTorch uses, too */
    pthread_mutex_t mutex;  /* of the kernels */
    struct leat_card_kernel kernels[LEAT_CARD_KERNELS];
    unsigned n_kernels;
};

/* The card of a number. It stays open until the process ends. Errors: as leat_device_rows_open. */
int leat_card_open(int ordinal, struct leat_card **out, struct leat_error *error);

/* Makes its context the thread's current one, and the one before current again. Whatever the caller has chosen as
 * current device, calls in between are of this card. Errors: IO, FORKED: the process is not the one that opened it. */
int leat_card_enter(struct leat_card *card, struct leat_error *error);
void leat_card_leave(struct leat_card *card);

/* The kernel with these values of its `defines`, compiled at the first call. The card was entered.
 * Errors: UNSUPPORTED, NOMEM, INVALID, IO. */
int leat_card_kernel(struct leat_card *card, const char *nvrtc, const struct leat_kernel_source *source,
                     const unsigned values[LEAT_KERNEL_DEFINES], leat_cu_handle *function, struct leat_error *error);
/* Starts it in a stream: so many blocks of threads; `args`: its only argument. */
enum { LEAT_CARD_BLOCK = 256, LEAT_CARD_BLOCKS = 4096 };
leat_cu_result leat_card_launch(const struct leat_card *card, leat_cu_handle function, uint64_t blocks,
                                unsigned threads, void *args, leat_cu_handle stream);
/* Blocks of LEAT_CARD_BLOCK for so many threads, at most LEAT_CARD_BLOCKS: each thread then does several turns. */
static inline uint64_t leat_card_blocks(uint64_t threads)
{
    const uint64_t blocks = (threads + LEAT_CARD_BLOCK - 1) / LEAT_CARD_BLOCK;
    return blocks < LEAT_CARD_BLOCKS ? blocks : LEAT_CARD_BLOCKS;
}

#endif
