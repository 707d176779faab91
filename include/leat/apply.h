/*
 * libleat: samples in the caller's memory through a loader's program, for pipelines that read for themselves.
 *
 *     leat_dataset_lent     a data set without samples of its own
 *     leat_loader_open      with the program, over it: once
 *     leat_dataset_lend     the values of some samples
 *     leat_rows_apply       a batch of them, as often as there are samples
 */
#ifndef LEAT_APPLY_H
#define LEAT_APPLY_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The samples that a data set may be lent at a time. */
#define LEAT_MOST_LENT (UINT64_C(1) << 32)

/* A data set to which samples are lent. It says that it has LEAT_MOST_LENT of them, and those that are not lent cannot
 * be read. Errors: INVALID (schema), NOMEM. */
LEAT_API int leat_dataset_lent(const struct leat_field *fields, size_t n_fields, struct leat_dataset **out,
                               struct leat_error *error);

/* Lends `n` samples to a data set of leat_dataset_lent, in the place of those before: values[f * n + i] is field f of
 * sample i, whole, and has no path. The array is copied, and the values are not: they stay as they are until the next
 * call; n = 0 ends that. Not while leat_rows_apply runs, or anything else reads the data set. Errors: INVALID (another
 * data set; a path; a value of fixed size that has another one; text that is not UTF-8, or no JSON: the error names
 * sample and field), RANGE, NOMEM, after each of which nothing is lent. */
LEAT_API int leat_dataset_lend(struct leat_dataset *dataset, const struct leat_value_ref *values, uint64_t n,
                               struct leat_error *error);

/* Makes a batch of the first `n` samples that are lent to the loader's data set, by one call at a time. Row i has the
 * random key keys[i], so its values are those that a loader makes of the same bytes for a row with this key. By the
 * loader's `on_error`, samples that are broken are left out, or another one of the `n` takes their place, drawn by the
 * row's key; samples that go with a row (Mosaic) are drawn likewise. Once it returns, no thread reads the samples.
 * Errors: INVALID (another data set), RANGE (no such samples), UNSUPPORTED (the program draws parameters per batch, for
 * a position in an epoch), those of leat_loader_batch_at. */
LEAT_API int leat_rows_apply(struct leat_loader *loader, uint64_t n, const uint64_t *keys, struct leat_batch **out,
                             struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
