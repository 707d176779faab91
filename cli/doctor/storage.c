/*
 * The speed of the storage, without the page cache: a file is read for a moment with O_DIRECT, from places spread over
 * it, which leaves the cache as it is. mincore tells what is in the cache.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "print.h"
#include "progress.h"

enum { BLOCK = 1 << 20, ALIGN = 4096, FILES = 64 };
#define MOMENT_S 0.7

struct probe {
    double bytes, seconds; /* read around the cache */
    double seen, cached;   /* bytes looked at, and of these in the cache */
};

static void read_direct(struct probe *probe, const char *path, uint64_t size, double until)
{
    void *block = NULL;
    const int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0)
        return;
    const uint64_t blocks = size / BLOCK + 1;
    const double begin = cli_now();
    double bytes = 0;
    /* A step that shares no factor with most numbers goes through all blocks in an order that no read-ahead guesses. */
    for (uint64_t i = 0; i < blocks && cli_now() < until && !posix_memalign(&block, ALIGN, BLOCK); i++) {
        const ssize_t n = pread(fd, block, BLOCK, (off_t)(i * 7919 % blocks * BLOCK));
        free(block);
        if (n < 0)
            break;
        bytes += (double)n;
    }
    close(fd);
    if (bytes <= 0)
        return;
    probe->bytes += bytes;
    probe->seconds += cli_now() - begin;
}

static void look_into_cache(struct probe *probe, const char *path, uint64_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE),
                 looked = size < (UINT64_C(1) << 30) ? (size_t)size : (size_t)1 << 30;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *at = looked ? mmap(NULL, looked, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    const size_t pages = (looked + page - 1) / page;
    unsigned char *resident = at != MAP_FAILED ? malloc(pages) : NULL;
    if (resident && !mincore(at, looked, resident)) {
        for (size_t i = 0; i < pages; i++)
            probe->cached += resident[i] & 1 ? (double)page : 0;
        probe->seen += (double)(pages * page);
    }
    free(resident);
    if (at != MAP_FAILED)
        munmap(at, looked);
    close(fd);
}

static void look_at(struct probe *probe, const char *path, double until)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
        return;
    look_into_cache(probe, path, (uint64_t)st.st_size);
    read_direct(probe, path, (uint64_t)st.st_size, until);
}

/* Some photos of a folder, spread evenly. */
static void look_at_folder(const struct cli_doctor *doctor, struct probe *probe, double until)
{
    const int name = cli_field(doctor->dataset, "name");
    const uint64_t count = leat_dataset_count(doctor->dataset), n = count < FILES ? count : FILES;
    for (uint64_t i = 0; name >= 0 && i < n; i++) {
        struct leat_value value;
        char path[4096];
        if (leat_dataset_read(doctor->dataset, count * i / n, (size_t)name, &value, NULL))
            continue;
        snprintf(path, sizeof path, "%s/%.*s", doctor->path, (int)value.length, (const char *)value.data);
        leat_value_clear(&value);
        look_at(probe, path, until);
    }
}

void cli_doctor_storage(struct cli_doctor *doctor)
{
    struct probe probe = {0};
    struct stat st;
    const double until = cli_now() + MOMENT_S;
    json_t *about = cli_about(doctor->dataset), *shard;
    size_t i;
    doctor->bytes = cli_whole(about, "bytes");
    if (!stat(doctor->path, &st) && S_ISDIR(st.st_mode))
        look_at_folder(doctor, &probe, until);
    else
        json_array_foreach(json_object_get(about, "shards"), i, shard)
        {
            const char *path = json_string_value(json_object_get(shard, "path"));
            if (path)
                look_at(&probe, path, until);
        }
    if (probe.seen <= 0)
        look_at(&probe, doctor->path, until);
    doctor->storage_rate = probe.seconds > 0 ? probe.bytes / probe.seconds : 0;
    doctor->cached = probe.seen > 0 ? probe.cached / probe.seen : -1;
    json_decref(about);
}
