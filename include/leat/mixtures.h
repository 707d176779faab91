/*
 * Loaders over several data sets in stated shares. leat.h includes this: it stands apart for its length alone.
 */
#include "leat/leat.h" /* which includes this, if it is the first */
#ifndef LEAT_MIXTURES_H
#define LEAT_MIXTURES_H

/* The behaviour of a source of a mixture that has given each of its samples once in an epoch: the epoch ends before the
 * first row that it cannot give; its share goes to the others, by their shares, and the epoch ends when all such
 * sources are through; or it begins its next pass. */
enum leat_exhausted { LEAT_EXHAUSTED_STOP = 0, LEAT_EXHAUSTED_REDISTRIBUTE, LEAT_EXHAUSTED_REPEAT };
/* The unit of shares: rows, or elements of a field. */
enum leat_mix_unit { LEAT_MIX_SAMPLES = 0, LEAT_MIX_TOKENS };
struct leat_mix_source {
    struct leat_dataset *dataset;         /* retained; data sets of a mixture have one schema */
    const struct leat_pack_options *pack; /* rows of one length for all sources; NULL for all: a row is a sample */
    double share;                         /* at least 0; those of all sources sum to 1 within 1e-6 */
    enum leat_exhausted exhausted;
    uint64_t limit; /* REPEAT: passes in an epoch, after which its share goes to the others; 0: no limit */
    const struct leat_one_of_options *one_of; /* NULL: a row is no group. Without `pack` */
};
/* Shares that hold from a row of the stream of all epochs on, one per source. */
struct leat_mix_point {
    uint64_t row;
    const double *shares;
};
struct leat_mix_options {
    size_t struct_size;
    const struct leat_mix_source *sources;
    uint32_t n_sources; /* at most 1024 */
    enum leat_mix_unit unit;
    const char *tokens_field; /* TOKENS of samples: the field whose elements count; NULL: "tokens" */
    /* Rows of an epoch at most. 0: as many as sources that stop or redistribute give; if all repeat, until the one that
     * is largest for its share was read once. */
    uint64_t epoch_rows;
    const struct leat_mix_point *schedule; /* rising rows, the first at 0; the shares of sources are ignored then */
    size_t n_points;
    bool linear; /* between two points shares follow a straight line, in at most 64 equal parts; else they jump */
};
#define LEAT_MIX_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(struct leat_mix_options), NULL, 0, LEAT_MIX_SAMPLES, NULL, 0, NULL, 0, false                            \
    }

/* As leat_loader_open, over several data sets in stated shares; docs/order.md says which row is of which source. The
 * order of the options (SEQUENTIAL, SHUFFLED or BLOCKS) holds inside each source, and their `pack` is ignored. If all
 * sources are views of one data set, sample ids are those of that data set, else those of leat_dataset_concat of the
 * sources; rows that are cut from documents are numbered source by source.
 * Everything is copied. Errors: those of leat_loader_open and leat_dataset_concat; INVALID too if shares do not sum to
 * 1 or a source with a share is empty, TYPE if rows of two sources are not alike. */
LEAT_API int leat_loader_open_mix(const struct leat_mix_options *mix, const struct leat_loader_options *options,
                                  struct leat_loader **out, struct leat_error *error);

/* Sets the shares of a mixture from a step on, until the next such decision; `n` is the number of its sources. `at` and
 * ranks as of leat_loader_set_batch_size. Each source goes on where it is. It ends a schedule. The decision enters the
 * log, and so the state. Errors: INVALID (no mixture; shares that are negative, not finite or do not sum to 1 within
 * 1e-6, or above 0 for an empty source; `at` as there), RANGE (no such step). */
LEAT_API int leat_loader_set_shares(struct leat_loader *loader, const struct leat_step *at, const double *shares,
                                    uint32_t n, struct leat_error *error);

/* The source of each row of this rank's batch `step` of `epoch`, whose ids leat_loader_plan gives, and its position in
 * that source's data set (for a row that is cut from documents: its number among those of the source). Both are freed
 * with leat_free. Errors: those of leat_loader_plan. */
LEAT_API int leat_loader_plan_domains(const struct leat_loader *loader, uint64_t epoch, uint64_t step,
                                      int32_t **domains, int64_t **positions, uint64_t *n, struct leat_error *error);

/* Counts how many of the first `rows` rows of an epoch come from each of the `n` sources of a mixture, without I/O:
 * counts[k] is for source k, in the order of leat_loader_open_mix. `rows` above those of the epoch means all of them.
 * The time is that of finding a position, whatever `rows` is. Errors: INVALID (no mixture, or not of n sources), RANGE
 * (an epoch without rows, or before decisions that were folded), NOMEM, FORKED. */
LEAT_API int leat_loader_mix_counts(const struct leat_loader *loader, uint64_t epoch, uint64_t rows, uint64_t *counts,
                                    uint32_t n, struct leat_error *error);

#endif
