/*
 * What planning a mixture costs: rows of 5 sources a second on one core (of CPU time), with the counts compared with
 * the shares at every prefix of 10 million rows; and resuming at row 10^9 of 100 sources: a fresh plan, a state that is
 * loaded, and its first batch, in milliseconds and in memory of the process. The same by tokens where rows vary in
 * length.
 *
 *     gcc -O2 -std=gnu11 -Iinclude -Isrc bench/bench_mixture.c build/gcc/libleat_core.a -lxxhash -ljansson -lm \
 *         -lpthread -o bench_mixture
 *     bench_mixture
 *
 *     5 sources, shuffled:   27.3 million rows a second; 10000000 prefixes, at most 0.78 rows from their shares
 */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plan/plan.h"

#define ROWS 10000000
#define BATCH 1024
#define FAR 64

static void stop(int rc, const struct leat_error *error)
{
    if (!rc)
        return;
    fprintf(stderr, "bench_mixture: %s: %s\n", leat_status_name(rc), error->message);
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long memory_kib(const char *what)
{
    char line[256];
    long value = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, what, strlen(what)))
            value = strtol(line + strlen(what) + 1, NULL, 10);
    if (f)
        fclose(f);
    return value;
}

static struct leat_plan *open_mixture(uint32_t n, enum leat_order order, enum leat_exhausted exhausted,
                                      uint64_t epoch_rows, double *shares)
{
    struct leat_plan_source sources[256] = {0};
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += shares[k] = 1.0 / (1 + k);
    for (uint32_t k = 0; k < n; k++)
        sources[k] = (struct leat_plan_source){.count = 100000 + 777 * k,
                                               .share = shares[k] /= sum,
                                               .exhausted = exhausted,
                                               .order = {.order = order, .block_rows = 64}};
    struct leat_plan_spec spec = {.sources = sources,
                                  .n_sources = n,
                                  .mixed = true,
                                  .epoch_rows = epoch_rows,
                                  .seed = 1,
                                  .global_batch = BATCH,
                                  .world_size = 1};
    struct leat_plan *plan;
    struct leat_error error;
    stop(leat_plan_new(&spec, &plan, &error), &error);
    return plan;
}

static void plan_rows(const char *name, enum leat_order order)
{
    static struct leat_plan_row rows[BATCH];
    double shares[256], spent = 0, worst = 0;
    uint64_t counts[5] = {0}, total = 0;
    struct leat_plan *plan = open_mixture(5, order, LEAT_EXHAUSTED_REPEAT, ROWS, shares);
    struct leat_plan_batch batch = {0};
    for (struct leat_position at = {0, 0}; !leat_plan_batch(plan, at, &batch); at = batch.next) {
        const double begun = seconds(CLOCK_PROCESS_CPUTIME_ID);
        leat_plan_rows(plan, &batch, 0, batch.rows, rows);
        spent += seconds(CLOCK_PROCESS_CPUTIME_ID) - begun;
        for (uint64_t i = 0; i < batch.global_rows; i++) {
            counts[rows[i].piece.source]++;
            total++;
            for (int k = 0; k < 5; k++) {
                const double off = fabs((double)counts[k] - shares[k] * (double)total);
                worst = off > worst ? off : worst;
            }
        }
        if (batch.last)
            break;
    }
    printf("5 sources, %s: %6.1f million rows a second; %llu prefixes, at most %.2f rows from their shares\n", name,
           (double)total / spent / 1e6, (unsigned long long)total, worst);
    leat_plan_free(plan);
}

/* Shares of tokens, of rows that vary in length: 5 sources of `each` rows; then rows far away, in passes not summed.
 */
