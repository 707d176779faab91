/* Letters of sequences, counted: residues by their bytes, and qualities as FASTQ has them, by Phred+33. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stats/stats.h"

static json_t *share(uint64_t part, uint64_t all)
{
    return all ? json_real((double)part / (double)all) : json_null();
}

static uint64_t sum_of(const uint64_t counts[256], const char *letters)
{
    uint64_t sum = 0;
    for (; *letters; letters++)
        sum += counts[(uint8_t)*letters] + counts[(uint8_t)tolower(*letters)];
    return sum;
}

static json_t *list_of(const uint64_t counts[256], uint64_t all)
{
    json_t *list = json_array();
    for (unsigned b = 0; b < 256; b++)
        if (counts[b] && cli_is_residue((uint8_t)b)) {
            const char name[2] = {(char)b};
            json_array_append_new(list, json_pack("{ss sI so}", "residue", name, "count", (json_int_t)counts[b],
                                                  "share", share(counts[b], all)));
        }
    return list;
}

static void add_residues(const uint64_t counts[256], json_t *into)
{
    uint64_t all = 0, letters = 0, lower = 0, known = 0;
    for (unsigned b = 0; b < 256; b++) {
        const bool letter = b < 128 && isalpha((int)b);
        all += counts[b];
        known += cli_is_residue((uint8_t)b) ? counts[b] : 0;
        letters += letter ? counts[b] : 0;
        lower += letter && islower((int)b) ? counts[b] : 0;
    }
    const bool bases = cli_alphabet_of(counts) == CLI_NUCLEOTIDES;
    const uint64_t standard = sum_of(counts, bases ? "ACGTU" : "ACDEFGHIKLMNPQRSTVWY");
    json_object_set_new(into, "alphabet", letters ? json_string(bases ? "nucleotides" : "amino acids") : json_null());
    json_object_set_new(into, "acgtun", share(sum_of(counts, "ACGTUN"), letters));
    json_object_set_new(into, "residues", list_of(counts, all));
    json_object_set_new(into, "gc", bases ? share(sum_of(counts, "CG"), standard) : json_null());
    json_object_set_new(into, "unknown", share(sum_of(counts, bases ? "N" : "X"), all));
    json_object_set_new(into, "not_standard", share(all - standard, all));
    json_object_set_new(into, "lower_case", share(lower, letters));
    json_object_set_new(into, "no_residues", json_integer((json_int_t)(all - known)));
}

static void add_qualities(const uint64_t counts[256], json_t *into)
{
    enum { ZERO = '!', SCORES = '~' - '!' + 1 };
    static const double at[] = {0.05, 0.5, 0.95};
    const uint64_t *of = counts + ZERO;
    uint64_t n = 0, sum = 0, outside = 0, from20 = 0, from30 = 0;
    unsigned least = SCORES, most = 0, quantiles[3];
    for (unsigned b = 0; b < 256; b++)
        outside += b < ZERO || b >= ZERO + SCORES ? counts[b] : 0;
    for (unsigned q = 0; q < SCORES; q++) {
        n += of[q];
        sum += q * of[q];
        from20 += q >= 20 ? of[q] : 0;
        from30 += q >= 30 ? of[q] : 0;
        if (of[q]) {
            least = q < least ? q : least;
            most = q;
        }
    }
    json_object_set_new(into, "q20", share(from20, n));
    json_object_set_new(into, "q30", share(from30, n));
    json_object_set_new(into, "no_qualities", json_integer((json_int_t)outside));
    json_object_set_new(into, "scores", json_null());
    if (!n)
        return;
    for (int k = 0; k < 3; k++) {
        uint64_t before = 0;
        const uint64_t wanted = (uint64_t)llround((double)(n - 1) * at[k]);
        for (quantiles[k] = 0; (before += of[quantiles[k]]) <= wanted; quantiles[k]++)
            ;
    }
    json_t *edges = json_array(), *bins = json_array();
    for (unsigned q = least; q <= most + 1; q++) {
        json_array_append_new(edges, json_integer(q));
        if (q <= most)
            json_array_append_new(bins, json_integer((json_int_t)of[q]));
    }
    json_object_set_new(into, "scores",
                        json_pack("{si si si sf si si so so}", "least", least, "p5", quantiles[0], "median",
                                  quantiles[1], "mean", (double)sum / (double)n, "p95", quantiles[2], "most", most,
                                  "edges", edges, "bins", bins));
}

void cli_stats_composition(enum cli_letters letters, const uint64_t counts[256], json_t *into)
{
    if (letters == CLI_RESIDUES)
        add_residues(counts, into);
    else
        add_qualities(counts, into);
}

static int by_length(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

uint64_t cli_stats_n50(uint64_t *lengths, size_t n)
{
    uint64_t all = 0, sum = 0;
    qsort(lengths, n, sizeof *lengths, by_length);
    for (size_t i = 0; i < n; i++)
        all += lengths[i];
    for (size_t i = 0; i < n; i++)
        if ((sum += lengths[i]) >= all - all / 2)
            return lengths[i];
    return 0;
}
