/*
 * A stand-in for the CUDA driver and NVRTC, in one library that leat loads in their place (LEAT_LIBCUDA,
 * LEAT_LIBNVRTC): for machines without a card. Its cards' memory is the host's. "Compiling" keeps the variant that the
 * defines name, and a launch runs the kernel's C version on threads (device/kernels/grid.h). It refuses what a driver
 * refuses: pointers that are not pinned, contexts that are not current, wrong alignment, copies beyond what was
 * allocated or pinned in one piece.
 *
 * Tests reach what follows through `dlsym`: standin_state().
 */
#ifndef LEAT_TESTS_STANDIN_H
#define LEAT_TESTS_STANDIN_H

#include <stdbool.h>
#include <stdint.h>

struct standin {
    const char *fails; /* the function that fails, or NULL; "nvrtc..." ones too */
    int code;          /* by which error */
    int cards, driver_version, architecture;
    bool refuses_writable;    /* memory is pinned as read-only only */
    bool later;               /* what is in a stream happens when somebody waits for it: as late as it may */
    int slow_ms;              /* that pass before an event is waited for */
    void (*pinning)(void *p); /* called as memory is registered, if it is set */
    bool unshifted;           /* lanes are not shifted */
    bool counts; /* requests of loads from tables are counted, as are those that lines would need at least */
    uint64_t requests, lines;
    int current;  /* contexts pushed */
    int pinned;   /* ranges that are registered or allocated */
    int compiled; /* programs */
    int launched;
    bool captures;           /* streams are being captured into a graph */
    uint64_t card_bytes;     /* of a card's memory; 0: any number */
    uint64_t allocated;      /* bytes of it */
    int objects;             /* streams and events */
    int opened;              /* memory of other processes */
    uint64_t copied_bytes;   /* to cards, */
    uint64_t unpinned_bytes; /* and of these from memory that is not pinned */
};

#endif
