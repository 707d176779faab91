/*
 * Regions: reserving, cutting and giving back. The free pieces of an area are a sorted array: there are as many as
 * there are holes between live buffers, some dozens, so searching it costs less than any tree.
 *
 * What may be resident is known only as an upper bound: used + sum of `dirty` over the free pieces. A piece that was
 * freed is dirty whole; pieces that join add up; a piece that is cut keeps as much dirt as still fits in it. When the
 * bound would pass the limit, the free pieces with the highest addresses are given back first.
 */
#include "engine/region.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

static int reserve_private(uint64_t bytes, uint8_t **base, int *fd, struct leat_error *error)
{
    *fd = -1;
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return leat_fail_errno(error, LEAT_E_NOMEM, "cannot reserve %llu bytes of address space for batches",
                               (unsigned long long)bytes);
    *base = p;
    return LEAT_OK;
}

static bool commit_private(uint8_t *at, uint64_t bytes, bool huge)
{
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE))
        return false;
    if (huge)
        madvise(at, bytes, MADV_HUGEPAGE); /* a wish: kernels without huge pages refuse it */
    return true;
}

static void give_back_private(uint8_t *at, uint64_t bytes)
{
    madvise(at, bytes, MADV_DONTNEED);
}

static int reserve_memfd(uint64_t bytes, uint8_t **base, int *fd, struct leat_error *error)
{
    *fd = memfd_create("leat", MFD_CLOEXEC);
    if (*fd < 0)
        return leat_fail_errno(error, LEAT_E_NOMEM, "cannot make a memfd for batches");
    void *p = MAP_FAILED;
    if (!ftruncate(*fd, (off_t)bytes))
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
    if (p == MAP_FAILED) {
        int rc = leat_fail_errno(error, LEAT_E_NOMEM, "cannot reserve %llu bytes of shared memory for batches",
                                 (unsigned long long)bytes);
        close(*fd);
        *fd = -1;
        return rc;
    }
    *base = p;
    return LEAT_OK;
}

static bool commit_memfd(uint8_t *at, uint64_t bytes, bool huge)
{
    if (huge)
        madvise(at, bytes, MADV_HUGEPAGE);
    return true;
}

static void give_back_memfd(uint8_t *at, uint64_t bytes)
{
    madvise(at, bytes, MADV_REMOVE); /* punches the hole in the file behind the mapping */
}

const struct leat_region_kind leat_region_kinds[] = {
    {"private", reserve_private, commit_private, give_back_private},
    {"memfd", reserve_memfd, commit_memfd, give_back_memfd},
};
const int leat_region_n_kinds = sizeof leat_region_kinds / sizeof *leat_region_kinds;

uint64_t leat_region_round(uint64_t bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) & ~(page - 1);
}

static bool insert_extent(struct leat_region_area *area, size_t at, struct leat_region_extent extent)
{
    if (area->n_free == area->room) {
        size_t room = area->room ? area->room * 2 : 64;
        struct leat_region_extent *grown = leat_realloc_array(area->free, room, sizeof *grown);
        if (!grown)
            return false;
        area->free = grown;
        area->room = room;
    }
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
    *area = (struct leat_region_area){.begin = begin, .end = end, .committed = begin, .huge = huge};
    return insert_extent(area, 0, (struct leat_region_extent){begin, end - begin, 0});
}

int leat_region_open(struct leat_region *region, int kind, uint64_t limit, struct leat_error *error)
{
    memset(region, 0, sizeof *region);
    region->fd = -1;
    if (kind < 0 || kind >= leat_region_n_kinds)
        return leat_fail(error, LEAT_E_INVALID, "region must be 0 (private) or 1 (memfd), not %d", kind);
    region->kind = &leat_region_kinds[kind];
    region->limit = limit;
    if (limit > UINT64_C(1) << 46)
        return leat_fail(error, LEAT_E_NOMEM,
                         "a budget of %llu bytes is more than there are addresses for; lower budget_bytes",
                         (unsigned long long)limit);
    /* Twice the limit for each area, so that holes between held buffers rarely matter; once if addresses are scarce. */
    uint64_t once = (limit + 2 * HUGE_PAGE - 1) & ~(HUGE_PAGE - 1), each = 2 * once;
    int rc = region->kind->reserve(2 * each + HUGE_PAGE, &region->base, &region->fd, NULL);
    if (rc) {
        each = once;
        rc = region->kind->reserve(2 * each + HUGE_PAGE, &region->base, &region->fd, error);
    }
    if (rc)
        return rc;
    region->bytes = 2 * each + HUGE_PAGE;
    /* so that the large area is aligned */
    uint64_t skew = (HUGE_PAGE - (uintptr_t)region->base % HUGE_PAGE) % HUGE_PAGE;
    if (!open_area(&region->areas[0], skew, skew + each, false) ||
        !open_area(&region->areas[1], skew + each, skew + 2 * each, true)) {
        leat_region_close(region);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the lists of a region");
    }
    return LEAT_OK;
}

void leat_region_close(struct leat_region *region)
{
    if (region->base)
        munmap(region->base, region->bytes);
    if (region->fd >= 0)
        close(region->fd);
    for (int i = 0; i < 2; i++)
        leat_free(region->areas[i].free);
    memset(region, 0, sizeof *region);
    region->fd = -1;
}

static uint64_t give_back(struct leat_region *region, struct leat_region_area *area, struct leat_region_extent *extent)
{
    uint64_t end = extent->offset + extent->bytes, bytes = extent->dirty;
    if (end > area->committed)
        end = area->committed;
    if (end > extent->offset)
        region->kind->give_back(region->base + extent->offset, end - extent->offset);
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

static bool commit_to(struct leat_region *region, struct leat_region_area *area, uint64_t end)
{
    if (end <= area->committed)
        return true;
    uint64_t to = (end + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1); /* begin and end of an area are multiples too */
    if (!region->kind->commit(region->base + area->committed, to - area->committed, area->huge))
        return false;
    area->committed = to;
    return true;
}

uint8_t *leat_region_alloc(struct leat_region *region, uint64_t bytes, uint64_t *offset)
{
    struct leat_region_area *area = &region->areas[bytes >= LEAT_REGION_LARGE];
    for (size_t i = 0; i < area->n_free; i++) {
        struct leat_region_extent *e = &area->free[i];
        if (e->bytes < bytes)
            continue;
        if (!commit_to(region, area, e->offset + bytes))
            return NULL;
        *offset = e->offset;
        e->offset += bytes;
        e->bytes -= bytes;
        uint64_t dirty = e->dirty < e->bytes ? e->dirty : e->bytes;
        region->dirty -= e->dirty - dirty;
        e->dirty = dirty;
        if (!e->bytes)
            remove_extent(area, i);
        region->used += bytes;
        keep_limit(region);
        return region->base + *offset;
    }
    return NULL;
}

void leat_region_free(struct leat_region *region, uint64_t offset, uint64_t bytes)
{
    struct leat_region_area *area = &region->areas[offset >= region->areas[1].begin];
    size_t low = 0, high = area->n_free;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (area->free[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
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
        region->kind->give_back(region->base + offset, bytes);
        region->dirty -= bytes;
    }
}
