/*
 * A region: the memory that the batches of one loader live in. Address space is reserved when the loader opens; pages
 * are committed when they are first written, and given back when the loader is idle or its limit would be passed.
 * If addresses are scarce (ulimit -v) nothing is reserved: the region lies where the process maps nothing else, and
 * each area is mapped step by step as far as it is used.
 *
 *     base                                                  base + bytes
 *     +------------------------+------------------------------------+
 *     | small: plain pages     | large: huge pages where possible   |
 *     +------------------------+------------------------------------+
 *     labels, lengths ...        images, token rows ... (>= 1 MiB)
 *
 * Each area is cut first-fit, lowest address first, so that the memory written next was in use a moment ago and is
 * still in the caches. Small outputs lie apart from large ones, so that a label kept for an hour pins no huge page.
 *
 * Not safe for several threads: the engine's lock protects it.
 */
#ifndef LEAT_ENGINE_REGION_H
#define LEAT_ENGINE_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/holders.h"
#include "leat/leat.h"

#define LEAT_REGION_LARGE (UINT64_C(1) << 20) /* extents from here on lie in the large area */

/* A free piece of an area. `dirty` is an upper bound of its bytes that may be resident. */
struct leat_region_extent {
    uint64_t offset, bytes, dirty;
};

struct leat_region_area {
    struct leat_region_extent *free; /* by offset, never two adjacent */
    size_t n_free, room;
    uint64_t begin, end;
    uint64_t committed; /* [begin, committed) may be written */
    uint64_t touched;   /* nothing from here on is resident */
    bool huge;
};

struct leat_region_kind;

/* The head that other processes find at the beginning of a region that is memory of a file. */
struct leat_region_head {
    uint64_t bytes, begin[2];    /* of the region and its areas */
    _Atomic uint64_t mapped[2];  /* each area up to here, */
    bool stepwise;               /* if not all of it */
    struct leat_holders holders; /* the holders of its parts, by offset */
};

struct leat_region {
    const struct leat_region_kind *kind;
    uint8_t *base;
    uint64_t bytes; /* reserved, or if it is mapped in steps: its largest size */
    bool stepwise;
    bool file_limited; /* it is smaller than it should be, because files may not be larger */
    bool stays;        /* no page is given back before the region is closed: other processes may read freed parts */
    const struct leat_pinning *pinning; /* NULL: memory is not pinned; else it stays, too */
    bool unpinned;                      /* the last allocation found memory that could not be pinned */
    bool refused;                       /* the last allocation found addresses that the system did not map */
    uint64_t limit;                     /* used + dirty stays at or below it */
    uint64_t used;                      /* in extents that were handed out, and in those that linger */
    uint64_t dirty;                     /* free, but may be resident */
    int fd;
    struct leat_region_head *head;     /* NULL: memory of this process alone */
    struct leat_region_area areas[2];  /* small, large */
    struct leat_region_area lingering; /* extents that were freed while another process held them; by no order */
};

/* The way memory is made. One line per kind in region.c; leat_loader_options.region is the index. */
struct leat_region_kind {
    const char *name;
    bool fd; /* memory of a file: an offset in the region is one in the file */
    /* The bytes from `offset` on, which are an area's next, may be written from now on. */
    bool (*commit)(struct leat_region *region, uint64_t offset, uint64_t bytes);
    void (*give_back)(uint8_t *at, uint64_t bytes); /* pages go back to the system; they read as zero afterwards */
};
extern const struct leat_region_kind leat_region_kinds[];
extern const int leat_region_n_kinds;

#define LEAT_REGION_ADDRESSES                                                                                          \
    "; the address space of this process is limited: raise ulimit -v (RLIMIT_AS, h_vmem), or hold fewer batches"
#define LEAT_REGION_FILES                                                                                              \
    "; the size of files is limited, and with it that of shared memory: raise ulimit -f (RLIMIT_FSIZE)"

/* `pinning`: NULL, or it stays until the region is closed. Errors: INVALID (unknown kind), NOMEM, those of pinning. */
int leat_region_open(struct leat_region *region, int kind, uint64_t limit, const struct leat_pinning *pinning,
                     struct leat_error *error);
void leat_region_close(struct leat_region *region);

/* The size of an extent of `bytes`: whole pages of this machine, 4 to 64 KiB each. Less than a page cannot be given
 * back without its neighbours. 0 if that does not fit into 64 bits. */
uint64_t leat_region_round(uint64_t bytes);

/* `bytes` as leat_region_round gives them, above 0. NULL if there is no room (or no memory); nothing has changed
 * then. */
uint8_t *leat_region_alloc(struct leat_region *region, uint64_t bytes, uint64_t *offset);
/* Whether all pages that the next allocation of `bytes` gets may be resident: none has to be made by the kernel. */
bool leat_region_is_warm(const struct leat_region *region, uint64_t bytes);
/* If another process holds it (base/holders.h), it is free once that has let go, or died: the next allocation finds
 * out. */
void leat_region_free(struct leat_region *region, uint64_t offset, uint64_t bytes);
/* Frees parts that linger and nobody holds any more. */
void leat_region_sweep(struct leat_region *region);
/* Changes the limit, and gives free pages back until it holds, as far as there are any. */
void leat_region_set_limit(struct leat_region *region, uint64_t limit);
/* After an allocation that gave NULL: the setting of the system that stands in its way, as the end of a sentence about
 * the missing memory. NULL: none does. */
const char *leat_region_obstacle(const struct leat_region *region);

/* For another process that follows a region of a file in steps: a range of addresses of that size in which the process
 * will map nothing by itself, or NULL; and a piece of the file at its place in the range. */
uint8_t *leat_region_addresses(uint64_t bytes);
bool leat_region_map(int fd, uint8_t *base, uint64_t offset, uint64_t bytes);

/* In another process that has mapped the beginning of a region: a row of it in the region's table. INVALID: that is no
 * region; HELD: the table is full. */
int leat_region_join(void *begin, uint64_t bytes, struct leat_holder **out, struct leat_error *error);

/* Of a region that is pinned: the bytes from `offset` on that were pinned in one piece, beyond which no copy to a
 * device may reach. */
uint64_t leat_region_piece(const struct leat_region *region, uint64_t offset);

/* Gives all free pages back; returns the number of bytes at most. */
uint64_t leat_region_trim(struct leat_region *region);

#endif
