/* Tables whose rows are gathered, by the processor and by a card, whose part standin.c takes. */
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../allocations.h"
#include "../test.h"
#include "device/driver.h"
#include "leat/device.h"
#include "standin.h"

static struct leat_error error;
static struct standin *standin;

static const enum leat_dtype dtypes[] = {LEAT_U8,  LEAT_I8,  LEAT_U16,  LEAT_I16, LEAT_U32, LEAT_I32, LEAT_U64,
                                         LEAT_I64, LEAT_F16, LEAT_BF16, LEAT_F32, LEAT_F64, LEAT_BOOL};
static const enum leat_dtype as[] = {LEAT_F32, LEAT_F16, LEAT_BF16}; /* which others are converted to */
enum { DTYPES = sizeof dtypes / sizeof *dtypes, AS = sizeof as / sizeof *as };

/* Bytes that are values of any type: of a bool 0 or 1. */
static void fill(uint8_t *data, size_t bytes, enum leat_dtype dtype)
{
    uint64_t x = 88172645463325252;
    for (size_t i = 0; i < bytes; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        data[i] = dtype == LEAT_BOOL ? x >> 20 & 1 : (uint8_t)(x >> 20);
    }
}

static struct leat_device_rows *open_rows(const void *data, enum leat_dtype dtype, uint64_t count, uint64_t width,
                                          int device)
{
    struct leat_device_rows_options o = LEAT_DEVICE_ROWS_OPTIONS_INIT;
    struct leat_device_rows *rows;
    o.data = data;
    o.dtype = dtype;
    o.count = count;
    o.width = width;
    o.device = device;
    assert_ok(leat_device_rows_open(&o, &rows, &error));
    return rows;
}

static int open_fails(const struct leat_device_rows_options *o)
{
    struct leat_device_rows *rows = (void *)&rows;
    const int rc = leat_device_rows_open(o, &rows, &error);
    assert_null(rows);
    assert_int_equal(error.code, rc);
    return rc;
}

static void says(const char *text)
{
    if (!strstr(error.message, text))
        fail_msg("'%s' does not say '%s'", error.message, text);
}

static int set_up(void **state)
{
    void *handle = dlopen(getenv("LEAT_LIBCUDA"), RTLD_NOW);
    struct standin *(*get)(void);
    void *found = handle ? dlsym(handle, "standin_state") : NULL;
    memcpy(&get, &found, sizeof get);
    if (!found)
        return -1;
    standin = get();
    return 0;
}

static struct standin usual;
static int keep(void **state)
{
    usual = *standin;
    return 0;
}
/* Nothing that a test has taken is left. */
static int restore(void **state)
{
    const bool clean = standin->pinned == usual.pinned && !standin->current;
    *standin = usual;
    return clean ? 0 : -1;
}
#define TEST_CARD(name) TEST_IN(name, keep, restore)

/* ---- what a driver may lack: first, as the driver that was loaded stays ------------------------- */

static struct leat_device_rows_options some_rows(int device)
{
    static const float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct leat_device_rows_options o = LEAT_DEVICE_ROWS_OPTIONS_INIT;
    o.data = table;
    o.count = 4;
    o.width = 2;
    o.device = device;
    return o;
}

TEST_CARD(a_driver_that_is_missing_old_or_broken_is_an_error_that_says_so)
{
    char *path = strdup(getenv("LEAT_LIBCUDA"));
    const struct leat_device_rows_options o = some_rows(0);
    setenv("LEAT_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    assert_int_equal(open_fails(&o), LEAT_E_UNSUPPORTED);
    says("no CUDA driver is on this machine");
    setenv("LEAT_LIBCUDA", "libm.so.6", 1);
    assert_int_equal(open_fails(&o), LEAT_E_UNSUPPORTED);
    says("too old: it has no cuInit");
    setenv("LEAT_LIBCUDA", path, 1);
    free(path);
    standin->driver_version = 10020;
    assert_int_equal(open_fails(&o), LEAT_E_UNSUPPORTED);
    says("CUDA 10.2, and 11.4 is needed");
    standin->driver_version = usual.driver_version;
    standin->fails = "cuInit";
    standin->code = 803;
    assert_int_equal(open_fails(&o), LEAT_E_UNSUPPORTED);
    says("different versions");
    static const struct {
        int code, status;
        const char *text;
    } others[] = {{3, LEAT_E_FORKED, "start such processes by spawn"},
                  {34, LEAT_E_UNSUPPORTED, "out of LD_LIBRARY_PATH"},
                  {802, LEAT_E_UNSUPPORTED, "nvidia-fabricmanager"},
                  {804, LEAT_E_UNSUPPORTED, "cuda-compat"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        standin->code = others[i].code;
        assert_int_equal(open_fails(&o), others[i].status);
        says(others[i].text);
    }
}

TEST_CARD(a_card_that_is_missing_or_taken_is_an_error_that_says_so)
{
    struct leat_device_rows_options o = some_rows(3);
    standin->cards = 0;
    assert_int_equal(open_fails(&o), LEAT_E_UNSUPPORTED);
    says("CUDA_VISIBLE_DEVICES");
    standin->cards = 2;
    assert_int_equal(open_fails(&o), LEAT_E_RANGE);
    says("no card 3: CUDA shows 2");
    standin->cards = 4;
    standin->fails = "cuDevicePrimaryCtxRetain";
    standin->code = 46;
    assert_int_equal(open_fails(&o), LEAT_E_BUSY);
    says("exclusive mode");
    standin->code = 2;
    assert_int_equal(open_fails(&o), LEAT_E_NOMEM);
    says("1073741824 of the card's 1073741824 bytes are free");
    o.device = 64;
    assert_int_equal(open_fails(&o), LEAT_E_RANGE);
}

TEST_CARD(a_missing_compiler_is_an_error_that_says_what_to_install)
{
    char *path = strdup(getenv("LEAT_LIBNVRTC"));
    struct leat_device_rows *rows = open_rows((const float[]){1, 2}, LEAT_F32, 1, 2, 0);
    const int64_t id = 0;
    _Alignas(16) float out[2];
    setenv("LEAT_LIBNVRTC", "/nowhere/libnvrtc.so", 1);
    assert_int_equal(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error), LEAT_E_UNSUPPORTED);
    says("pip install nvidia-cuda-nvrtc");
    setenv("LEAT_LIBNVRTC", path, 1);
    free(path);
    standin->fails = "nvrtcCompileProgram";
    standin->code = 6;
    assert_int_equal(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error), LEAT_E_INVALID);
    says("line one");
    standin->fails = "cuModuleLoadData";
    standin->code = 222;
    assert_int_equal(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error), LEAT_E_UNSUPPORTED);
    says("older than NVRTC");
    standin->fails = NULL;
    assert_ok(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error));
    assert_true(out[0] == 1 && out[1] == 2);
    leat_device_rows_close(rows);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

