/*
 * Regions: reserving, cutting and giving back. The free pieces of an area are a sorted array: there are as many as
 * there are holes between live buffers, some dozens, so searching it costs less than any tree.
 *
 * Resident memory is known only as an upper bound: used + sum of `dirty` over the free pieces. A piece that was freed
 * is dirty whole; pieces that join add up; a piece that is cut keeps as much dirt as still fits in it below `touched`.
 * When the bound would pass the limit, the free pieces with the highest addresses are given back first.
 */
#include "engine/region.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/search.h"
#include "leat/device.h"

#define HUGE_PAGE (UINT64_C(2) << 20)
/* The step by which an area grows if addresses are scarce: few system calls, and little reserved in vain. */
#define STEP_SMALL (UINT64_C(4) << 20)
#define STEP_LARGE (UINT64_C(64) << 20)
/* The pieces of an area that is pinned: a call of the driver each, and more than one copy to a device where a buffer
 * lies in several. */
#define PIECE_SMALL (UINT64_C(2) << 20)
#define PIECE_LARGE (UINT64_C(32) << 20)
/* The distance below the newest mapping of the process at which a region that grows lies: the kernel maps from there
 * downwards. */
#define FAR_BELOW (UINT64_C(64) << 30)
/* Processes that may hold parts of a region at a time: as many as a pool has workers, and some. */
#define HOLDERS 1056

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static uint64_t lower_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Maps at exactly that address, at which nothing may be mapped yet. */
static bool map_at(uint8_t *at, uint64_t bytes, int protection, int flags, int fd, uint64_t offset)
{
    void *p = mmap(at, bytes, protection, flags | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, (off_t)offset);
    if (p != MAP_FAILED && p != at) /* a kernel before 4.17 takes the address for a wish */
        munmap(p, bytes);
    return p == at;
}

