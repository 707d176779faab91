/* The functions of the shared memory that the files of this folder need beyond worker.h. */
#ifndef LEAT_WORKER_SHARE_H
#define LEAT_WORKER_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/holders.h"
#include "worker/worker.h"

/* The start of the shared memory: this process's own, or (`worker`) that of the process whose worker this is. NULL:
 * none. */
uint8_t *leat_share_base(bool worker);
/* In a worker process, once it has its parent's memory: the holders of its parts. */
struct leat_holders *leat_share_holders(void);

#endif