/* Gathers by both, and compares with a loop. */
static void compare(const uint8_t *data, enum leat_dtype dtype, uint64_t count, uint64_t width, uint64_t n, bool wide,
                    enum leat_dtype to)
{
    struct leat_device_rows *here = open_rows(data, dtype, count, width, -1);
    struct leat_device_rows *card = open_rows(data, dtype, count, width, 0);
    const size_t row = width * leat_dtype_size(dtype), made = width * leat_dtype_size(to);
    int64_t *ids = malloc(n * 8 + 8);
    int32_t *narrow = malloc(n * 4 + 4);
    uint8_t *a = malloc(n * made + 16), *b = aligned_alloc(16, (n * made + 47) / 16 * 16);
    for (uint64_t i = 0; i < n; i++)
        narrow[i] = (int32_t)(ids[i] = (int64_t)(i * 7919 % count));
    memset(b, 0xee, n * made + 16);
    const void *which = wide ? (void *)ids : narrow;
    assert_ok(leat_device_rows_gather(here, which, wide, n, to, a, NULL, &error));
    assert_ok(leat_device_rows_gather(card, which, wide, n, to, b, NULL, &error));
    assert_ok(leat_device_rows_check(card, NULL, true, &error));
    for (uint64_t i = 0; dtype == to && i < n; i++)
        assert_memory_equal(a + i * made, data + (uint64_t)ids[i] * row, row);
    assert_memory_equal(a, b, n * made);
    for (int i = 0; i < 16; i++)
        assert_int_equal(b[n * made + (size_t)i], 0xee);
    leat_device_rows_close(here);
    leat_device_rows_close(card);
    free(ids);
    free(narrow);
    free(a);
    free(b);
}

TEST_CARD(rows_of_every_type_and_shape_are_those_of_the_table)
{
    static const uint64_t widths[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 33, 64, 65, 100, 129, 250, 257, 500};
    uint8_t *data = malloc(4096 + 64 * 500 * 8);
    for (int t = 0; t < DTYPES; t++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            const size_t size = leat_dtype_size(dtypes[t]), offset = size * (w % 9); /* in the line, and of a word */
            uint8_t *table = data + (64 - (uintptr_t)data % 64) + offset;
            fill(table, 61 * widths[w] * size, dtypes[t]);
            compare(table, dtypes[t], 61, widths[w], 1 + w * 5, w % 2, dtypes[t]);
            for (int a = 0; a < AS; a++)
                compare(table, dtypes[t], 61, widths[w], 1 + w * 5, w % 2, as[a]);
        }
    free(data);
}

TEST_CARD(more_rows_than_threads_of_the_card_are_gathered)
{
    float *table = malloc(1000 * sizeof *table);
    fill((uint8_t *)table, 4000, LEAT_F32);
    compare((uint8_t *)table, LEAT_F32, 1000, 1, 1 << 20 | 77, true, LEAT_F32);
    free(table);
}

TEST_CARD(tables_and_calls_may_be_empty)
{
    struct leat_device_rows *rows;
    _Alignas(16) uint8_t out[64];
    const int64_t ids[2] = {0, 1};
    for (int device = -1; device < 1; device++) {
        rows = open_rows(NULL, LEAT_I16, 0, 3, device);
        assert_ok(leat_device_rows_gather(rows, NULL, true, 0, LEAT_I16, NULL, NULL, &error));
        leat_device_rows_close(rows);
        rows = open_rows(NULL, LEAT_I16, 2, 0, device); /* rows without values */
        assert_ok(leat_device_rows_gather(rows, ids, true, 2, LEAT_F32, out, NULL, &error));
        assert_ok(leat_device_rows_check(rows, NULL, true, &error));
        leat_device_rows_close(rows);
    }
    leat_device_rows_close(NULL);
}