static void plan_tokens(const char *name, enum leat_order order, uint64_t each)
{
    static struct leat_plan_row rows[BATCH];
    struct leat_plan_source sources[5] = {0};
    struct leat_plan_spec spec = {.sources = sources,
                                  .n_sources = 5,
                                  .mixed = true,
                                  .epoch_rows = UINT64_C(1) << 40,
                                  .seed = 1,
                                  .global_batch = BATCH,
                                  .world_size = 1};
    uint64_t *lengths = malloc(each * sizeof *lengths), state = 1;
    double share[5], tokens[5] = {0}, total = 0, worst = 0, spent = 0, sum = 0;
    for (uint64_t i = 0; i < each; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        lengths[i] = 1 + (state >> 33) % ((state >> 40) % 16 ? 1000 : 20000);
    }
    for (uint32_t k = 0; k < 5; k++)
        sum += share[k] = 1.0 / (1 + k);
    for (uint32_t k = 0; k < 5; k++)
        sources[k] = (struct leat_plan_source){.count = each,
                                               .share = share[k] /= sum,
                                               .exhausted = LEAT_EXHAUSTED_REPEAT,
                                               .row_tokens = lengths,
                                               .order = {.order = order, .block_rows = 64}};
    struct leat_plan *plan;
    struct leat_error error;
    stop(leat_plan_new(&spec, &plan, &error), &error);
    struct leat_plan_batch batch = {0};
    for (struct leat_position at = {0, 0}; at.row < ROWS; at = batch.next) {
        stop(leat_plan_batch(plan, at, &batch), &error);
        const double begun = seconds(CLOCK_PROCESS_CPUTIME_ID);
        leat_plan_rows(plan, &batch, 0, batch.rows, rows);
        spent += seconds(CLOCK_PROCESS_CPUTIME_ID) - begun;
        for (uint64_t i = 0; i < batch.rows; i++) {
            tokens[rows[i].piece.source] += (double)lengths[rows[i].piece.position];
            total += (double)lengths[rows[i].piece.position];
            for (int k = 0; k < 5; k++)
                worst = fmax(worst, fabs(tokens[k] - share[k] * total));
        }
    }
    double mean = 0, most = 0;
    for (uint64_t i = 0; i < FAR; i++) {
        const double begun = seconds(CLOCK_PROCESS_CPUTIME_ID);
        const uint64_t row = UINT64_C(1000000000) + i * UINT64_C(7654321);
        stop(leat_plan_batch(plan, (struct leat_position){0, row / BATCH * BATCH}, &batch), &error);
        stop(leat_plan_rows(plan, &batch, 0, batch.rows, rows), &error);
        const double ms = 1e3 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - begun);
        mean += ms / FAR;
        most = fmax(most, ms);
    }
    printf("5 sources of %llu rows, by tokens, %s: %5.1f million rows a second; at most %.0f tokens (rows have up to "
           "20000) from their shares; %d rows from 10^9 on, far apart: each in %.0f ms, at most %.0f\n",
           (unsigned long long)each, name, ROWS / spent / 1e6, worst, FAR, mean, most);
    leat_plan_free(plan);
    free(lengths);
}

static void resume(const char *name, enum leat_exhausted exhausted)
{
    static struct leat_plan_row rows[BATCH];
    const uint8_t print[16] = {1};
    double shares[256];
    const uint64_t far = UINT64_C(1000000000), each = exhausted == LEAT_EXHAUSTED_REPEAT ? UINT64_C(1) << 40 : 0;
    struct leat_plan *plan = open_mixture(100, LEAT_ORDER_SHUFFLED, exhausted, each, shares);
    struct leat_position at = {each ? 0 : far / leat_plan_epoch_rows(plan, 0), 0};
    struct leat_error error;
    char *json;
    stop(leat_plan_seek(plan, at.epoch, (each ? far : leat_plan_epoch_rows(plan, 0) / 2) / BATCH, &at), &error);
    stop(leat_plan_state(plan, print, at, NULL, &json, &error), &error);
    leat_plan_free(plan);
    malloc_trim(0);
    const long before = memory_kib("VmRSS:");
    const double begun = seconds(CLOCK_PROCESS_CPUTIME_ID);
    struct leat_plan_batch batch;
    plan = open_mixture(100, LEAT_ORDER_SHUFFLED, exhausted, each, shares);
    stop(leat_plan_load(plan, print, json, &at, NULL, NULL, &error), &error);
    stop(leat_plan_batch(plan, at, &batch), &error);
    stop(leat_plan_rows(plan, &batch, 0, batch.rows, rows), &error);
    printf("100 sources, %s: resume at epoch %llu row %llu: %.2f ms, %+.1f MB, state of %zu bytes\n", name,
           (unsigned long long)at.epoch, (unsigned long long)at.row, 1e3 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - begun),
           (double)(memory_kib("VmRSS:") - before) / 1024, strlen(json));
    free(json);
    leat_plan_free(plan);
}

int main(void)
{
    static const char *const names[] = {"that stop", "that redistribute", "that repeat"};
    for (int k = 0; k < 3; k++) { /* in a process of its own, so that no memory is used again */
        fflush(stdout);
        const pid_t child = fork();
        if (!child) {
            resume(names[k], (enum leat_exhausted)k);
            return 0;
        }
        waitpid(child, NULL, 0);
    }
    plan_rows("sequential", LEAT_ORDER_SEQUENTIAL);
    plan_rows("shuffled", LEAT_ORDER_SHUFFLED);
    plan_rows("in blocks", LEAT_ORDER_BLOCKS);
    plan_tokens("sequential", LEAT_ORDER_SEQUENTIAL, 1000000);
    plan_tokens("shuffled", LEAT_ORDER_SHUFFLED, 1000000);
    return 0;
}
