/*
 * The log for a person: nothing unless LEAT_LOG is set ("error", "warning", "info", "debug"), then lines on standard
 * error, or in the file that LEAT_LOG_FILE names. One write per line, so that lines of several threads stay whole.
 */
#ifndef LEAT_BASE_LOG_H
#define LEAT_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum leat_log_level { LEAT_LOG_ERROR = 1, LEAT_LOG_WARNING, LEAT_LOG_INFO, LEAT_LOG_DEBUG };

/* Says on standard error, once, that LEAT_LOG is no level. Called when data sets and files are opened: a run may have
 * nothing to log. */
void leat_log_check(void);

/* A whole number in the environment. False: it is not set, or is none, which is said on standard error. */
bool leat_log_number(const char *variable, uint64_t *out);

/* Any thread. The level is read from the environment once. */
void leat_log(enum leat_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