/* A table of one row is gathered by both as another type. */
enum { VALUES = 1 << 12 };
static _Alignas(16) uint8_t made[2][VALUES * 4];
static void convert(const void *table, enum leat_dtype dtype, enum leat_dtype to)
{
    const int64_t id = 0;
    for (int i = 0; i < 2; i++) {
        struct leat_device_rows *rows = open_rows(table, dtype, 1, VALUES, i - 1);
        memset(made[i], 0xee, sizeof made[i]);
        assert_ok(leat_device_rows_gather(rows, &id, true, 1, to, made[i], NULL, &error));
        leat_device_rows_close(rows);
    }
    assert_memory_equal(made[0], made[1], sizeof made[0]);
}

static uint32_t bits_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static double value_of(uint16_t bits, int mantissa, int bias)
{
    const int exponent = (bits & 0x7fff) >> mantissa, rest = bits & ((1 << mantissa) - 1);
    const int at = (exponent ? exponent : 1) - bias - mantissa;
    const double v = exponent == 2 * bias + 1 ? INFINITY : ldexp(rest + (exponent ? 1 << mantissa : 0), at);
    return bits >> 15 ? -v : v;
}

/* The nearest number with so many bits behind the leading one, of two the even one. */
static double rounded(double v, int mantissa, int bias)
{
    const int exponent = v == 0 || ilogb(v) < 1 - bias ? 1 - bias : ilogb(v);
    const double near = ldexp(rint(ldexp(v, mantissa - exponent)), exponent - mantissa);
    return fabs(near) < ldexp(1, bias + 1) ? near : copysign(INFINITY, v);
}

TEST_CARD(values_become_the_nearest_narrower_ones_and_of_two_the_even_one)
{
    static const uint32_t edges[] = {0,          1,          0x80000001, 0x007fffff, 0x00800000, 0x33000000,
                                     0x33000001, 0x387fc000, 0x387fe000, 0x38800000, 0x477fe000, 0x477fefff,
                                     0x477ff000, 0x7f7fffff, 0x7f7f8000, 0x7f7f7fff, 0x7f800000, 0xff800000};
    uint32_t bits[VALUES];
    fill((uint8_t *)bits, sizeof bits, LEAT_F32);
    memcpy(bits, edges, sizeof edges);
    for (size_t i = sizeof edges / sizeof *edges; i < VALUES; i++)
        if (i % 4 == 1) /* about as large as float16 is; with ties of it, of float16 that is subnormal, of bfloat16 */
            bits[i] = (bits[i] & 0x807fffff) | (uint32_t)(98 + i % 47) << 23;
        else if (i % 4 == 2)
            bits[i] = (bits[i] & 0x807fe000) | (uint32_t)(113 + i % 30) << 23 | 0x1000;
        else if (i % 4 == 3)
            bits[i] = i % 8 == 3 ? (bits[i] & 0xffff0000) | 0x8000
                                 : bits_of(((float)(bits[i] & 0x3ff) + 0.5f) * 0x1p-24f) | (bits[i] & 0x80000000);
    for (int a = 1; a < AS; a++) {
        const int mantissa = as[a] == LEAT_F16 ? 10 : 7, bias = as[a] == LEAT_F16 ? 15 : 127;
        convert(bits, LEAT_F32, as[a]);
        for (size_t i = 0; i < VALUES; i++) {
            float v;
            uint16_t found;
            memcpy(&v, &bits[i], sizeof v);
            memcpy(&found, made[0] + 2 * i, sizeof found);
            if (isnan(v))
                continue;
            if (value_of(found, mantissa, bias) != rounded(v, mantissa, bias) || found >> 15 != bits[i] >> 31)
                fail_msg("%a (%08x) became %04x", v, bits[i], found);
        }
    }
}

TEST_CARD(other_types_become_narrower_ones_by_way_of_float32)
{
    static uint8_t values[VALUES * 8], by_float[VALUES * 2];
    for (int t = 0; t < DTYPES; t++)
        for (int a = 1; a < AS; a++) {
            static float floats[VALUES];
            if (dtypes[t] == as[a] || dtypes[t] == LEAT_F32)
                continue;
            fill(values, sizeof values, dtypes[t]);
            convert(values, dtypes[t], LEAT_F32);
            memcpy(floats, made[0], sizeof floats);
            convert(floats, LEAT_F32, as[a]);
            memcpy(by_float, made[0], sizeof by_float);
            convert(values, dtypes[t], as[a]);
            assert_memory_equal(made[0], by_float, sizeof by_float);
        }
}

TEST_CARD(every_half_becomes_the_same_by_both)
{
    uint16_t table[1 << 16];
    for (uint32_t i = 0; i < 1 << 16; i++)
        table[i] = (uint16_t)i;
    for (int a = 0; a < AS; a++) {
        compare((uint8_t *)table, LEAT_F16, 1, 1 << 16, 2, true, as[a]);
        compare((uint8_t *)table, LEAT_BF16, 1 << 8, 1 << 8, 300, true, as[a]);
    }
}