bool leat_region_map(int fd, uint8_t *base, uint64_t offset, uint64_t bytes)
{
    return map_at(base + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
}

uint8_t *leat_region_addresses(uint64_t bytes)
{
    static _Atomic uintptr_t lowest; /* of all such ranges */
    for (int tries = 0; tries < 16; tries++) {
        uintptr_t seen = atomic_load(&lowest), top = seen;
        if (top < bytes + (uintptr_t)FAR_BELOW) {
            void *newest = mmap(NULL, HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (newest == MAP_FAILED || (uintptr_t)newest < bytes + 2 * FAR_BELOW)
                return NULL;
            munmap(newest, HUGE_PAGE);
            top = (uintptr_t)newest - (uintptr_t)FAR_BELOW;
        }
        uint8_t *at = (uint8_t *)((top - bytes) & ~(uintptr_t)(HUGE_PAGE - 1));
        if (!atomic_compare_exchange_strong(&lowest, &seen, (uintptr_t)at) ||
            !map_at(at, HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
            continue;
        munmap(at, HUGE_PAGE);
        return at;
    }
    return NULL;
}

static bool commit_private(struct leat_region *region, uint64_t offset, uint64_t bytes)
{
    uint8_t *at = region->base + offset;
    return region->stepwise ? map_at(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                            : !mprotect(at, bytes, PROT_READ | PROT_WRITE);
}

static void give_back_private(uint8_t *at, uint64_t bytes)
{
    madvise(at, bytes, MADV_DONTNEED);
}

/* A file that grew and cannot be mapped stays longer: that costs nothing. */
static bool commit_memfd(struct leat_region *region, uint64_t offset, uint64_t bytes)
{
    struct stat st;
    if (!region->stepwise)
        return true; /* mapped whole */
    return !fstat(region->fd, &st) &&
           ((uint64_t)st.st_size >= offset + bytes || !ftruncate(region->fd, (off_t)(offset + bytes))) &&
           leat_region_map(region->fd, region->base, offset, bytes);
}

static void give_back_memfd(uint8_t *at, uint64_t bytes)
{
    madvise(at, bytes, MADV_REMOVE); /* punches the hole in the file behind the mapping */
}

const struct leat_region_kind leat_region_kinds[] = {
    {"private", false, commit_private, give_back_private},
    {"memfd", true, commit_memfd, give_back_memfd},
};
const int leat_region_n_kinds = sizeof leat_region_kinds / sizeof *leat_region_kinds;

uint64_t leat_region_round(uint64_t bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) & ~(page - 1);
}

static bool insert_extent(struct leat_region_area *area, size_t at, struct leat_region_extent extent)
{
    if (!leat_grow(&area->free, &area->room, area->n_free + 1, sizeof *area->free))
        return false;
    memmove(area->free + at + 1, area->free + at, (area->n_free - at) * sizeof extent);
    area->free[at] = extent;
    area->n_free++;
    return true;
}

static void remove_extent(struct leat_region_area *area, size_t at)
{
    area->n_free--;
    memmove(area->free + at, area->free + at + 1, (area->n_free - at) * sizeof *area->free);
}

static bool open_area(struct leat_region_area *area, uint64_t begin, uint64_t end, bool huge)
{
    *area = (struct leat_region_area){.begin = begin, .end = end, .committed = begin, .touched = begin, .huge = huge};
    return end == begin || insert_extent(area, 0, (struct leat_region_extent){begin, end - begin, 0});
}

/* Addresses of the whole region, reserved at once if that takes no more than a quarter of the bytes that may still be
 * mapped. */
static bool reserve(struct leat_region *region)
{
    const uint64_t bytes = region->bytes + HUGE_PAGE;
    uint8_t *p = MAP_FAILED;
    if (bytes <= leat_address_space_left() / 4)
        p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        region->stepwise = true;
        region->base = leat_region_addresses(region->bytes);
        return region->base;
    }
    region->base = p + (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (region->base > p)
        munmap(p, (size_t)(region->base - p));
    munmap(region->base + region->bytes, (size_t)(p + bytes - (region->base + region->bytes)));
    return region->kind->fd ? !ftruncate(region->fd, (off_t)region->bytes) &&
                                  mmap(region->base, region->bytes, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_NORESERVE | MAP_FIXED, region->fd, 0) != MAP_FAILED
                            : true;
}

/* The head lies where others find it first, and does not count as handed out. */
static bool make_head(struct leat_region *region)
{
    uint64_t offset, rows = region->areas[0].end / 16 / sizeof(struct leat_holder);
    if (!region->kind->fd)
        return true;
    rows = rows < HOLDERS ? rows : HOLDERS;
    const uint64_t bytes =
        leat_region_round(offsetof(struct leat_region_head, holders) + leat_holders_bytes((uint32_t)rows));
    struct leat_region_head *head = (void *)leat_region_alloc(region, bytes, &offset);
    if (!head)
        return false;
    region->used -= bytes;
    head->bytes = region->bytes;
    head->stepwise = region->stepwise;
    head->holders.n = (uint32_t)rows;
    for (int a = 0; a < 2; a++) {
        head->begin[a] = region->areas[a].begin;
        atomic_store(&head->mapped[a], region->areas[a].committed);
    }
    region->head = head;
    return true;
}

static uint64_t piece_of(const struct leat_region_area *area)
{
    return area->huge ? PIECE_LARGE : PIECE_SMALL;
}

uint64_t leat_region_piece(const struct leat_region *region, uint64_t offset)
{
    const struct leat_region_area *area = &region->areas[offset >= region->areas[1].begin];
    return piece_of(area) - (offset - area->begin) % piece_of(area);
}

/* `error`: of pinning; or NULL. */
static bool commit_to(struct leat_region *region, struct leat_region_area *area, uint64_t end, struct leat_error *error)
{
    while (area->committed < end) {
        const uint64_t at = area->committed, room = area->end - at;
        uint64_t least = end - at, more = round_up(least, !region->stepwise ? HUGE_PAGE
                                                          : area->huge      ? STEP_LARGE
                                                                            : STEP_SMALL);
        if (region->pinning)
            least = more = piece_of(area);
        more = lower_of(more, room);
        if (!region->kind->commit(region, at, more) &&
            !(more > least && region->kind->commit(region, at, more = least)))
            return false;
        if (area->huge)
            madvise(region->base + at, more, MADV_HUGEPAGE); /* a wish: kernels without huge pages refuse it */
        const struct leat_pinning *pinning = region->pinning;
        region->unpinned = pinning && pinning->pin(pinning->user, region->base + at, more, error);
        if (region->unpinned)
            return false;
        area->committed += more;
        if (region->head)
            atomic_store(&region->head->mapped[area == &region->areas[1]], area->committed);
    }
    return true;
}

int leat_region_open(struct leat_region *region, int kind, uint64_t limit, const struct leat_pinning *pinning,
                     struct leat_error *error)
{
    memset(region, 0, sizeof *region);
    region->fd = -1;
    region->pinning = pinning;
    region->stays = pinning;
    if (kind < 0 || kind >= leat_region_n_kinds)
        return leat_fail(error, LEAT_E_INVALID, "region must be 0 (private) or 1 (memfd), not %d", kind);
    region->kind = &leat_region_kinds[kind];
    region->limit = limit;
    if (limit > UINT64_C(1) << 46)
        return leat_fail(error, LEAT_E_NOMEM,
                         "a budget of %llu bytes is more than there are addresses for; lower budget_bytes",
                         (unsigned long long)limit);
    /* Twice the limit for each area, so that holes between held buffers rarely matter. */
    uint64_t each[2] = {2 * round_up(limit, HUGE_PAGE), 2 * round_up(limit, HUGE_PAGE)};
    struct rlimit file = {.rlim_cur = RLIM_INFINITY};
    if (region->kind->fd) {
        if ((region->fd = memfd_create("leat", MFD_CLOEXEC | MFD_ALLOW_SEALING)) < 0)
            return leat_fail_errno(error, LEAT_E_NOMEM, "cannot make a memfd for batches");
        getrlimit(RLIMIT_FSIZE, &file);
    }
    if (file.rlim_cur < each[0] + each[1]) { /* in whole huge pages if there are some */
        uint64_t unit = file.rlim_cur < 64 * HUGE_PAGE ? leat_region_round(1) : HUGE_PAGE;
        each[0] = file.rlim_cur / 4 / unit * unit;
        each[1] = (file.rlim_cur - each[0]) / unit * unit;
        region->file_limited = true;
    }
    region->bytes = each[0] + each[1];
    if (!region->bytes)
        errno = EFBIG;
    if (!region->bytes || !reserve(region)) {
        int rc = leat_fail_errno(error, LEAT_E_NOMEM, "cannot reserve %llu bytes of address space for batches%s",
                                 (unsigned long long)region->bytes,
                                 !region->bytes                           ? LEAT_REGION_FILES
                                 : leat_address_space_left() < UINT64_MAX ? LEAT_REGION_ADDRESSES
                                                                          : "");
        leat_region_close(region);
        return rc;
    }
    if (!open_area(&region->areas[0], 0, each[0], false) ||
        !open_area(&region->areas[1], each[0], region->bytes, true)) {
        leat_region_close(region);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the lists of a region");
    }
    if (pinning) /* what cannot be pinned at all is known before there are batches */
        commit_to(region, &region->areas[0], 1, error);
    const int rc = region->unpinned    ? error->code
                   : make_head(region) ? LEAT_OK
                                       : leat_fail(error, LEAT_E_NOMEM, "no memory for the lists of a region");
    if (rc)
        leat_region_close(region);
    return rc;
}

void leat_region_close(struct leat_region *region)
{
    for (int i = 0; i < 2; i++) {
        const struct leat_region_area *area = &region->areas[i];
        for (uint64_t at = area->begin; region->pinning && at < area->committed; at += piece_of(area))
            region->pinning->unpin(region->pinning->user, region->base + at);
        if (region->base && region->stepwise && area->committed > area->begin)
            munmap(region->base + area->begin, area->committed - area->begin);
        leat_free(area->free);
    }
    leat_free(region->lingering.free);
    if (region->base && !region->stepwise)
        munmap(region->base, region->bytes);
    if (region->fd >= 0)
        close(region->fd);
    memset(region, 0, sizeof *region);
    region->fd = -1;
}

static void release_pages(const struct leat_region *region, uint64_t offset, uint64_t bytes)
{
    if (!region->stays) /* else others may still read its bytes */
        region->kind->give_back(region->base + offset, bytes);
}

static uint64_t give_back(struct leat_region *region, struct leat_region_area *area, struct leat_region_extent *extent)
{
    uint64_t end = extent->offset + extent->bytes, bytes = extent->dirty;
    if (end > area->committed)
        end = area->committed;
    if (end > extent->offset)
        release_pages(region, extent->offset, end - extent->offset);
    if (extent->offset + extent->bytes >= area->touched && extent->offset < area->touched)
        area->touched = extent->offset;
    region->dirty -= bytes;
    extent->dirty = 0;
    return bytes;
}

uint64_t leat_region_trim(struct leat_region *region)
{
    uint64_t bytes = 0;
    for (int a = 0; a < 2; a++)
        for (size_t i = 0; i < region->areas[a].n_free; i++)
            if (region->areas[a].free[i].dirty)
                bytes += give_back(region, &region->areas[a], &region->areas[a].free[i]);
    return bytes;
}

static void keep_limit(struct leat_region *region)
{
    for (int a = 1; a >= 0; a--)
        for (size_t i = region->areas[a].n_free; i-- && region->used + region->dirty > region->limit;)
            if (region->areas[a].free[i].dirty)
                give_back(region, &region->areas[a], &region->areas[a].free[i]);
}

void leat_region_set_limit(struct leat_region *region, uint64_t limit)
{
    region->limit = limit;
    keep_limit(region);
}

const char *leat_region_obstacle(const struct leat_region *region)
{
    return region->refused && region->unpinned                         ? "; the driver refuses to pin more memory"
           : region->refused && leat_address_space_left() < UINT64_MAX ? LEAT_REGION_ADDRESSES
           : region->file_limited                                      ? LEAT_REGION_FILES
                                                                       : NULL;
}

bool leat_region_is_warm(const struct leat_region *region, uint64_t bytes)
{
    const struct leat_region_area *area = &region->areas[bytes >= LEAT_REGION_LARGE];
    size_t i = 0;
    while (i < area->n_free && area->free[i].bytes < bytes)
        i++;
    return i < area->n_free && area->free[i].dirty >= bytes;
}

uint8_t *leat_region_alloc(struct leat_region *region, uint64_t bytes, uint64_t *offset)
{
    struct leat_region_area *area = &region->areas[bytes >= LEAT_REGION_LARGE];
    region->refused = false;
    leat_region_sweep(region);
    for (size_t i = 0; i < area->n_free; i++) {
        struct leat_region_extent *e = &area->free[i];
        if (e->bytes < bytes)
            continue;
        if (!commit_to(region, area, e->offset + bytes, NULL)) {
            region->refused = true;
            return NULL;
        }
        *offset = e->offset;
        e->offset += bytes;
        e->bytes -= bytes;
        uint64_t dirty = e->dirty, reach = area->huge ? round_up(e->offset, HUGE_PAGE) : e->offset;
        if (reach > area->touched) { /* writing to the end makes all of a huge page resident */
            area->touched = reach;
            dirty = reach - e->offset;
        }
        dirty = lower_of(dirty, lower_of(e->bytes, area->touched - e->offset));
        region->dirty += dirty - e->dirty;
        e->dirty = dirty;
        if (!e->bytes)
            remove_extent(area, i);
        region->used += bytes;
        keep_limit(region);
        return region->base + *offset;
    }
    return NULL;
}

static void free_extent(struct leat_region *region, uint64_t offset, uint64_t bytes)
{
    struct leat_region_area *area = &region->areas[offset >= region->areas[1].begin];
    const size_t low = LEAT_BISECT(i, 0, area->n_free, area->free[i].offset < offset);
    struct leat_region_extent *before = low ? &area->free[low - 1] : NULL,
                              *after = low < area->n_free ? &area->free[low] : NULL;
    bool joins_before = before && before->offset + before->bytes == offset,
         joins_after = after && offset + bytes == after->offset;
    region->used -= bytes;
    region->dirty += bytes;
    if (joins_before) {
        before->bytes += bytes;
        before->dirty += bytes;
        if (joins_after) {
            before->bytes += after->bytes;
            before->dirty += after->dirty;
            remove_extent(area, low);
        }
    } else if (joins_after) {
        after->offset = offset;
        after->bytes += bytes;
        after->dirty += bytes;
    } else if (!insert_extent(area, low, (struct leat_region_extent){offset, bytes, bytes})) {
        /* No memory for the list: the addresses are lost until the region closes, the pages are not. */
        release_pages(region, offset, bytes);
        region->dirty -= bytes;
    }
}

void leat_region_free(struct leat_region *region, uint64_t offset, uint64_t bytes)
{
    struct leat_region_area *list = &region->lingering;
    if (!region->head || !leat_holders_have(&region->head->holders, offset, offset + bytes))
        free_extent(region, offset, bytes);
    else
        insert_extent(list, list->n_free, (struct leat_region_extent){offset, bytes, 0}); /* else it is lost */
}

void leat_region_sweep(struct leat_region *region)
{
    struct leat_region_area *list = &region->lingering;
    for (size_t i = list->n_free; i--;) {
        const struct leat_region_extent e = list->free[i];
        if (leat_holders_have(&region->head->holders, e.offset, e.offset + e.bytes))
            continue;
        remove_extent(list, i);
        free_extent(region, e.offset, e.bytes);
    }
}

int leat_region_join(void *begin, uint64_t bytes, struct leat_holder **out, struct leat_error *error)
{
    struct leat_region_head *head = begin;
    const uint64_t least = offsetof(struct leat_region_head, holders);
    *out = NULL;
    if (bytes < least + leat_holders_bytes(0) || bytes - least < leat_holders_bytes(head->holders.n))
        return leat_fail(error, LEAT_E_INVALID, "no region of a loader begins here");
    *out = leat_holders_join(&head->holders);
    return *out ? LEAT_OK : leat_fail(error, LEAT_E_HELD, "too many processes hold memory of this loader");
}
