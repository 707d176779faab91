/* The cards that this process has opened, each with the kernels that were compiled for it. */
#ifndef LEAT_DEVICE_CARD_H
#define LEAT_DEVICE_CARD_H

#include <pthread.h>

#include "device/driver.h"

enum { LEAT_CARDS = 64, LEAT_CARD_KERNELS = 128 };

/* One variant of the kernel that gathers rows: see gather_rows.cu.h. */
struct leat_card_kernel {
    unsigned word, from;
    leat_cu_handle function;
};

struct leat_card {
    const struct leat_cuda *cuda;
    int ordinal, major, minor;
    char name[96];
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

/* The kernel for words of `word` bytes and values of the type `from` (0: they are copied), compiled at the first call.
 * The card was entered. Errors: UNSUPPORTED, NOMEM, INVALID, IO. */
int leat_card_kernel(struct leat_card *card, const char *nvrtc, unsigned word, unsigned from, leat_cu_handle *function,
                     struct leat_error *error);

#endif