TEST_CARD(a_nan_keeps_its_sign_and_the_upper_bits_of_its_payload_and_becomes_quiet)
{
    static uint64_t nans[VALUES];
    for (unsigned i = 0; i < VALUES; i++) /* each bit of the payload alone; the lowest ones; drawn ones */
        nans[i] = (uint64_t)(i & 1) << 63 | UINT64_C(0x7ff) << 52 |
                  (i < 104 ? UINT64_C(1) << i / 2 : UINT64_C(0x9e3779b97f4a7c15) * i >> 12 | 1);
    for (int a = 0; a < AS; a++) {
        const unsigned bits = as[a] == LEAT_F32 ? 23 : as[a] == LEAT_F16 ? 10 : 7;
        const unsigned size = as[a] == LEAT_F32 ? 4 : 2, exponent = as[a] == LEAT_F16 ? 5 : 8;
        convert(nans, LEAT_F64, as[a]);
        for (unsigned i = 0; i < VALUES; i++) {
            uint32_t found = 0;
            memcpy(&found, made[0] + size * i, size);
            const uint64_t payload = (nans[i] & ((UINT64_C(1) << 52) - 1)) >> (52 - bits);
            const uint64_t wanted =
                (nans[i] >> 63) << (bits + exponent) | ((1u << exponent) - 1) << bits | payload | 1u << (bits - 1);
            assert_int_equal(found, wanted);
        }
    }
}

/* ---- threads of the processor --------------------------------------------------------------------- */

