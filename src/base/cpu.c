/*
 * Affinity, cgroups and CPUID. Containers state their limits in cgroups; a loader that ignores them starts sixty-four
 * threads on two cores. Both cgroup versions are read along the process's own path up to the root, because a limit on
 * any ancestor holds.
 */
#include "base/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/log.h"
#include "leat/leat.h"

/* Calls `visit` with each directory of this process's cgroup of `controller` (v2: ""), leaf first. */
static void walk_cgroup(const char *controller, void (*visit)(const char *dir, void *user), void *user)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return;
    char line[4096];
    while (fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *list++ = 0;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        bool v2 = !*controller && !*list, v1 = false;
        for (char *save = NULL, *name = strtok_r(list, ",", &save); name && *controller;
             name = strtok_r(NULL, ",", &save))
            v1 |= !strcmp(name, controller);
        if (!v1 && !v2)
            continue;
        for (;;) {
            char dir[4400];
            snprintf(dir, sizeof dir, "/sys/fs/cgroup%s%s%s", *controller ? "/" : "", controller,
                     strcmp(path, "/") ? path : "");
            visit(dir, user);
            char *slash = strrchr(path, '/');
            if (!slash || !path[0] || !strcmp(path, "/"))
                break;
            *slash = 0;
        }
    }
    fclose(f);
}

static bool read_numbers(const char *dir, const char *name, long long *a, long long *b)
{
    char path[4500], text[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool ok = fgets(text, sizeof text, f) && sscanf(text, "%lld %lld", a, b) >= 1;
    fclose(f);
    return ok; /* "max" does not scan: no limit */
}

static void lower_cores(const char *dir, void *user)
{
    unsigned *cores = user;
    long long quota = -1, period = 100000;
    if (!read_numbers(dir, "cpu.max", &quota, &period)) {
        long long unused;
        if (!read_numbers(dir, "cpu.cfs_quota_us", &quota, &unused) ||
            !read_numbers(dir, "cpu.cfs_period_us", &period, &unused))
            return;
    }
    if (quota > 0 && period > 0 && (quota + period - 1) / period < *cores)
        *cores = (unsigned)((quota + period - 1) / period);
}

unsigned leat_cpu_count(void)
{
    unsigned cores = 0;
    for (int bits = 1024; bits <= 1 << 16 && !cores; bits *= 4) { /* EINVAL: the kernel's mask is larger */
        cpu_set_t *set = CPU_ALLOC((size_t)bits);
        if (!set)
            break;
        if (!sched_getaffinity(0, CPU_ALLOC_SIZE((size_t)bits), set))
            cores = (unsigned)CPU_COUNT_S(CPU_ALLOC_SIZE((size_t)bits), set);
        CPU_FREE(set);
    }
    if (!cores) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        cores = online > 0 ? (unsigned)online : 1;
    }
    walk_cgroup("", lower_cores, &cores);
    walk_cgroup("cpu", lower_cores, &cores);
    return cores ? cores : 1;
}

static void lower_memory(const char *dir, void *user)
{
    uint64_t *bytes = user;
    long long limit, unused;
    if ((read_numbers(dir, "memory.max", &limit, &unused) ||
         read_numbers(dir, "memory.limit_in_bytes", &limit, &unused)) &&
        limit > 0 && (uint64_t)limit < *bytes)
        *bytes = (uint64_t)limit;
}

uint64_t leat_memory_allowed(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_C(1) << 32;
    walk_cgroup("", lower_memory, &bytes);
    walk_cgroup("memory", lower_memory, &bytes);
    struct rlimit r;
    if (!getrlimit(RLIMIT_AS, &r) && r.rlim_cur != RLIM_INFINITY && r.rlim_cur < bytes)
        bytes = r.rlim_cur;
    return bytes;
}

uint64_t leat_address_space_left(void)
{
    struct rlimit r;
    long long pages = 0, unused;
    if (getrlimit(RLIMIT_AS, &r) || r.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    read_numbers("/proc/self", "statm", &pages, &unused);
    uint64_t used = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return r.rlim_cur > used ? r.rlim_cur - used : 0;
}

#if defined(__x86_64__)
/* Two that clang's __builtin_cpu_supports does not know by name. Processors with AVX2 have them; emulators and virtual
 * machines that hide some features may not. */
static bool has_lzcnt_and_movbe(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_MOVBE && __get_cpuid(0x80000001, &a, &b, &c, &d) && c & bit_LZCNT;
}
#endif

/* Asks for the instructions that LEAT_TARGET_AVX2 and LEAT_TARGET_AVX512 name. */
static enum leat_isa detect(void)
{
    enum leat_isa best = LEAT_ISA_PORTABLE;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && has_lzcnt_and_movbe())
        best = LEAT_ISA_AVX2;
    if (best == LEAT_ISA_AVX2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
        __builtin_cpu_supports("avx512vnni"))
        best = LEAT_ISA_AVX512;
#endif
    return best;
}

enum leat_isa leat_cpu_isa_wished(enum leat_isa best, const char *wish)
{
    static const char *const names[] = {
        [LEAT_ISA_PORTABLE] = "portable", [LEAT_ISA_AVX2] = "avx2", [LEAT_ISA_AVX512] = "avx512"};
    if (!wish || !*wish)
        return best;
    for (enum leat_isa isa = LEAT_ISA_PORTABLE; isa <= LEAT_ISA_AVX512; isa++) {
        if (strcmp(wish, names[isa]) != 0)
            continue;
        if (isa > best)
            leat_log(LEAT_LOG_WARNING, "LEAT_ISA=%s: this processor has no such instructions; %s is used", names[isa],
                     names[best]);
        return isa < best ? isa : best;
    }
    leat_log(LEAT_LOG_WARNING, "LEAT_ISA=%.100s is not known: it is portable, avx2 or avx512; %s is used", wish,
             names[best]);
    return best;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum leat_isa known;

static void choose(void)
{
    known = leat_cpu_isa_wished(detect(), getenv("LEAT_ISA"));
}

enum leat_isa leat_cpu_isa(void)
{
    pthread_once(&once, choose);
    return known;
}
