/* The kept index of a graph of events: whatever it holds, it is refused, or lookups stay within it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "data/event_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(struct leat_event_index *x, uint32_t v)
{
    volatile uint64_t sum = 0;
    for (uint64_t e = 0; e < x->n + 2 && e < 50; e++) {
        const uint32_t end = leat_event_before(x, v, e);
        for (uint32_t i = x->begin[v]; i < end; i++)
            sum += (uint64_t)x->sides[i].time + (uint64_t)x->ends[x->sides[i].event].dst;
        if (x->past)
            for (uint32_t i = 0; i < leat_event_past_before(x, v, e); i++)
                sum += (uint64_t)x->past[x->past_begin[v] + i].dst;
    }
    leat_event_before_time(x, v, (int64_t)sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct leat_event_index x = {0};
    const int fd = size ? memfd_create("fuzz", 0) : -1;
    if (!size)
        return 0;
    if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)size - 1)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (leat_event_index_load(&x, NULL, *data & 1, path, true)) {
        if (!(x.hints = leat_new_array(x.n_nodes + 1, sizeof *x.hints)))
            abort();
        for (uint64_t e = 0; e < x.n && e < 100; e++)
            look(&x, leat_event_node(&x, x.ends[e].src));
        for (uint32_t v = 0; v < x.n_nodes && v < 100; v++)
            look(&x, v);
        leat_event_index_destroy(&x);
    }
    close(fd);
    return 0;
}