static unsigned n_threads(void)
{
    unsigned n = 0;
    DIR *folder = opendir("/proc/self/task");
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

static bool gathers_by(unsigned threads)
{
    enum { N = 1 << 20 };
    static float table[N], out[N];
    static int32_t ids[N];
    struct leat_device_rows_options o = LEAT_DEVICE_ROWS_OPTIONS_INIT;
    struct leat_device_rows *rows;
    bool good = true;
    for (int i = 0; i < N; i++) {
        table[i] = (float)i;
        ids[i] = (int32_t)(i * INT64_C(7919) % N);
        out[i] = -1;
    }
    o.data = table;
    o.count = N;
    o.width = 1;
    o.num_threads = threads;
    if (leat_device_rows_open(&o, &rows, &error) ||
        leat_device_rows_gather(rows, ids, false, N, LEAT_F32, out, NULL, &error))
        return false;
    for (int i = 0; i < N; i++)
        good &= out[i] == (float)ids[i];
    leat_device_rows_close(rows);
    return good;
}

TEST_CARD(threads_that_gather_stay_for_the_next_call_and_a_forked_child_has_its_own)
{
    assert_true(gathers_by(4));
    const unsigned n = n_threads();
    assert_true(n >= 4);
    for (int i = 0; i < 20; i++)
        assert_true(gathers_by(4));
    assert_int_equal(n_threads(), n);
    if (TEST_THREAD_SANITIZED) /* which has no threads in a child */
        return;
    const pid_t child = fork();
    if (!child)
        _exit(gathers_by(3) && n_threads() == 3 && gathers_by(3) && n_threads() == 3 ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(gathers_by(4));
}

/* ---- ids that name no row ------------------------------------------------------------------------ */

TEST_CARD(the_processor_names_the_first_id_that_is_no_row)
{
    enum { N = 1 << 20 };
    struct leat_device_rows *rows = open_rows((const float[]){1, 2, 3}, LEAT_F32, 3, 1, -1);
    int64_t *ids = calloc(N, sizeof *ids);
    float *out = malloc(N * sizeof *out);
    ids[N - 5] = 3; /* of a later part */
    ids[700000] = -1;
    ids[700001] = 4;
    assert_int_equal(leat_device_rows_gather(rows, ids, true, N, LEAT_F32, out, NULL, &error), LEAT_E_RANGE);
    says("id -1 (number 700000 of the call) is not among the 3 rows");
    const int32_t narrow[] = {0, INT32_MIN};
    assert_int_equal(leat_device_rows_gather(rows, narrow, false, 2, LEAT_F32, out, NULL, &error), LEAT_E_RANGE);
    says("id -2147483648");
    leat_device_rows_close(rows);
    free(ids);
    free(out);
}

TEST_CARD(the_card_says_at_the_next_check_which_id_is_no_row_and_its_row_is_zero)
{
    static const int16_t table[6] = {1, 2, 3, 4, 5, 6};
    _Alignas(16) int16_t out[8];
    struct leat_device_rows *rows = open_rows(table, LEAT_I16, 3, 2, 0);
    const int64_t ids[4] = {2, INT64_MAX, 0, 1};
    standin->later = true;
    assert_ok(leat_device_rows_gather(rows, ids, true, 4, LEAT_I16, out, NULL, &error));
    assert_ok(leat_device_rows_check(rows, NULL, false, &error)); /* nobody knows yet */
    assert_int_equal(leat_device_rows_check(rows, NULL, true, &error), LEAT_E_RANGE);
    says("id 9223372036854775807 (number 1 of its call) is not among the 3 rows");
    assert_memory_equal(out, ((const int16_t[]){5, 6, 0, 0, 1, 2, 3, 4}), sizeof out);
    assert_ok(leat_device_rows_check(rows, NULL, true, &error)); /* it is said once */
    for (int i = 0; i < 2; i++) {                                /* and the next one is met */
        const int32_t narrow[2] = {1, i ? -7 : 3};
        assert_ok(leat_device_rows_gather(rows, narrow, false, 2, LEAT_I16, out, NULL, &error));
        assert_int_equal(leat_device_rows_check(rows, NULL, true, &error), LEAT_E_RANGE);
        says(i ? "id -7 (" : "id 3 (");
    }
    leat_device_rows_close(rows);
}

/* ---- memory -------------------------------------------------------------------------------------- */

TEST_CARD(files_and_what_the_driver_refuses_go_through_a_copy_within_the_budget)
{
    struct leat_device_rows_options o = some_rows(0);
    struct leat_device_rows *rows;
    const int64_t id = 3;
    _Alignas(16) float out[2];
    assert_ok(leat_device_rows_open(&o, &rows, &error));
    assert_true(leat_device_rows_in_place(rows));
    leat_device_rows_close(rows);
    standin->refuses_writable = true; /* the memory is read-only: that is asked for then */
    assert_ok(leat_device_rows_open(&o, &rows, &error));
    assert_true(leat_device_rows_in_place(rows));
    leat_device_rows_close(rows);
    for (int round = 0; round < 2; round++) {
        o.path = round ? NULL : "/some/file";
        standin->fails = round ? "cuMemHostRegister_v2" : NULL;
        standin->code = 1;
        o.budget_bytes = 31;
        assert_int_equal(open_fails(&o), LEAT_E_BUDGET);
        says(round ? "does not pin its memory" : "a mapped file");
        says("for 32 of its rows at a time takes 256 bytes, of which budget_bytes allows 31");
        o.budget_bytes = 32;
        assert_ok(leat_device_rows_open(&o, &rows, &error));
        assert_false(leat_device_rows_in_place(rows));
        assert_ok(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error));
        assert_true(out[0] == 7 && out[1] == 8);
        leat_device_rows_close(rows);
    }
    o.path = "/some/file";
    standin->fails = "cuMemHostAlloc";
    standin->code = 2;
    assert_int_equal(open_fails(&o), LEAT_E_NOMEM);
    says("ulimit -l");
}

/* A table for which the budget has room by 32 rows at a time. */
static struct leat_device_rows_options staged(const void *data, enum leat_dtype dtype, uint64_t count, uint64_t width)
{
    struct leat_device_rows_options o = LEAT_DEVICE_ROWS_OPTIONS_INIT;
    o.data = data;
    o.dtype = dtype;
    o.count = count;
    o.width = width;
    o.path = "/some/file";
    o.device = 0;
    o.budget_bytes = (16 * width * leat_dtype_size(dtype) + 127) / 128 * 256;
    return o;
}

TEST_CARD(rows_of_a_table_that_is_larger_than_the_budget_are_staged)
{
    enum { COUNT = 300, WIDTH = 13, N = 500, CALLS = 3 };
    static uint8_t table[COUNT * WIDTH * 8];
    static _Alignas(16) uint8_t here[CALLS][N * WIDTH * 8], there[CALLS][N * WIDTH * 8];
    int64_t ids[CALLS][N];
    int32_t narrow[N];
    standin->later = true; /* the card reads its half as late as it may */
    for (int t = 0; t < DTYPES; t++)
        for (int a = -1; a < AS; a++) {
            const enum leat_dtype to = a < 0 ? dtypes[t] : as[a];
            const struct leat_device_rows_options o = staged(table, dtypes[t], COUNT, WIDTH);
            struct leat_device_rows *rows, *processor = open_rows(table, dtypes[t], COUNT, WIDTH, -1);
            fill(table, sizeof table, dtypes[t]);
            assert_ok(leat_device_rows_open(&o, &rows, &error));
            assert_true(leat_device_rows_staged(rows) && !leat_device_rows_in_place(rows));
            memset(there, 0xee, sizeof there);
            for (int c = 0; c < CALLS; c++) {
                const bool wide = c % 2;
                for (int i = 0; i < N; i++)
                    narrow[i] = (int32_t)(ids[c][i] = (i * 7919 + c * 31) % COUNT);
                assert_ok(
                    leat_device_rows_gather(rows, wide ? (void *)ids[c] : narrow, wide, N, to, there[c], NULL, &error));
                assert_ok(leat_device_rows_gather(processor, ids[c], true, N, to, here[c], NULL, &error));
                memset(narrow, 0xff, sizeof narrow); /* they are not needed any more */
            }
            assert_ok(leat_device_rows_check(rows, NULL, true, &error));
            for (int c = 0; c < CALLS; c++)
                assert_memory_equal(here[c], there[c], N * WIDTH * leat_dtype_size(to));
            leat_device_rows_close(rows);
            leat_device_rows_close(processor);
        }
}

TEST_CARD(staged_rows_name_the_first_wrong_id_at_once_and_pass_on_what_the_driver_says)
{
    static const float table[4000] = {[1] = 1};
    static const char *const calls[] = {"cuMemHostAlloc", "cuEventCreate", "cuEventSynchronize", "cuLaunchKernel",
                                        "cuEventRecord"};
    const struct leat_device_rows_options o = staged(table, LEAT_F32, 2000, 2);
    struct leat_device_rows *rows;
    _Alignas(16) float out[200];
    int64_t ids[100] = {0};
    assert_ok(leat_device_rows_open(&o, &rows, &error));
    ids[70] = 2000;
    ids[71] = -1;
    out[0] = 7;
    assert_int_equal(leat_device_rows_gather(rows, ids, true, 100, LEAT_F32, out, NULL, &error), LEAT_E_RANGE);
    says("id 2000 (number 70 of the call) is not among the 2000 rows");
    assert_true(out[0] == 7);
    leat_device_rows_close(rows);
    ids[70] = ids[71] = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        standin->fails = calls[i];
        standin->code = 999;
        int rc = leat_device_rows_open(&o, &rows, &error);
        rc = rc ? rc : leat_device_rows_gather(rows, ids, true, 100, LEAT_F32, out, NULL, &error);
        standin->fails = NULL;
        leat_device_rows_close(rows);
        assert_true(rc);
    }
}

