/*
 * The contents of a data set, in numbers. Everything is collected into one JSON object, which is printed as it is, as a
 * table for a person, or drawn.
 *
 *     {"path": .., "notice": "", "count": 128, "looked_at": 128, "broken": 1 (null, where "where" is there),
 *      "where": the clause that chose the samples, or absent,
 *      "annotations": counts of boxes as the file has them, or absent,
 *      "images":  [{"field", "width": Q, "height": Q, "bytes": Q, "kinds": {"JPEG": 128}, "shapes": [[w, h, n], ..],
 *                   "distinct_shapes": 31}],
 *      "classes": [{"field", "per": "sample" or "box", "count", "used", "names", "outside": 0,
 *                   "counts": [{"class", "name", "count"}]}],
 *      "boxes":   [{"field", "count", "images_without", "per_image": Q, "side": Q, "aspect": Q,
 *                   "small", "medium", "large", "not_finite", "empty", "outside", "cut", "tiny",
 *                   "suspect": a sentence, or absent}],
 *      "sparse":  [{"field", "dtype", "rows", "columns", "total", "values": Q of a row, "read": rows of which follow
 *                   "used": columns that occur, "share": of all columns, "wrong": rows whose columns do not rise,
 *                   "sums": Q}]; both Q have "p25" and "p75", too
 *      "events":  {"events", "nodes", "first", "last": times, "equal_times": events at the time of the one before,
 *                   "out_of_order": before it, "self_loops", "repeated": events of a (src, dst) that had one before,
 *                   "degree": Q of the events of a node, "pending": [{"batch": 50, "share": of (event, side) pairs
 *                   whose node has an earlier event in its batch}]}, or absent
 *      "lengths": [{"field", "unit": "bytes" or "rows", "total", ...Q}],
 *      "numbers": [{"field", ...Q}],
 *      "texts":   [{"field", "unit": "bytes" or "tokens", "documents", "empty", "broken", "total", "lengths": Q,
 *                   "characters_total", "characters": Q, "not_utf8" (of texts), "largest_token" (of tokens),
 *                   "distinct", "duplicates", "repeated": [{"count", "samples": [..], "begins"}],
 *                   "by": [{"value", "documents", "total", "characters"}]}], only if they were read
 *                  of residues "unit" is "residues", and there are "n50", "alphabet": "nucleotides" or "amino acids",
 *                   "acgtun", "residues": [{"residue": "A", "count", "share"}], "gc", "unknown", "not_standard",
 *                   "lower_case", "no_residues"; of qualities it is "qualities": "q20", "q30", "scores": Q,
 *                   "no_qualities"
 *      "chosen": the field of "texts", where it was not asked for, or absent
 *      "by": the field whose values "by" of texts has, or absent}
 *
 *     Q = {"least", "p5", "median", "mean", "p95", "most", "edges": [..], "bins": [..]}: NULL of nothing; no bins where
 *         the numbers lie farther apart than doubles can say
 */
#ifndef LEAT_CLI_STATS_H
#define LEAT_CLI_STATS_H

#include <jansson.h>
#include <stdatomic.h>

#include "args.h"
#include "leat/leat.h"
#include "residues.h"

/* Finite numbers of which Q is made. If there are very many, only every 2nd, 4th, 8th .. is kept for the quantiles and
 * bins. */
struct cli_numbers {
    double *at;
    size_t n, room;
    uint64_t all, stride; /* numbers added; the number that each kept one stands for */
    double sum, least, most;
};
bool cli_numbers_add(struct cli_numbers *numbers, double value); /* false: no memory */
/* Q; sorts them. `whole`: they are whole numbers, whose bins begin at whole ones. */
json_t *cli_numbers_json(struct cli_numbers *numbers, bool whole);
/* "p25" and "p75" into the Q that was made of them. */
void cli_numbers_quartiles(const struct cli_numbers *numbers, json_t *q);
void cli_numbers_clear(struct cli_numbers *numbers);

struct cli_stats_wish {
    uint64_t samples; /* at most so many are decoded if the sizes of photos are not known without */
    bool text;        /* read all texts and tokens */
    bool no_text;     /* do not choose a field of documents if none was requested */
    const char *by;   /* the field of a property by which their sums are divided, or NULL */
};
/* The object above. NULL after a message. */
json_t *cli_stats_collect(const struct cli_command *command, const struct leat_dataset *dataset, const char *path,
                          const struct cli_stats_wish *wish, int *exit_code);
/* Whether a field has texts, or lists of tokens. */
bool cli_stats_is_text(const struct leat_field *field);
/* One of "texts": reads all values, by all cores. `by`: a field of texts or single numbers, or -1. NULL if it was
 * interrupted, or with `error` filled. */
json_t *cli_stats_text(const struct leat_dataset *dataset, size_t field, enum cli_letters letters, int by,
                       bool *short_of_memory, struct leat_error *error);
/* One of "sparse". NULL with `error` filled, or without memory. `done`: counts the rows that were read. */
json_t *cli_stats_sparse(const struct leat_dataset *dataset, size_t field, atomic_ullong *done, bool *short_of_memory,
                         struct leat_error *error);
/* Whether the data set has events: fields src, dst and t, whose numbers are put into `fields`. */
bool cli_stats_are_events(const struct leat_dataset *dataset, int fields[3]);
/* "events". NULL with `error` filled, or without memory. */
json_t *cli_stats_events(const struct leat_dataset *dataset, const int fields[3], bool *short_of_memory,
                         struct leat_error *error);
/* How many rows it reads. */
uint64_t cli_stats_sparse_rows(const struct leat_dataset *dataset, size_t field);
/* Adds what the letters of a field are, by how often each byte occurs. */
void cli_stats_composition(enum cli_letters letters, const uint64_t counts[256], json_t *into);
/* The longest length such that values at least as long have half of everything, or more; 0 of nothing. Sorts them. */
uint64_t cli_stats_n50(uint64_t *lengths, size_t n);
/* Whether a field, one of "lengths", has as many values in each sample as there are boxes, as far as its statistics
 * tell. */
bool cli_stats_per_box(const json_t *stats, const json_t *lengths);
void cli_stats_print(const json_t *stats);
/* Draws charts of it as a PNG. False after a message. */
bool cli_stats_plot(const struct cli_command *command, const json_t *stats, const char *path);

#endif
