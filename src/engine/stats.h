/*
 * The error report of a loader: stats.c.
 */
#ifndef LEAT_ENGINE_STATS_H
#define LEAT_ENGINE_STATS_H

#include "engine/loader.h"

/* Appends one line per broken row of a batch that is handed out, or one for an error that is raised. Without the lock:
 * a file may take its time. Without effect if no report was requested. */
void leat_report_broken(struct leat_loader *loader, const struct leat_batch *batch);
void leat_report_raised(struct leat_loader *loader, uint64_t epoch, uint64_t step, const struct leat_error *error);

#endif