TEST_CARD(a_table_at_an_odd_place_is_copied_too)
{
    uint8_t bytes[17];
    fill(bytes, sizeof bytes, LEAT_F32);
    uint8_t *odd = bytes + ((uintptr_t)bytes % 2 ? 0 : 1);
    struct leat_device_rows *rows = open_rows(odd, LEAT_F32, 4, 1, 0);
    const int64_t ids[2] = {3, 1};
    _Alignas(16) uint8_t out[8];
    assert_false(leat_device_rows_in_place(rows));
    assert_ok(leat_device_rows_gather(rows, ids, true, 2, LEAT_F32, out, NULL, &error));
    assert_memory_equal(out, odd + 12, 4);
    assert_memory_equal(out + 4, odd + 4, 4);
    leat_device_rows_close(rows);
}

TEST_CARD(tables_over_one_array_do_not_end_each_other)
{
    enum { N = 64 };
    float table[N];
    _Alignas(16) float out;
    const int64_t id = 5;
    for (int i = 0; i < N; i++)
        table[i] = (float)i;
    struct leat_device_rows *all = open_rows(table, LEAT_F32, N, 1, 0);
    struct leat_device_rows *part = open_rows(table + 8, LEAT_F32, 16, 1, 1);
    leat_device_rows_close(all);
    assert_true(leat_device_rows_in_place(part));
    assert_ok(leat_device_rows_gather(part, &id, true, 1, LEAT_F32, &out, NULL, &error));
    assert_true(out == 13);
    all = open_rows(table + 8, LEAT_F32, N - 8, 1, 0);
    leat_device_rows_close(part);
    leat_device_rows_close(all);
    part = open_rows(table, LEAT_F32, 32, 1, 0);
    all = open_rows(table, LEAT_F32, N, 1, 0); /* more than is pinned */
    assert_false(leat_device_rows_in_place(all));
    leat_device_rows_close(part);
    leat_device_rows_close(all);
}

/* Memory that somebody else in the process pins, and lets go. */
static void enlist(void *p, size_t bytes)
{
    const struct leat_cuda *cuda;
    leat_cu_handle before;
    assert_ok(leat_cuda_get(&cuda, &error));
    assert_int_equal(cuda->cuCtxPushCurrent_v2(standin), 0);
    assert_int_equal(cuda->cuMemHostRegister_v2(p, bytes, 3), 0);
    cuda->cuCtxPopCurrent_v2(&before);
}
static void strike(void *p)
{
    const struct leat_cuda *cuda;
    assert_ok(leat_cuda_get(&cuda, &error));
    assert_int_equal(cuda->cuMemHostUnregister(p), 0);
}

TEST_CARD(memory_that_somebody_else_has_pinned_is_read_in_place_and_left_alone)
{
    float table[64] = {[9] = 9};
    _Alignas(16) float out;
    const int64_t id = 9;
    enlist(table, sizeof table);
    struct leat_device_rows *rows = open_rows(table, LEAT_F32, 64, 1, 0);
    assert_true(leat_device_rows_in_place(rows));
    assert_ok(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, &out, NULL, &error));
    assert_true(out == 9);
    leat_device_rows_close(rows);
    strike(table);
}

TEST_CARD(memory_of_which_somebody_else_has_pinned_parts_is_copied)
{
    static _Alignas(4096) uint8_t memory[3 * 4096];
    for (int parts = 1; parts <= 2; parts++) { /* its begin alone; both ends */
        for (int i = 0; i < parts; i++)
            enlist(memory + i * 8192, 4096);
        struct leat_device_rows *rows = open_rows(memory, LEAT_U8, 3, 4096, 0);
        assert_false(leat_device_rows_in_place(rows));
        leat_device_rows_close(rows);
        for (int i = 0; i < parts; i++)
            strike(memory + i * 8192);
    }
}

static _Alignas(4096) uint8_t memory_of_pins[2 * 4096];
static struct leat_device_rows *by_a_thread;
static pthread_t thread_of_pins;
static int registered;

static void *open_the_same(void *unused)
{
    struct leat_device_rows_options o = LEAT_DEVICE_ROWS_OPTIONS_INIT;
    o.data = memory_of_pins;
    o.dtype = LEAT_U8;
    o.count = o.width = 64;
    o.device = 1;
    leat_device_rows_open(&o, &by_a_thread, NULL);
    return NULL;
}

/* A table is being pinned: others are opened, of other pages here, of these by a thread, which waits. */
static void while_pinning(void *p)
{
    registered += p == memory_of_pins;
    if (p != memory_of_pins || registered > 1)
        return;
    struct leat_device_rows *rows = open_rows(memory_of_pins + 4096, LEAT_U8, 1, 4096, 0);
    assert_true(leat_device_rows_in_place(rows));
    leat_device_rows_close(rows);
    pthread_create(&thread_of_pins, NULL, open_the_same, NULL);
    usleep(20000);
}

TEST_CARD(tables_do_not_wait_for_others_that_are_being_pinned_but_for_their_own)
{
    registered = 0;
    standin->pinning = while_pinning;
    struct leat_device_rows *rows = open_rows(memory_of_pins, LEAT_U8, 1, 4096, 0);
    pthread_join(thread_of_pins, NULL);
    assert_int_equal(registered, 1);
    assert_non_null(by_a_thread);
    assert_true(leat_device_rows_in_place(rows) && leat_device_rows_in_place(by_a_thread));
    leat_device_rows_close(rows);
    leat_device_rows_close(by_a_thread);
}

