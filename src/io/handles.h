/*
 * Files that stay open for as long as their data set is: opening one takes longer than reading a photo of it. A process
 * may only have so many open, and others need some too.
 */
#ifndef LEAT_IO_HANDLES_H
#define LEAT_IO_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

/* Whether one more file may stay open: at most half of those that the process may have (RLIMIT_NOFILE, as it is now),
 * and no more than LEAT_HANDLES_MOST. True: it counts until it is given back. Any thread. */
bool leat_handles_take(void);
/* The same of a file that stays open in any case. */
void leat_handles_count(void);
void leat_handles_give_back(void);

/* Each may be mapped as well, and a process has 65,530 mappings at most. */
#define LEAT_HANDLES_MOST 8192

#endif