TEST_CARD(a_table_that_is_closed_waits_for_the_card)
{
    struct leat_device_rows *rows = open_rows((const float[]){1, 2, 3}, LEAT_F32, 3, 1, 0);
    const int64_t id = 2;
    _Alignas(16) float out = 0;
    standin->later = true;
    assert_ok(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, &out, NULL, &error));
    assert_true(out == 0);
    leat_device_rows_close(rows);
    assert_true(out == 3);
}

TEST_CARD(a_file_that_was_cut_is_an_error_by_the_processor_and_as_it_is_copied_or_staged)
{
    char path[] = "/tmp/leat_rows_XXXXXX";
    const int fd = mkstemp(path);
    const size_t bytes = 1 << 20;
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    struct leat_device_rows_options o = LEAT_DEVICE_ROWS_OPTIONS_INIT;
    struct leat_device_rows *rows;
    o.data = data;
    o.count = bytes / 4;
    o.width = 1;
    o.path = path;
    const int64_t id = (int64_t)o.count - 1;
    _Alignas(16) float out;
    assert_ok(leat_device_rows_open(&o, &rows, &error));
    assert_ok(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, &out, NULL, &error));
    struct leat_device_rows *by_stage;
    o.device = 0;
    o.budget_bytes = bytes - 1;
    assert_ok(leat_device_rows_open(&o, &by_stage, &error));
    assert_ok(leat_device_rows_gather(by_stage, &id, true, 1, LEAT_F32, &out, NULL, &error));
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_int_equal(leat_device_rows_gather(by_stage, &id, true, 1, LEAT_F32, &out, NULL, &error), LEAT_E_IO);
    leat_device_rows_close(by_stage);
    assert_int_equal(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, &out, NULL, &error), LEAT_E_IO);
    assert_string_equal(error.file, path);
    leat_device_rows_close(rows);
    o.budget_bytes = bytes;
    assert_int_equal(open_fails(&o), LEAT_E_IO);
    munmap(data, bytes);
    close(fd);
    unlink(path);
}

/* ---- kernels ------------------------------------------------------------------------------------- */

TEST_CARD(a_kernel_is_compiled_once_for_a_card)
{
    static const double table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    _Alignas(16) float out[2];
    const int64_t id = 1;
    for (int i = 0; i < 3; i++) {
        struct leat_device_rows *rows = open_rows(table, LEAT_F64, 4, 2, 2);
        assert_ok(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error));
        leat_device_rows_close(rows);
        assert_int_equal(standin->compiled, usual.compiled + 1);
    }
}

TEST_CARD(a_card_newer_than_the_compiler_gets_what_its_driver_translates)
{
    standin->architecture = 120;
    struct leat_device_rows *rows = open_rows((const float[]){1, 2, 3}, LEAT_F32, 3, 1, 3);
    const int64_t id = 2;
    _Alignas(16) float out;
    assert_ok(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, &out, NULL, &error));
    assert_true(out == 3);
    leat_device_rows_close(rows);
}

/* Requests of 200 rows here and there: shifted, unshifted, and lines that they lie in. */
static void requests(uint64_t row_bytes, uint64_t *shifted, uint64_t *unshifted, uint64_t *lines)
{
    enum { COUNT = 400, N = 200 };
    uint8_t *memory = aligned_alloc(128, 128 + (COUNT * row_bytes + 127) / 128 * 128);
    const bool words = row_bytes % 4 == 0;
    struct leat_device_rows *rows =
        open_rows(memory, words ? LEAT_F32 : LEAT_U8, COUNT, words ? row_bytes / 4 : row_bytes, 0);
    uint8_t *out = aligned_alloc(16, (N * row_bytes + 15) / 16 * 16);
    int64_t ids[N];
    fill(memory, COUNT * row_bytes, LEAT_U8);
    for (int i = 0; i < N; i++)
        ids[i] = i * 7919 % COUNT;
    for (int i = 0; i < 2; i++) {
        standin->unshifted = i;
        standin->counts = true;
        standin->requests = standin->lines = 0;
        assert_ok(leat_device_rows_gather(rows, ids, true, N, words ? LEAT_F32 : LEAT_U8, out, NULL, &error));
        *(i ? unshifted : shifted) = standin->requests;
        *lines = standin->lines;
        for (int k = 0; k < N; k++)
            assert_memory_equal(out + (uint64_t)k * row_bytes, memory + (uint64_t)ids[k] * row_bytes, row_bytes);
    }
    leat_device_rows_close(rows);
    free(memory);
    free(out);
}

TEST_CARD(shifted_lanes_request_each_line_of_a_row_once)
{
    double gain = 0, most = 0;
    int n = 0;
    for (uint64_t row = 132; row <= 1000; row += 4 * test_every(3)) { /* of float32 */
        uint64_t shifted, unshifted, lines;
        requests(row, &shifted, &unshifted, &lines);
        assert_int_equal(shifted, lines);
        assert_true(unshifted >= lines);
        const double ratio = (double)unshifted / (double)shifted;
        if (test_full() || row % 132 == 0)
            printf("# rows of %" PRIu64 " B: %.2f requests, unshifted %.2f: %.2f times as many\n", row,
                   (double)shifted / 200, (double)unshifted / 200, ratio);
        gain += ratio;
        most = ratio > most ? ratio : most;
        n++;
    }
    printf("# rows of 132 to 1,000 B: %.2f times fewer requests, up to %.2f\n", gain / n, most);
    assert_true(gain / n > 1.5);
}

TEST_CARD(rows_of_bytes_and_small_rows_are_requested_as_seldom_as_can_be)
{
    for (uint64_t row = 129; row <= 1000; row += 26 * test_every(4) + 4) {
        uint64_t shifted, unshifted, lines;
        requests(row | 1, &shifted, &unshifted, &lines);
        assert_true(shifted <= unshifted);
    }
    for (uint64_t row = 16; row <= 128; row *= 2) { /* whole parts of a line: nothing to be shifted */
        uint64_t shifted, unshifted, lines;
        requests(row, &shifted, &unshifted, &lines);
        assert_int_equal(shifted, unshifted);
    }
}

/* ---- wrong calls --------------------------------------------------------------------------------- */

TEST_CARD(wrong_arguments_are_errors)
{
    struct leat_device_rows_options o = some_rows(-1);
    struct leat_device_rows *rows;
    const int64_t id = 0;
    _Alignas(16) float out[8];
    o.dtype = (enum leat_dtype)99;
    assert_int_equal(open_fails(&o), LEAT_E_INVALID);
    o.dtype = LEAT_F64;
    o.width = LEAT_DEVICE_MAX_ROW_BYTES / 8 + 1;
    assert_int_equal(open_fails(&o), LEAT_E_INVALID);
    o.width = 1 << 20;
    o.count = UINT64_C(1) << 62;
    assert_int_equal(open_fails(&o), LEAT_E_INVALID);
    o = some_rows(-1);
    o.data = NULL;
    assert_int_equal(open_fails(&o), LEAT_E_INVALID);
    o = some_rows(0);
    assert_ok(leat_device_rows_open(&o, &rows, &error));
    assert_int_equal(leat_device_rows_gather(rows, &id, true, 1, LEAT_I16, out, NULL, &error), LEAT_E_INVALID);
    assert_int_equal(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out + 1, NULL, &error), LEAT_E_INVALID);
    assert_int_equal(leat_device_rows_gather(rows, (const char *)&id + 1, true, 1, LEAT_F32, out, NULL, &error),
                     LEAT_E_INVALID);
    assert_int_equal(leat_device_rows_gather(rows, &id, true, UINT64_C(1) << 63, LEAT_F32, out, NULL, &error),
                     LEAT_E_INVALID);
    standin->fails = "cuLaunchKernel";
    standin->code = 719;
    assert_int_equal(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error), LEAT_E_IO);
    says("context is lost");
    standin->fails = "cuStreamSynchronize";
    assert_int_equal(leat_device_rows_check(rows, NULL, true, &error), LEAT_E_IO);
    standin->fails = NULL;
    leat_device_rows_close(rows);
}

TEST_CARD(a_forked_child_is_refused_before_it_uses_the_card)
{
    struct leat_device_rows_options o = some_rows(0);
    struct leat_device_rows *rows, *other;
    const int64_t id = 1;
    _Alignas(16) float out[2];
    assert_ok(leat_device_rows_open(&o, &rows, &error));
    const pid_t child = fork();
    if (!child) {
        bool good = leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error) == LEAT_E_FORKED;
        good = good && leat_device_rows_check(rows, NULL, true, &error) == LEAT_E_FORKED;
        good = good && leat_device_rows_open(&o, &other, &error) == LEAT_E_FORKED;
        leat_device_rows_close(rows);
        _exit(good && standin->current == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error));
    assert_true(out[1] == 4);
    leat_device_rows_close(rows);
}

TEST_CARD(each_allocation_and_each_call_of_the_driver_may_fail)
{
    static const char *const calls[] = {"cuCtxPushCurrent_v2",          "cuMemHostRegister_v2", "cuMemHostAlloc",
                                        "cuMemHostGetDevicePointer_v2", "cuLaunchKernel",       "cuStreamSynchronize"};
    const int64_t id = 1;
    _Alignas(16) float out[2];
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct leat_device_rows_options o = some_rows(0);
        struct leat_device_rows *rows;
        standin->fails = calls[i];
        standin->code = 999;
        int rc = leat_device_rows_open(&o, &rows, &error);
        rc = rc ? rc : leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error);
        rc = rc ? rc : leat_device_rows_check(rows, NULL, true, &error);
        standin->fails = NULL;
        leat_device_rows_close(rows);
        assert_true(rc || !strcmp(calls[i], "cuMemHostRegister_v2")); /* of which there is a copy then */
    }
    static const int64_t table[4] = {1, 2, 3, 4};
    for (int64_t n = 0, done = false; !done; n++) {
        struct leat_device_rows_options o = some_rows(0);
        struct leat_device_rows *rows;
        o.data = table;
        o.dtype = LEAT_I64;
        o.width = 1; /* a kernel of its own is made */
        o.nvrtc = "libnvrtc.so";
        fail_allocation(n);
        int rc = leat_device_rows_open(&o, &rows, &error);
        rc = rc ? rc : leat_device_rows_gather(rows, &id, true, 1, LEAT_F32, out, NULL, &error);
        done = !allocation_failed();
        assert_true(done ? !rc && out[0] == 2 : !rc || rc == LEAT_E_NOMEM);
        leat_device_rows_close(rows);
    }
}

TEST_MAIN_IN(set_up, NULL)
